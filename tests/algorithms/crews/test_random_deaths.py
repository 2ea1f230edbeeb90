"""A node dies at a random moment, again and again: the run is the same, and nothing of the node is left.

pytest -m slow tests/algorithms/crews/test_random_deaths.py
"""

from __future__ import annotations

import logging
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.algorithms.crews.ray_crew import RayCrew
from tests.algorithms.crews import sites
from tests.algorithms.crews.test_orphans import LIMIT, alive, wait_for
from tests.algorithms.crews.test_worker_crew import require_same, trainer

psutil = pytest.importorskip("psutil")

pytestmark = pytest.mark.slow

TIMES = 20


def play(folder: Path, cluster: Any) -> Any:
    """Train with two actors, at a leisurely pace."""
    crew = RayCrew(sites.slow, 2, max_redo=9, address=cluster.address, trusted_network=True)
    run = trainer(folder, crew=crew)
    run.run_updates()
    return run


def kill_node(node: Any, after: float, left: list[str]) -> None:
    """Kill a node, and note which actors of it do not end in time, nor their programs."""
    time.sleep(after)
    (info,) = node.all_processes["raylet"]
    below = psutil.Process(info.process.pid).children(recursive=True)
    commands = {process: " ".join(process.cmdline()) for process in below}
    processes = [process for process, command in commands.items() if "agent" not in command.lower()]
    info.process.kill()
    try:
        wait_for(lambda: not alive(processes), LIMIT)
    except AssertionError:
        left += [commands[process] for process in alive(processes)]


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
        killer = threading.Thread(target=kill_node, args=(node, after, left))
        killer.start()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            run = play(tmp_path / str(number), cluster)
        killer.join()
        require_same(alone, run)
        bundles = caplog.text.count("is played again")
        redone += bundles
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        with capsys.disabled():
            print(
                f"\n{number + 1}: a node killed after {after:.1f} of {span:.1f} s, {bundles} bundles redone"
            )
    assert not left
    assert redone  # else all died where nothing was lost
