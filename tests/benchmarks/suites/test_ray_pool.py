"""Suites on the nodes of a Ray cluster."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.benches import SUITE, bench, results, suite
from tests.support.processes import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head, and a node with two CPUs."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    made.add_node(num_cpus=2)
    yield made
    made.shutdown()


def on(cluster: Any) -> list[str]:
    return ["--engine", "ray", "--address", cluster.address, "--trusted-network"]


def test_nodes_and_this_machine_agree(cluster: Any, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    only = ["--only", "random", "--only", "gold"]
    assert bench(suite(tmp_path), "--output", str(here), *only) == 0
    assert bench(suite(tmp_path), "--output", str(there), *on(cluster), "--only", "random") == 0
    times = {path: path.stat().st_mtime_ns for path in there.glob("*/status.json")}
    assert len(times) == 3
    assert bench(suite(tmp_path), "--output", str(there), *only) == 0
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert results(there) == results(here)


def test_failures_on_ray(cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = ["--output", str(tmp_path / "out"), *on(cluster)]
    assert bench(suite(tmp_path), *output, "--only", "broken") == 1
    assert "FAILED: broken, seed 0" in capsys.readouterr().err
    wide = SUITE.replace("{method: gold}", "{method: gold, cores: 3}")
    assert bench(suite(tmp_path, wide), *output[:1], str(tmp_path / "wide"), *on(cluster)) == 1
    assert "arm gold needs 3 cores and 0 GPUs, and no node" in capsys.readouterr().err


def test_ctrl_c_ends_all_processes(cluster: Any, tmp_path: Path) -> None:
    long = SUITE.replace("samples: 2", "samples: 20000")
    command = [sys.executable, "-m", "llm_decpomdp.benchmarks", "bench", suite(tmp_path, long)]
    bench = subprocess.Popen([*command, "--output", str(tmp_path / "out"), *on(cluster)], cwd=ROOT)
    cells = ["pgrep", "-f", f"benchmarks.cli.suite_job {tmp_path}"]
    deadline = time.monotonic() + 120
    while subprocess.run(cells, stdout=subprocess.DEVNULL).returncode:
        assert time.monotonic() < deadline and bench.poll() is None
        time.sleep(0.2)
    bench.send_signal(signal.SIGINT)
    assert bench.wait(120) == 130
    assert subprocess.run(cells, stdout=subprocess.DEVNULL).returncode == 1
