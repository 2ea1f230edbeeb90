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

from llm_decpomdp.benchmarks.cli import suite_job
from llm_decpomdp.benchmarks.suites import pool
from llm_decpomdp.benchmarks.suites.job import make_jobs
from llm_decpomdp.benchmarks.suites.suite import load_suite
from tests.benchmarks.benches import results, suite, two_at_once

LONG = """# Waits in the middle for as long as it is held.
config: demo
override: ["env.id='tests.held_envs:held-v0'", output.report=false]
tasks: 1
samples: 65
cells: [{method: random, seeds: [0, 1]}]
"""
EPISODES = 65
"""A batch, and one episode, which the main thread plays, so that it can be stopped while it is held."""

PATIENCE = 180
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
        env={**os.environ, "TEST_HOLD": str(folder / "hold")},
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
        if f"{suite_job.__name__}\0{folder}".encode() in _read(path)
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the long suite finds when nothing stops it."""
    return rest(tmp_path_factory.mktemp("unharmed"))


def jobs(folder: Path) -> list[Path]:
    """The folders of both seeds of the long suite."""
    return [folder / "out" / f"random-seed-{seed}" for seed in (0, 1)]


def start_and_hold(folder: Path, *, background: bool = False) -> subprocess.Popen[bytes]:
    """The long suite, with both seeds in the middle until `hold` is removed."""
    (folder / "hold").touch()
    process = start(folder, LONG, background=background)
    wait_for(lambda: all(lines(job / "times.jsonl") for job in jobs(folder)), process)
    return process


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The long suite, held in the middle."""
    process = start_and_hold(tmp_path)
    yield process
    process.kill()
    process.wait()


def require_cut(tmp_path: Path) -> None:
    """Check that both jobs were stopped on their way, and pass for no finished ones."""
    for folder in jobs(tmp_path):
        assert 0 < lines(folder / "episodes.jsonl") < EPISODES
        assert not (folder / "status.json").exists()


def rest(tmp_path: Path) -> dict[str, Any]:
    """What the long suite has found after it was started once more, and not held."""
    (tmp_path / "hold").unlink(missing_ok=True)
    process = start(tmp_path, LONG)
    told = process.communicate()[1].decode()
    assert process.returncode == 0, told
    return results(tmp_path / "out")


@pytest.mark.slow
@two_at_once
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_bench_that_is_stopped_takes_its_jobs_with_it_and_goes_on_as_if_it_had_not_been(
    number: signal.Signals, begun: subprocess.Popen[bytes], unharmed: dict[str, Any], tmp_path: Path
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
def test_a_bench_in_the_background_is_stopped_with_its_jobs(tmp_path: Path) -> None:
    process = start_and_hold(tmp_path, background=True)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 130
    require_cut(tmp_path)


@pytest.mark.slow
@two_at_once
def test_jobs_have_cores_of_their_own_and_one_that_is_killed_fails_alone_and_is_made_good(
    begun: subprocess.Popen[bytes], unharmed: dict[str, Any], tmp_path: Path
) -> None:
    sets = [os.sched_getaffinity(worker) for worker in workers(tmp_path / "out")]
    assert [len(cores) for cores in sets] == [1, 1] and sets[0].isdisjoint(sets[1])
    assert set().union(*sets) <= os.sched_getaffinity(0)
    (worker,) = workers(jobs(tmp_path)[0])
    os.kill(worker, signal.SIGKILL)
    (tmp_path / "hold").unlink()
    told = begun.communicate()[1].decode()
    assert begun.returncode == 1
    ended = "The process ended without a traceback: killed by SIGKILL"
    assert f"FAILED: random, seed 0: {ended}" in told
    assert "done: random, seed 1" in told
    assert rest(tmp_path) == unharmed


DEAF = """
import signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print(flush=True)
while len(asked) < 3:
    time.sleep(0.01)
"""
"""Ends when it is asked for the third time."""


def test_dropped_signal_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ASK_AGAIN_SECONDS", 0.1)
    path = Path(suite(tmp_path, LONG.replace("tests.held_envs:held", "probe-halves")))
    job, _ = make_jobs(load_suite(path), tmp_path)
    deaf = subprocess.Popen([sys.executable, "-S", "-c", DEAF], stdout=subprocess.PIPE)
    assert deaf.stdout is not None and deaf.stdout.readline()
    with (tmp_path / "log.txt").open("wb") as log, (tmp_path / ".lock").open("w") as lock:
        started = pool.JobPool([0], lock, lambda *_: None)
        started._running.append(pool.Running(job, deaf, frozenset(), log))
        started._stop()
        assert deaf.returncode == 0 and log.closed


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the training suite finds when nothing stops it."""
    folder = tmp_path_factory.mktemp("trained")
    assert start(folder, TRAINED).wait() == 0
    return results(folder / "out")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_stopped_training(number: signal.Signals, trained: dict[str, Any], tmp_path: Path) -> None:
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
