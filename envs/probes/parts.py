"""Parts of the probes: tasks of single letters, players, points and cues, and their composition."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import Component, Info, Mode, Reward, Task, TaskSet, Turn, Verdict

LETTERS = "abc"
"""Letters of most probes' prompts and answers."""

MAX_TOKENS = 2
"""Maximum number of tokens that an answer needs: a letter and the end."""

Words = Sequence[str]
"""Answers of the agents, in their order."""


@dataclass(frozen=True)
class ProbeTask(Task):
    """A task of single letters; all tuples are in the order of the agents."""

    cues: tuple[str, ...] = field(kw_only=True)
    """First cue of each agent."""
    later_cues: tuple[str, ...] = field(kw_only=True)
    """Cue of each agent on later turns."""
    letters: tuple[str, ...] = field(kw_only=True)
    """Right answer of each agent on the last turn."""


@dataclass(frozen=True)
class ProbeRole:
    """A role: an agent that is shown its cue."""

    position: int

    @property
    def agent(self) -> str:
        """The agent's id."""
        return f"player_{self.position}"

    def reference(self, task: ProbeTask) -> str | None:
        """Return the right answer."""
        return task.letters[self.position]


@dataclass(frozen=True)
class Points:
    """A reward: the points of a rule for the words, and the offset."""

    rule: Callable[[ProbeTask, Words], float]
    offset: float
    full: float = 1.0
    """The most points that a turn can earn; where nothing else does, they solve the game."""
    solves: Callable[[ProbeTask, Words], bool] | None = None
    """What solves a game whose points are noisy."""
    components: ClassVar[Mapping[str, Component]] = {
        "points": Component("What the rules of the game give."),
        "offset": Component("A constant that every turn earns, whatever is said.", form=True),
    }

    @property
    def maximum(self) -> float:
        """Full marks plus the offset."""
        return self.full + self.offset

    def __call__(self, task: ProbeTask, completions: Mapping[str, str]) -> Verdict:
        """Judge a joint completion."""
        words = list(completions.values())
        points = self.rule(task, words)
        solved = self.solves(task, words) if self.solves else math.isclose(points, self.full)
        return Verdict({"points": points, "offset": self.offset}, solved)


@dataclass(frozen=True)
class CueObservations:
    """A mode: the later cues, or the first ones again where there is a password and it was not given."""

    password: str = ""
    """Required beginning of the first agent's answer."""
    info_keys: Sequence[str] = ("opened",)

    def first(self, task: ProbeTask) -> dict[str, str]:
        """Return the first cues."""
        return {ProbeRole(place).agent: cue for place, cue in enumerate(task.cues)}

    def __call__(self, task: ProbeTask, turn: Turn) -> tuple[dict[str, str], Info]:
        """Return the next prompt of each agent, and whether these are the later cues."""
        success = next(iter(turn.completions.values())).startswith(self.password)
        cues = task.later_cues if success else task.cues
        return dict(zip(turn.completions, cues, strict=True)), {"opened": float(success)}

    def secrets(self, task: ProbeTask) -> Sequence[str]:
        """Return none."""
        return ()


def last_answer(secrets: str, task: ProbeTask, words: Words) -> float:
    """Return the points of games in which the last agent names one of some secrets, by its first letter.

    One for the right secret, and so much less than nothing for another that a guess is worth nothing on average.
    All else is worth nothing.
    """
    answer = words[-1][:1]
    if not answer or answer not in secrets:
        return 0.0
    return 1.0 if answer == task.letters[-1] else -1 / (len(secrets) - 1)


def probe_task(
    task_id: str,
    index: int,
    cues: Sequence[str],
    letters: Sequence[str],
    later_cues: Sequence[str] | None = None,
) -> ProbeTask:
    """Return a task; by default its cues stay the same."""
    later = later_cues or cues
    return ProbeTask(
        task_id, index, "", cues=tuple(cues), later_cues=tuple(later), letters=tuple(letters)
    )


def probe_env(
    name: str,
    tasks: Sequence[ProbeTask],
    points: Reward,
    discount: float = 1.0,
    render_mode: str | None = None,
    mode: Mode | None = None,
    num_turns: int = 1,
    stop_when_solved: bool = True,
) -> DecPOMDPEnv:
    """Return the environment of a probe, with a player for each cue of its tasks; by default it shows the cues."""
    return DecPOMDPEnv(
        f"probe_{name.replace('-', '_')}_v0",
        TaskSet(tuple(tasks), f"probe-{name}", source="bundled", split="all"),
        [ProbeRole(position) for position in range(len(tasks[0].cues))],
        points,
        mode or CueObservations(),
        num_turns=num_turns,
        stop_when_solved=stop_when_solved,
        discount=discount,
        render_mode=render_mode,
    )


def require_agents(num_agents: int, least: int, most: int | None = None) -> None:
    """Raise a `ValueError` unless a probe can be played by `num_agents`."""
    if num_agents < least:
        raise ValueError(f"num_agents must be at least {least}, got {num_agents}")
    if most is not None and num_agents > most:
        raise ValueError(f"num_agents must be at most {most}, got {num_agents}")
