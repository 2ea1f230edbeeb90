"""The doctor examines the memory, the Python of vLLM, and the nodes of a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from llm_decpomdp.agents.remote.options import PYTHON_VARIABLE
from llm_decpomdp.benchmarks.cli.main import app
from llm_decpomdp.benchmarks.doctor import cluster, memory
from llm_decpomdp.benchmarks.doctor.examine import vllm
from tests.support.commands import call


@pytest.fixture
def meminfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 2.25 GiB free and no container around it."""
    path = tmp_path / "meminfo"
    path.write_text(f"MemTotal: 8000000 kB\nMemAvailable:    {int(2.25 * 2**20)} kB\n")
    monkeypatch.setattr(memory, "MEMINFO", path)
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "cgroup")
    return path


def test_demo_and_doctor_compare_what_is_free_with_what_the_demo_needs(
    meminfo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("demo") == 1
    error = capsys.readouterr().err
    assert error.startswith("error: the demo needs 3.0 GiB of memory, and 2.2 of ")
    assert "--override algorithm.train_batch_size=1" in error
    assert call("doctor") == 0
    assert "2.2 GiB of memory are free: `llm-decpomdp demo` needs 3.0" in capsys.readouterr().out


def test_the_limit_of_a_container_counts(meminfo: Path) -> None:
    memory.CGROUP.mkdir()
    (memory.CGROUP / "memory.max").write_text("max\n")
    assert memory.free() == 2.25
    (memory.CGROUP / "memory.max").write_text(f"{2 * memory.GIB}\n")
    (memory.CGROUP / "memory.current").write_text(f"{memory.GIB}\n")
    (memory.CGROUP / "memory.stat").write_text(f"anon 5\ninactive_file {memory.GIB // 2}\n")
    assert memory.free() == 1.5


def test_a_system_that_does_not_tell_is_not_held_up(meminfo: Path) -> None:
    meminfo.unlink()
    assert memory.free() is None
    memory.require_for_demo()


@pytest.mark.parametrize(
    ("script", "ok", "message"),
    [
        ("echo vllm 0.33 torch 2.14", True, "(vllm 0.33 torch 2.14)"),
        ("echo no module vllm >&2; exit 1", False, "(no module vllm)"),
        (None, False, "/no/python"),
    ],
)
def test_the_python_of_vllm_tells_its_versions(
    script: str | None, ok: bool, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    assert list(vllm()) == []
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setenv(PYTHON_VARIABLE, str(python) if script else "/no/python")
    (finding,) = vllm()
    assert finding.ok == ok and message in finding.message and finding.requested


HERE = {"Python": "3.11.7", "torch": "2.13.0"}


@pytest.mark.parametrize(
    ("versions", "layers", "expected"),
    [
        (
            HERE,
            {"seccomp": "", "landlock": ""},
            [(True, False, "node a: all layers of the sandbox are on")],
        ),
        (
            {**HERE, "torch": "2.12.0"},
            {"seccomp": "the kernel has none", "landlock": ""},
            [
                (False, True, "node a: torch 2.12.0 (here 2.13.0)"),
                (False, True, "node a: sandbox without seccomp: the kernel has none"),
            ],
        ),
    ],
)
def test_a_node_is_compared_with_this_one(
    versions: dict[str, str], layers: dict[str, str], expected: list[Any]
) -> None:
    found = cluster._compare_node("node a", {"versions": versions, "layers": layers}, HERE)
    assert [(finding.ok, finding.core, finding.message) for finding in found] == expected


@pytest.mark.slow
def test_every_node_of_a_cluster_is_asked() -> None:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=0)  # as a node whose processors are all in use
    try:
        arguments = ["doctor", "--cluster", made.address, "--trusted-network"]
        done = CliRunner().invoke(app, arguments)
    finally:
        made.shutdown()
    assert done.exit_code == 0, done.output
    assert done.output.count("all layers of the sandbox are on") == 2
