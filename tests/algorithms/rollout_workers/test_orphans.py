"""Whatever is killed of a run on a Ray cluster, no actor and no program of a model outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.rollout_workers.test_process_workers import trainer
from tests.algorithms.runs import Run
from tests.support.processes import ROOT

psutil = pytest.importorskip("psutil")

pytestmark = pytest.mark.slow

LIMIT = 5.0
"""Seconds that actors and programs have to end after what they belong to."""

LIMIT_OF_AGENTS = 90.0
"""Seconds that agents of Ray's own have, which look for the control store for a minute."""

LIMIT_OF_HEAD = 120.0
"""Seconds in which processes of a cluster give up its control store: 60 by Ray's default, and their ends."""


def wait_for(holds: Callable[[], Any], seconds: float) -> float:
    """Wait until something holds, and return the seconds that it took."""
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < seconds, "too late"
        time.sleep(0.05)
    return time.monotonic() - begin


def start_run(folder: Path, address: str | None = None) -> subprocess.Popen[bytes]:
    """Start a run in a process of its own, and wait until a program of it does not end."""
    command = [sys.executable, "-m", "tests.algorithms.rollout_workers.ray_runs", str(folder)]
    with (folder / "log").open("wb") as log:
        run = subprocess.Popen(
            [*command, *([address] if address else [])], cwd=ROOT, stdout=log, stderr=log
        )
    wait_for(lambda: (folder / "note").exists() or run.poll() is not None, 120)
    assert run.poll() is None, (folder / "log").read_text()
    wait_for(lambda: any(busy(process) for process in below(folder)), 60)
    return run


def below(folder: Path) -> list[Any]:
    """The actor with the program that does not end, and all processes that it has started."""
    actor = psutil.Process(int((folder / "note").read_text()))
    return [actor, *actor.children(recursive=True)]


def busy(process: Any) -> bool:
    """Check whether a process is a program that has used up a while of a processor."""
    try:
        return "sandbox/worker/main.py" in str(process.cmdline()) and process.cpu_times().user > 1
    except psutil.Error:
        return False


def alive(processes: list[Any]) -> list[Any]:
    """Those that have not ended: a zombie has."""

    def lives(process: Any) -> bool:
        try:
            return bool(process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    return [process for process in processes if lives(process)]


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["actor", "node"])
def test_the_run_goes_on_and_nothing_is_left_of_what_was_killed(
    tmp_path: Path, cluster: Any, victim: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(tmp_path, cluster.address)
    processes = below(tmp_path)
    assert len(processes) > 2  # with the program, and what watches it
    kill(processes[0].ppid() if victim == "node" else processes[0].pid)
    seconds = wait_for(lambda: not alive(processes), LIMIT)
    assert run.wait(120) == 0, (tmp_path / "log").read_text()
    require_same(tmp_path)
    with capsys.disabled():
        print(f"\n{victim}: {len(processes)} processes were gone after {seconds:.2f} s")


def require_same(folder: Path) -> None:
    """Check that a run has played what one process plays."""
    alone: Run = trainer(folder / "alone")
    alone.run_updates()
    episodes = folder / "run" / "episodes.jsonl"
    assert episodes.read_bytes() == alone.folder.episodes.read_bytes()


def test_nothing_is_left_of_a_run_that_was_killed_and_it_goes_on_with_other_workers(
    tmp_path: Path, cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(tmp_path, cluster.address)
    processes = below(tmp_path)
    kill(run.pid)
    seconds = wait_for(lambda: not alive(processes), LIMIT)
    run.wait()
    again = trainer(
        tmp_path / "run",
        rollout_worker=ProcessRolloutWorkers(worker_states.echo, 3),
        checkpoint_every=1,
    )
    assert again.resume() == 1
    again.run_updates()
    require_same(tmp_path)
    with capsys.disabled():
        print(f"\ndriver: {len(processes)} processes were gone after {seconds:.2f} s")


def test_nothing_is_left_of_a_run_with_a_cluster_of_its_own_that_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    run = start_run(tmp_path)
    processes, ours = psutil.Process(run.pid).children(recursive=True), below(tmp_path)
    names = {process.name() for process in processes}
    assert {"raylet", "gcs_server"} <= names and set(ours) <= set(processes), names
    kill(run.pid)
    seconds = wait_for(lambda: not alive(ours), LIMIT)
    of_ray = seconds + wait_for(lambda: not alive(processes), LIMIT_OF_AGENTS)
    run.wait()
    with capsys.disabled():
        print(
            f"\ndriver: actor and programs after {seconds:.2f} s, its cluster after {of_ray:.2f} s"
        )


def test_nothing_is_left_of_a_cluster_whose_head_was_killed(
    tmp_path: Path, cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(tmp_path, cluster.address)
    processes = below(tmp_path)
    (store,) = cluster.head_node.all_processes["gcs_server"]
    kill(store.process.pid)
    seconds = wait_for(lambda: not alive(processes), LIMIT_OF_HEAD)
    of_run = wait_for(lambda: run.poll() is not None, LIMIT_OF_HEAD)
    assert run.returncode != 0
    assert (tmp_path / "run" / "checkpoints").is_dir()  # from which it goes on
    with capsys.disabled():
        print(f"\nhead: actor and programs after {seconds:.2f} s, the run {of_run:.2f} s later")
