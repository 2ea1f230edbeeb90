"""Sites of workers for tests, and environments that end their process."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.crews.bundles import Site
from llm_decpomdp.algorithms.rollouts.rollout import Start
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.runs import make_team

BATCHES = [[Start(seed=8 * update + n) for n in range(8)] for update in range(4)]
FATAL = Start(seed=13)
"""In the middle of the second update."""
EVAL_STARTS = [Start(seed=n) for n in range(5)]


class FatalEnv(EchoEnv):
    """The process that resets it to `FATAL` is killed, the first so many times.

    Args:
        folder: Holds a file for each time.
        times: How many times.
    """

    def __init__(self, folder: Path, times: int) -> None:
        super().__init__(2)
        self.folder, self.times = folder, times

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        deaths = len(list(self.folder.iterdir()))
        if seed == FATAL.seed and deaths < self.times:
            (self.folder / str(deaths)).touch()
            print("the last words of a worker", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().reset(seed, options)


class OrphanEnv(EchoEnv):
    """Kills the parent of its process in the first step, and goes on for long.

    Args:
        note: File that takes the numbers of both processes.
    """

    def __init__(self, note: Path) -> None:
        super().__init__(2)
        self.note = note

    def step(self, actions: dict[str, str]) -> Any:
        self.note.write_text(f"{os.getpid()} {os.getppid()}")
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(100)


class BrokenEnv(EchoEnv):
    """A start that cannot be played, whoever tries."""

    def step(self, actions: dict[str, str]) -> Any:
        raise FloatingPointError("the task has a fault")


def echo() -> Site:
    return Site(EchoEnv(2), EchoEnv(2), make_team())


def fatal(folder: Path, times: int) -> Site:
    env = FatalEnv(folder, times)
    return Site(env, EchoEnv(2), make_team())


def orphaned(note: Path) -> Site:
    return Site(OrphanEnv(note), EchoEnv(2), make_team())


def broken() -> Site:
    return Site(BrokenEnv(2), EchoEnv(2), make_team())


def absent() -> Site:
    raise OSError("no model of that name")
