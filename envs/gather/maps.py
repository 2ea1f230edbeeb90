"""Maps of the gathering family: tasks, walks, and the best search of an agent that is told nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil

import numpy as np

from llm_decpomdp.envs.datasets.loading import Row
from llm_decpomdp.envs.worlds.game import task_fields
from llm_decpomdp.envs.worlds.grid import EIGHT, Cell
from llm_decpomdp.interfaces import Task

KINDS = ("wood", "stone", "iron", "clay")
"""Resource of each agent, in the agents' order."""


@dataclass(frozen=True)
class GatherTask(Task):
    """A map. `prompt` is empty, as every agent sees another part."""

    places: tuple[tuple[Cell, ...], ...] = field(kw_only=True)
    """Cells with the resource of each agent."""

    def view(self, agent: int) -> list[tuple[int, Cell]]:
        """Return the kind and the cell of all that an agent sees: the resources of the others."""
        return [(k, cell) for k, cells in enumerate(self.places) if k != agent for cell in cells]


def make_task(index: int, row: Row) -> GatherTask:
    """Make a task of a row of `draw_map`."""
    places = tuple(tuple((x, y) for x, y in cells) for cells in row["places"])
    return GatherTask(**task_fields("gather", index), places=places)


def start_cell(size: int) -> Cell:
    """Return the cell in the middle, where all agents start and nothing grows."""
    return (size // 2, size // 2)


def draw_map(rng: np.random.Generator, size: int, num_agents: int, amount: int) -> Row:
    """Draw distinct cells for the resources, all with equal probability."""
    free = [(x, y) for y in range(size) for x in range(size) if (x, y) != start_cell(size)]
    cells = [free[place] for place in rng.permutation(len(free))[: num_agents * amount].tolist()]
    places = [sorted(cells[amount * i : amount * (i + 1)]) for i in range(num_agents)]
    return {"places": places, "key": repr(places)}


def walk(start: Cell, target: Cell, steps: int) -> list[Cell]:
    """Return the cells that a walk towards a target enters: diagonally as far as it helps, then straight."""
    x, y = start
    cells: list[Cell] = []
    while (x, y) != target and len(cells) < steps:
        x += (target[0] > x) - (target[0] < x)
        y += (target[1] > y) - (target[1] < y)
        cells.append((x, y))
    return cells


def turns_needed(size: int, amount: int, steps: int) -> int:
    """Return the number of turns in which the optimum is certain on any map, with one fact a turn.

    A fact is read one turn after it was told. The first cell is at most `size // 2` steps from the start, and two
    cells are at most `size - 1` steps from each other.
    """
    return 1 + ceil((size // 2) / steps) + (amount - 1) * ceil((size - 1) / steps)


def silent_value(size: int, num_agents: int, amount: int, steps: int) -> float:
    """Return the best expected score without messages.

    `steps` are those of an agent in the episode. For an agent that is told nothing, its resource is equally likely
    on all cells where it sees nothing, the start excepted. A cell that it finds does not change the chances of the
    others, so only the number of cells that it enters counts. The score is a mean, so expectations add up.
    """
    return min(1.0, steps / (size * size - 1 - (num_agents - 1) * amount))


@lru_cache(maxsize=4096)
def search_walk(size: int, avoided: tuple[Cell, ...], steps: int) -> tuple[Cell, ...]:
    """Return a walk from the middle that enters as many cells as possible, none twice and none that is avoided.

    The longest of up to 100 attempts, each of which enters a neighbor with few free neighbors first (Warnsdorff's
    rule), so that it leaves no cell behind. It ends with the first attempt that has all steps or all cells.
    """
    longest: list[Cell] = []
    for attempt in range(100):
        path, rng = [start_cell(size)], np.random.default_rng(attempt)
        blocked = {*path, *avoided}

        def neighbors(cell: Cell, blocked: set[Cell] = blocked) -> list[Cell]:
            around = [(cell[0] + dx, cell[1] + dy) for dx, dy in EIGHT]
            return [(x, y) for x, y in around if 0 <= x < size > y >= 0 and (x, y) not in blocked]

        while len(path) <= steps and (choices := neighbors(path[-1])):
            draws = rng.random(len(choices)) * attempt
            ranks = [len(neighbors(c)) + draw for c, draw in zip(choices, draws, strict=True)]
            path.append(choices[int(np.argmin(ranks))])
            blocked.add(path[-1])
        longest = max(longest, path[1:], key=len)
        if len(longest) >= min(steps, size * size - 1 - len(avoided)):
            break
    return tuple(longest)


def harvest(places: Collection[Cell], path: Collection[Collection[int]]) -> list[Cell]:
    """Return the cells of a resource that a walk has entered."""
    return [cell for cell in places if list(cell) in path]
