"""Sites of workers for tests, and environments that end their process."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from llm_decpomdp import make
from llm_decpomdp.algorithms import Start, WorkerState
from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument
from studies.hypotheses.training import HashedParts
from tests.algorithms.conftest import EchoEnv, Recurrent
from tests.algorithms.preferences.teams import ReferencedTiny
from tests.algorithms.runs import make_team

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.causal_lm import CausalLM

BATCHES = [[Start(seed=8 * update + n) for n in range(8)] for update in range(4)]
FATAL = Start(seed=13)
"""In the middle of the second update."""
EVAL_STARTS = [Start(seed=n) for n in range(5)]

ENDLESS = "def endless():\n    while True:\n        pass\n"

PATIENT = Limits(test_seconds=300.0, program_seconds=300.0, job_seconds=900.0)


class FatalEnv(EchoEnv):
    """The process that resets it to `FATAL` is killed, the first so many times.

    Args:
        folder: Holds a file for each time.
        times: How many times.
        node: Kill its parent, which is its node where Ray has started it.
    """

    def __init__(self, folder: Path, times: int, node: bool = False) -> None:
        super().__init__(2)
        self.folder, self.times, self.node = folder, times, node

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        deaths = len(list(self.folder.iterdir()))
        if seed == FATAL.seed and deaths < self.times:
            (self.folder / str(deaths)).touch()
            print("the last words of a worker", file=sys.stderr, flush=True)
            os.kill(os.getppid() if self.node else os.getpid(), signal.SIGKILL)
            time.sleep(100 * self.node)
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


class EndlessEnv(EchoEnv):
    """Has a program run that does not end, when it is reset to `FATAL` for the first time.

    Args:
        note: File that takes the number of the process.
    """

    def __init__(self, note: Path) -> None:
        super().__init__(2)
        self.note = note

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed == FATAL.seed and not self.note.exists():
            self.note.write_text(str(os.getpid()))
            program = Program((("main_0", ENDLESS),), "endless")
            with closing(Sandbox(PATIENT, workers=1)) as sandbox:
                sandbox.run(program, instrument("assert endless()", "endless"))
        return super().reset(seed, options)


class SlowEnv(EchoEnv):
    """Takes its time, so that what happens meanwhile happens in the middle."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        time.sleep(0.1)
        return super().reset(seed, options)


class BrokenEnv(EchoEnv):
    """A start that cannot be played, whoever tries."""

    def step(self, actions: dict[str, str]) -> Any:
        raise FloatingPointError("the task has a fault")


TURN_GAMES: dict[str, dict[str, Any]] = {
    "probe-turns-v0": {"order": ["player_0", "player_1"]},
    "probe-relay-turns-v0": {},
    "probe-early-exit-v0": {},
    "probe-late-entry-v0": {},
}
"""Games whose agents act one after the other, leave early or join late, and the arguments of `make`."""


class LetterPolicy(ReferencedTiny):
    """Reads the letters of its alphabet alone."""

    features = HashedParts()

    def encode(self, text: str) -> torch.Tensor:
        return super().encode("".join(letter for letter in text if letter in self.alphabet))


def take_turns(game: str) -> WorkerState:
    env = make(game, **TURN_GAMES[game])
    team = {
        agent: LetterPolicy(Recurrent(4, 8, seed=seed), "abc", 2)
        for seed, agent in enumerate(env.possible_agents)
    }
    return WorkerState(env, make(game, **TURN_GAMES[game]), team)


def echo() -> WorkerState:
    return WorkerState(EchoEnv(2), EchoEnv(2), make_team())


def fatal(folder: Path, times: int, node: bool = False) -> WorkerState:
    env = FatalEnv(folder, times, node)
    return WorkerState(env, EchoEnv(2), make_team())


def orphaned(note: Path) -> WorkerState:
    return WorkerState(OrphanEnv(note), EchoEnv(2), make_team())


def endless(note: Path) -> WorkerState:
    return WorkerState(EndlessEnv(note), EchoEnv(2), make_team())


def slow() -> WorkerState:
    return WorkerState(SlowEnv(2), EchoEnv(2), make_team())


def broken() -> WorkerState:
    return WorkerState(BrokenEnv(2), EchoEnv(2), make_team())


def absent() -> WorkerState:
    raise OSError("no model of that name")


def chat_team() -> dict[str, CausalLM]:
    """Two tiny models that read their histories; no other worker takes the time to import transformers."""
    from llm_decpomdp.agents.inference.options import Sampling
    from llm_decpomdp.agents.models.tiny import tiny_causal_lm

    return {
        agent: tiny_causal_lm("ab", Sampling(max_new_tokens=2), seed=seed, history="chat")
        for agent, seed in (("x", 1), ("y", 2))
    }


def chat() -> WorkerState:
    return WorkerState(EchoEnv(3), EchoEnv(3), chat_team())
