"""Rules that words and houses share: builders who change one world of blocks at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_decpomdp.envs.worlds.game import Completions, Game, Turns, WorldOptions, score_verdict
from llm_decpomdp.envs.worlds.strategies import Act
from llm_decpomdp.interfaces import Verdict
from llm_decpomdp.options import option

Place = tuple[int, ...]
"""Coordinates of a cell."""

World = dict[Place, tuple[str, int]]
"""Color or material, and builder, of the block in each cell."""


class BuilderOptions(WorldOptions):
    """Options that both families have."""

    num_agents: int = option(2, ge=2, le=4)
    """Agents `builder_0`, `builder_1` and so on, 2 to 4."""


@dataclass(frozen=True)
class BlockGame(Game):
    """A game of blocks; a family says what commands do, and scores and draws the world."""

    num_agents: int
    num_turns: int

    # Without an annotation: it is no field.
    info_keys = ("score", "invalid", "refused", "conflicts")

    @property
    def agents(self) -> Sequence[str]:  # type: ignore[override]  # the number is an option
        """The agents' ids."""
        return [f"builder_{i}" for i in range(self.num_agents)]

    def work(self, task: Any, agent: int, text: str, world: World, counts: Counter[str]) -> World:
        """Return the world in which one agent's commands were carried out.

        `world` is that before the turn and does not change. The numbers of `invalid` and `refused` commands are
        added to `counts`.
        """
        raise NotImplementedError

    def score(self, task: Any, world: World) -> float:
        """Return the score of a world, 1 if it is the plan."""
        raise NotImplementedError

    def draw(
        self, task: Any, world: World, conflicts: Sequence[Place], turn: int
    ) -> Mapping[str, Any]:
        """Return the picture of the plan and of the world after a turn."""
        raise NotImplementedError

    def judge(self, task: Any, completions: Completions, turns: Turns) -> Verdict:
        """Change the world, and score it. Cells that several agents write stay empty."""
        before = world_after(turns)
        after, writes = dict(before), Counter[Place]()
        counts = Counter({"invalid": 0, "refused": 0})
        for i, agent in enumerate(self.agents):
            # Each agent works in the world before the turn, so that their order makes no difference.
            own = self.work(task, i, completions[agent], before, counts)
            for cell in before.keys() - own.keys():
                after.pop(cell, None)
            new = {cell: block for cell, block in own.items() if before.get(cell) != block}
            writes.update(new.keys())
            after |= new
        conflicts = sorted(cell for cell, times in writes.items() if times > 1)
        for cell in conflicts:
            del after[cell]
        details = {
            **counts,
            "conflicts": len(conflicts),
            "conflict_cells": [list(cell) for cell in conflicts],
            "blocks": [[*cell, *block] for cell, block in sorted(after.items())],
            "picture": self.draw(task, after, conflicts, len(turns) + 1),
        }
        return score_verdict(self.score(task, after), turns, details)


def describe(turns: Turns, world: str, list_cells: Callable[[Any], str]) -> Iterator[str]:
    """Yield what prompts say about the last turn: its score, the world, and the cells in which blocks met."""
    details = turns[-1].verdict.details
    yield f"After turn {len(turns)} the score is {details['score']:.2f} of 1. {world}"
    if cells := details["conflict_cells"]:
        yield f"Several builders put a block there at once, so it stayed empty:{list_cells(cells)}"


def world_after(turns: Turns) -> World:
    """Return the world after these turns."""
    blocks = turns[-1].verdict.details["blocks"] if turns else []
    return {tuple(cell): (kind, owner) for *cell, kind, owner in blocks}


def take_back(act: Act, clear: Act) -> Act:
    """Return the team that takes its blocks back in every second turn."""
    return lambda env, *rest: (clear if len(env.unwrapped.episode.turns) % 2 else act)(env, *rest)
