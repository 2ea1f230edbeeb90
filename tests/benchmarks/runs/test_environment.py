"""A training process is started with the settings that its libraries read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.runs import SETTINGS
from tests.support.processes import ROOT

CODE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from llm_decpomdp.benchmarks.runs import SETTINGS, restart_with_settings
print("start", flush=True)
restart_with_settings()
print({name: os.environ.get(name) for name in SETTINGS} , sys.argv[2:])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are those of glibc")
def test_the_process_starts_anew_once_and_keeps_what_the_user_has_set(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CODE)
    environment = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    environment["MALLOC_TOP_PAD_"] = "12345"
    result = subprocess.run(
        [sys.executable, str(script), str(ROOT), "an argument", "--flag"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, last = result.stdout.splitlines()
    assert first == second == "start"
    assert last == f"{ {**SETTINGS, 'MALLOC_TOP_PAD_': '12345'} } ['an argument', '--flag']"
