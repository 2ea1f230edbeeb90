"""A caller and a planner in turn: the caller writes a hint, the planner reads it and acts on the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from llm_decpomdp.envs.worlds.game import (
    Completions,
    Game,
    Prompts,
    Turns,
    WorldOptions,
    score_verdict,
)
from llm_decpomdp.envs.worlds.strategies import Strategy, exploits
from llm_decpomdp.interfaces import Component, Task, Verdict
from llm_decpomdp.options import option
from llm_decpomdp.utils.chat_text import find_answer

CALLER, PLANNER = "caller_0", "planner_0"

REFUSAL_COST = 0.01
"""Cost of a refused action."""

READERS = {CALLER: [PLANNER]}

COMPONENTS = {
    "score": Component("Increase of progress less 0.01 for each refused action, at least 0.")
}

World = Mapping[str, Any]
"""The state of a family: JSON-able, with `score`, `refused` (so far) and `solved`."""


class HintOptions(WorldOptions):
    """Options of the families with a caller and a planner."""

    num_agents: int = option(2, ge=1, le=2)
    """2, or 1 for `planner_0` alone, which acts on every turn without hints."""
    num_turns: int = option(10, ge=2)
    """Turns of an episode, at most. The caller and the planner act in turn, so each has half of them."""
    sight: str = option("split", choices=("split", "full"))
    """`split`: the caller sees everything, and the planner a part. `full`: both see everything, so the hint tells
    the planner nothing new."""
    hint_length: int = option(200, ge=50)
    """Characters of a hint that the planner reads; the rest is cut."""
    wording: str = option("sentences", choices=("sentences", "bare"))
    """`sentences`: prompts with the rules. `bare`: hint and world alone, for models of single characters."""


@dataclass(frozen=True)
class HintGame(Game):
    """The turns, prompts and points that the families share; a family has the world and its rules."""

    num_agents: int = 2
    num_turns: int = 10
    sight: str = "split"
    hint_length: int = 200
    wording: str = "sentences"

    # Without annotations: they are no fields.
    turn_based = True
    readers = READERS
    components = COMPONENTS
    info_keys = ("score", "invalid", "refused")

    @property
    def agents(self) -> Sequence[str]:  # type: ignore[override]  # their number is an option
        """The agents' ids."""
        return (CALLER, PLANNER)[-self.num_agents :]

    @property
    def strategies(self) -> Mapping[str, Strategy]:  # type: ignore[override]  # none for one agent
        """Scripted teams of a caller and a planner."""
        return self.scripts if self.num_agents == len((CALLER, PLANNER)) else {}

    # What a family has

    scripts: ClassVar[Mapping[str, Strategy]]

    def begin(self, task: Any) -> World:
        """Return the world before the first turn."""
        raise NotImplementedError

    def advance(self, task: Any, world: World, answer: str) -> tuple[dict[str, Any], int]:
        """Return the world after a planner's answer, and the number of invalid actions in it.

        The world has `progress` in [0, 1], `refused` and `solved`; the score is computed of them.
        """
        raise NotImplementedError

    def view(self, task: Any, world: World, agent: str) -> Sequence[str]:
        """Return the rows of the world that an agent sees."""
        raise NotImplementedError

    def rules(self, task: Any, world: World, agent: str) -> str:
        """Return what a prompt says about the world and the answer."""
        raise NotImplementedError

    def draw(self, task: Any, world: World) -> Mapping[str, Any]:
        """Return the picture of the world."""
        raise NotImplementedError

    def plan(self, task: Any, world: World) -> str:
        """Return a correct answer of the planner in a world, for one who sees everything."""
        raise NotImplementedError

    # What they share

    def prompts(self, task: Any, turns: Turns) -> Prompts:
        """Return the prompt of the caller, or that of the planner with the hint."""
        agent, world = self.agents[len(turns) % self.num_agents], self.world(task, turns)
        rows = "\n".join(self.view(task, world, agent))
        is_told = agent == PLANNER and self.num_agents > 1
        hint = read_hint(turns[-1].completions[CALLER], self.hint_length) if is_told else ""
        if self.wording == "bare":
            return {agent: f"{hint}\n{rows}" if is_told else rows}
        told = f"\n\nThe caller's hint: {hint or '(none)'}" if is_told else ""
        return {agent: f"{self.rules(task, world, agent)}\n\n{rows}{told}"}

    def world(self, task: Any, turns: Turns) -> World:
        """Return the world after these turns."""
        found: World = turns[-1].verdict.details["world"] if turns else self.begin(task)
        return found

    def judge(self, task: Any, completions: Completions, turns: Turns) -> Verdict:
        """Let the planner act on the world; a hint changes nothing in it."""
        world, invalid = self.world(task, turns), 0
        if PLANNER in completions and not world["solved"]:
            world, invalid = self.advance(task, world, completions[PLANNER])
        score = max(0.0, world["progress"] - REFUSAL_COST * world["refused"])
        details = {"world": world, "invalid": invalid, "refused": world["refused"]}
        picture = self.draw(task, world)
        solved = bool(world["solved"])
        return score_verdict(score, turns, {**details, "picture": picture}, solved=solved)

    def reference(self, task: Any, agent: str) -> str | None:
        """Return the plan from the first turn, which both agents write."""
        return self.plan(task, self.begin(task))


def read_hint(text: str, length: int) -> str:
    """Return a hint as the planner reads it: without reasoning, in one line, cut to its length."""
    return " ".join(find_answer(text).text.split())[:length]


# Scripted teams


def game_of(env: Any) -> Any:
    """Return the game of an environment."""
    return env.unwrapped.reward


def state_of(env: Any) -> tuple[Any, Turns, World]:
    """Return the task, the turns and the world of an environment."""
    task: Task = env.unwrapped.task
    turns = env.unwrapped.episode.turns
    return task, turns, game_of(env).world(task, turns)


def guide(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Let the caller write a plan from what it sees, and the planner repeat the hint."""
    task, turns, world = state_of(env)
    if CALLER in prompts:
        return {CALLER: game_of(env).plan(task, world)}
    return {PLANNER: read_hint(turns[-1].completions[CALLER], game_of(env).hint_length)}


def guide_silently(
    env: Any, prompts: Mapping[str, str], rng: np.random.Generator
) -> Mapping[str, str]:
    """Let the caller write the plan, and the planner nothing."""
    return guide(env, prompts, rng) if CALLER in prompts else dict.fromkeys(prompts, "")


def hint_exploits(example: str) -> dict[str, Strategy]:
    """Return the exploits of all families: strategies that must not beat a planner that works without hints."""
    return {**exploits(example), "caller does everything": Strategy(guide_silently)}
