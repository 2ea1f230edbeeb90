"""The Python of vLLM is looked at where the environment names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.agents.remote.options import PYTHON_VARIABLE
from llm_decpomdp.benchmarks.doctor.examine import vllm


def test_the_python_of_vllm_tells_its_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    assert list(vllm()) == []
    python = tmp_path / "python"
    for script, ok, told in (
        ("echo vllm 0.33 torch 2.14", True, "(vllm 0.33 torch 2.14)"),
        ("echo no module vllm >&2; exit 1", False, "(no module vllm)"),
    ):
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        monkeypatch.setenv(PYTHON_VARIABLE, str(python))
        (finding,) = vllm()
        assert finding.ok == ok and finding.message.endswith(told) and finding.requested
    monkeypatch.setenv(PYTHON_VARIABLE, "/no/python")
    (finding,) = vllm()
    assert not finding.ok and "/no/python" in finding.message
