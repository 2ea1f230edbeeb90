"""Suites that are stopped or killed go on as if they had not been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.benches import call, results, suite, two_at_once

LONG = """# Long enough to be stopped in the middle.
config: demo
override: [dataset.source=bundled]
tasks: 3
samples: 150
cells: [{method: random, seeds: [0, 1]}]
"""
EPISODES = 3 * 150

PATIENCE = 60
"""Seconds until a process that should end by itself is said to hang."""

TRAINED = """# A training that can be stopped.
config: demo
override:
  - model.name=tiny-random
  - model.max_new_tokens=4
  - dataset.source=bundled
  - algorithm.max_updates=6
  - algorithm.num_generations=2
  - evaluation.num_tasks=1
  - output.checkpoint_every=1
  - output.report=false
tasks: 2
cells: [{method: train}]
"""


def start(folder: Path, text: str, *, background: bool = False) -> subprocess.Popen[bytes]:
    """A bench of a suite; in the `background` of a script it ignores SIGINT, as all that it starts do."""
    command = [sys.executable, "-m", "llm_decpomdp.benchmarks", "bench", suite(folder, text)]
    return subprocess.Popen(
        [*command, "--output", str(folder / "out"), "--cores", "2"],
        stderr=subprocess.PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN) if background else None,
    )


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.02)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def workers(folder: Path) -> list[int]:
    """The processes of jobs in a folder."""
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if f"bench.cell\0{folder}".encode() in _read(path)
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the long suite finds when nothing stops it."""
    folder = tmp_path_factory.mktemp("unharmed")
    assert call(suite(folder, LONG), "--output", str(folder / "out")) == 0
    return results(folder / "out")


def jobs(folder: Path) -> list[Path]:
    """The folders of both seeds of the long suite; on a busy machine one may be done before the other begins."""
    return [folder / "out" / f"random-seed-{seed}" for seed in (0, 1)]


def under_way(folder: Path) -> list[int]:
    """The seeds of which some episodes have been played, and not all."""
    return [
        seed
        for seed, job in enumerate(jobs(folder))
        if 3 < lines(job / "times.jsonl") and not (job / "status.json").exists()
    ]


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The long suite, in the middle of a seed."""
    process = start(tmp_path, LONG)
    wait_for(lambda: bool(under_way(tmp_path)), process)
    yield process
    process.kill()
    process.wait()


def require_cut(tmp_path: Path) -> None:
    """Check that a job was stopped on its way, and that none of these passes for a finished one."""
    cut = [folder for folder in jobs(tmp_path) if 0 < lines(folder / "episodes.jsonl") < EPISODES]
    assert cut and not any((folder / "status.json").exists() for folder in cut)


def rest(tmp_path: Path) -> dict[str, Any]:
    """What the long suite has found after it was started again."""
    assert call(suite(tmp_path, LONG), "--output", str(tmp_path / "out")) == 0
    return results(tmp_path / "out")


@two_at_once
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_bench_that_is_stopped_takes_its_jobs_with_it_and_goes_on_as_if_it_had_not_been(
    number: signal.Signals,
    begun: subprocess.Popen[bytes],
    unharmed: dict[str, Any],
    tmp_path: Path,
) -> None:
    begun.send_signal(number)
    assert begun.wait(PATIENCE) == (-number if number == signal.SIGKILL else 130)
    until = time.monotonic() + PATIENCE
    while left := workers(tmp_path / "out"):
        assert time.monotonic() < until, left
        time.sleep(0.02)
    require_cut(tmp_path)
    assert rest(tmp_path) == unharmed


@two_at_once
def test_a_bench_in_the_background_is_stopped_with_its_jobs(
    unharmed: dict[str, Any], tmp_path: Path
) -> None:
    process = start(tmp_path, LONG, background=True)
    wait_for(lambda: bool(under_way(tmp_path)), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 130
    require_cut(tmp_path)
    assert rest(tmp_path) == unharmed


@two_at_once
def test_a_job_that_is_killed_fails_alone_and_is_made_good(
    begun: subprocess.Popen[bytes], unharmed: dict[str, Any], tmp_path: Path
) -> None:
    seed = under_way(tmp_path)[0]
    (worker,) = workers(jobs(tmp_path)[seed])
    os.kill(worker, signal.SIGKILL)
    told = begun.communicate()[1].decode()
    assert begun.returncode == 1
    ended = "The process ended without a traceback: killed by SIGKILL"
    assert f"FAILED: random, seed {seed}: {ended}" in told
    assert f"done: random, seed {1 - seed}" in told
    assert rest(tmp_path) == unharmed


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the training suite finds when nothing stops it."""
    folder = tmp_path_factory.mktemp("trained")
    assert start(folder, TRAINED).wait() == 0
    return results(folder / "out")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_training_that_is_stopped_goes_on_as_if_it_had_not_been(
    number: signal.Signals, trained: dict[str, Any], tmp_path: Path
) -> None:
    process = start(tmp_path, TRAINED)
    metrics = tmp_path / "out" / "train-seed-0" / "training" / "metrics.jsonl"
    wait_for(lambda: lines(metrics) >= 4, process)
    process.send_signal(number)
    process.wait()
    assert start(tmp_path, TRAINED).wait() == 0
    found = results(tmp_path / "out")
    assert found == trained
    assert {name.partition("/")[2] for name in found} == {
        *("episodes.jsonl", "summary.json", "training/episodes.jsonl")
    }
    assert not (metrics.parent / "checkpoints").exists()
    assert "continuing after update" in (metrics.parents[1] / "log.txt").read_text()


@two_at_once
def test_processes_of_one_core_have_different_ones(tmp_path: Path) -> None:
    process = start(tmp_path, LONG)
    try:
        wait_for(lambda: len(workers(tmp_path / "out")) == 2, process)
        sets = [os.sched_getaffinity(worker) for worker in workers(tmp_path / "out")]
    finally:
        process.kill()
        process.wait()
    usable = os.sched_getaffinity(0)
    assert [len(cores) for cores in sets] == [1, 1] and set().union(*sets) <= usable
    assert sets[0].isdisjoint(sets[1])
