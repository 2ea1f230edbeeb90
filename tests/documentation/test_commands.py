"""The commands of the README and the pages: all are understood, and those that take seconds run."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from llm_decpomdp import registry
from llm_decpomdp.benchmarks.cli.main import app, main, spread
from llm_decpomdp.benchmarks.config.catalogue import find_config
from llm_decpomdp.benchmarks.config.load import load_config
from tests.documentation.blocks import blocks
from tests.support.packages import looked_up_anew, write_example
from tests.support.processes import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:Overriding environment")

PREFIXES = ("llm-decpomdp ", "-m llm_decpomdp.benchmarks ")

COMMANDS = [(block.page, line) for block in blocks("bash") for line in block.commands]
OURS = [
    (page, line.partition(prefix)[2])
    for page, line in COMMANDS
    for prefix in PREFIXES
    if prefix in line
]

QUICK = ("list", "bench --list", "bench couplets.yaml --dry-run", "plan demo")
"""Commands that take a second in this process."""

OWN = {"mine": "demo.yaml", "my_config.yaml": "demo.yaml"}
"""Configurations that a page's reader has, and what stands for them."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The current folder, with the files and packages that pages tell their reader to have."""
    site = tmp_path / "site"
    write_example(site)
    for block in blocks():
        if block.saved_as:
            (tmp_path / block.saved_as).write_text(block.text)
    shutil.copy(ROOT / "examples" / "own_family.py", tmp_path)
    for name, source in OWN.items():
        shutil.copy(ROOT / "benchmarks" / "configs" / source, tmp_path / name)
    (row,) = blocks("json")
    (tmp_path / "problems.jsonl").write_text(f"{row.text.strip()}\n" * 8)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    monkeypatch.setenv("LLM_DECPOMDP_VLLM_PYTHON", sys.executable)
    with looked_up_anew(site, monkeypatch):
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        yield tmp_path
    for name in ("mine", "own_family"):
        sys.modules.pop(name, None)


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    """The name and the options of a command."""
    name, *words = spread(shlex.split(line))
    group: Any = get_command(app)
    return name, group.commands[name].make_context(name, words).params


def test_every_command_is_understood(folder: Path) -> None:
    assert len(OURS) > 70
    for page, line in OURS:
        name, options = parsed(line)
        config = options.get("config")
        if name in ("train", "eval") and config is not None:
            path = Path(config) if Path(config).exists() else find_config(config)
            load_config(path, options["override"] or ()), page


@pytest.mark.parametrize("line", QUICK)
def test_a_quick_command_runs(folder: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = [command for _, command in OURS if command.startswith(line)][:1]
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line))
    assert stop.value.code == 0 and capsys.readouterr().out


def test_every_make_target_of_the_pages_exists() -> None:
    targets = {
        line.split()[0] for line in (ROOT / "Makefile").read_text().splitlines() if ": " in line
    }
    for page, line in COMMANDS:
        if line.startswith("make "):
            assert {f"{target}:" for target in line.split()[1:]} <= targets, (page, line)
