"""A node dies at a random moment, again and again: the run is the same, and nothing of the node is left.

pytest -m slow tests/algorithms/rollout_workers/test_random_deaths.py
"""

from __future__ import annotations

import logging
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.algorithms.rollout_workers.ray_workers import RayRolloutWorkers
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.rollout_workers.test_orphans import LIMIT, alive, wait_for
from tests.algorithms.rollout_workers.test_process_workers import require_same, trainer

psutil = pytest.importorskip("psutil")

pytestmark = pytest.mark.slow

TIMES = 20

STARTING = "default_worker.py"
"""In the command of a worker of Ray's that is no actor yet: then it calls itself `ray::`."""

LIMIT_OF_STARTS = 20.0
"""Seconds that such a worker has, which looks for its node for ten."""


def play(folder: Path, cluster: Any) -> Any:
    """Train with two actors, at a leisurely pace."""
    rollout_worker = RayRolloutWorkers(
        worker_states.slow, 2, max_retries=9, address=cluster.address, trusted_network=True
    )
    run = trainer(folder, rollout_worker=rollout_worker)
    run.run_updates()
    return run


def kill_node(node: Any, after: float, left: list[str]) -> None:
    """Kill a node, and note which actors of it do not end in time, nor their programs, nor workers of Ray's.

    The node's daemon is waited for as its parent: Ray's workers ask whether it lives, and a zombie does.
    """
    time.sleep(after)
    (info,) = node.all_processes["raylet"]
    below = psutil.Process(info.process.pid).children(recursive=True)
    commands = {process: command(process) for process in below}
    starting = [process for process, said in commands.items() if STARTING in said]
    info.process.kill()
    info.process.wait()
    for processes, limit in ((set(below) - set(starting), LIMIT), (starting, LIMIT_OF_STARTS)):
        try:
            wait_for(lambda: not alive([*processes]), limit)  # noqa: B023
        except AssertionError:
            left += [commands[process] for process in alive([*processes])]


def command(process: Any) -> str:
    """Return how a process was started, or what it calls itself; nothing of one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def test_a_run_is_the_same_whenever_a_node_dies(
    tmp_path: Path,
    cluster: Any,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    alone, rng, left = trainer(tmp_path / "alone"), random.Random(0), []  # type: ignore[var-annotated]
    alone.run_updates()
    begin = time.monotonic()
    require_same(alone, play(tmp_path / "undisturbed", cluster))
    span, redone = time.monotonic() - begin, 0
    for number in range(TIMES):
        after = rng.uniform(0, span)
        node = rng.choice(cluster.list_all_nodes()[1:])  # the first one has no actors
        caplog.clear()
        with caplog.at_level(logging.WARNING), ThreadPoolExecutor() as pool:
            killed = pool.submit(kill_node, node, after, left)
            run = play(tmp_path / str(number), cluster)
            killed.result()
        require_same(alone, run)
        batches = caplog.text.count("is sampled again")
        redone += batches
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        with capsys.disabled():
            print(
                f"\n{number + 1}: a node killed after {after:.1f} of {span:.1f} s, {batches} batches redone"
            )
    assert not left
    assert redone  # else all died where nothing was lost
