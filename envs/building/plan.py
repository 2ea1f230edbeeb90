"""Houses: their generator, and boxes of blocks that build them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np

from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.worlds.game import task_fields
from llm_decpomdp.interfaces import Task

FILLS = 8
"""Fills of an agent that count in a turn."""

PLANNED_TURNS = 3
"""Turns in which every house can be built."""

HEIGHT = 6
"""Most layers of a house."""

MATERIALS = ("wood", "brick", "glass", "slate")
"""Materials of the floor, the walls, the windows and the roof."""

SIZES: Mapping[str, tuple[int, int, int, tuple[str, ...]]] = {
    "small": (4, 5, 1, ("flat",)),
    "medium": (5, 6, 2, ("flat", "gable")),
    "large": (6, 7, 3, ("flat", "gable")),
}
"""Least and most width and depth, most windows, and roofs by size."""

Cell = tuple[int, int, int]
"""x from the left, y from the ground, z from the front, from 0."""

Plan = Mapping[Cell, str]
"""The material of each cell."""

Box = tuple[Cell, Cell]
"""Two opposite corners, both of the box."""


@dataclass(frozen=True)
class HouseTask(Task):
    """A house to build."""

    num_agents: int = field(kw_only=True)
    size: tuple[int, int, int] = field(kw_only=True)
    """Width, height and depth."""
    layers: tuple[tuple[str, ...], ...] = field(kw_only=True)
    """For each y the rows z from the front, with the first letter of a material or `.` for each x."""

    @cached_property
    def plan(self) -> dict[Cell, str]:
        """The material of every block of the house."""
        names = {name[0]: name for name in MATERIALS}
        return {
            (x, y, z): names[letter]
            for y, rows in enumerate(self.layers)
            for z, row in enumerate(rows)
            for x, letter in enumerate(row)
            if letter in names
        }

    @cached_property
    def stock(self) -> dict[str, int]:
        """The blocks of each material that every agent holds: ceil(c / N) + floor(c / 2N) of c."""
        n, counts = self.num_agents, Counter(self.plan.values())
        return {name: -(-counts[name] // n) + counts[name] // (2 * n) for name in MATERIALS}

    def part(self, agent: int, parts: str) -> dict[Cell, str]:
        """Return the part of the plan that an agent knows."""
        return {
            cell: name
            for cell, name in self.plan.items()
            if (cell[1] if parts == "layers" else MATERIALS.index(name)) % self.num_agents == agent
        }

    def share(self, plan: Plan, agent: int) -> Plan:
        """Return one of N equal parts of each material of a plan, for which the stock is enough."""
        counts = Counter(plan.values())
        most = {name: -(-count // self.num_agents) for name, count in counts.items()}
        return choose(plan, {name: slice(agent * n, (agent + 1) * n) for name, n in most.items()})

    def affordable(self, plan: Plan) -> Plan:
        """Return as much of a plan as the stock of one agent allows."""
        return choose(plan, {name: slice(count) for name, count in self.stock.items()})

    @cached_property
    def bound(self) -> float:
        """A bound on the score of one agent, from its stock: sum of min(stock, c) / sum of c."""
        return len(self.affordable(self.plan)) / len(self.plan)


def draw_house(rng: np.random.Generator, num_agents: int, size: str) -> Row | None:
    """Draw a house: a floor, walls with a door and windows, and a roof; `None` if it takes too many fills."""
    least, most, windows, roofs = SIZES[size]
    width, depth = (int(n) for n in rng.integers(least, most + 1, size=2))
    wall = int(rng.integers(2, 4))
    plan = {(x, 0, z): "w" for x in range(width) for z in range(depth)}
    edge = [(x, z) for x, _, z in plan if x in (0, width - 1) or z in (0, depth - 1)]
    plan |= {(x, y, z): "b" for x, z in edge for y in range(1, wall + 1)}
    corners = set(product((0, width - 1), (0, depth - 1)))
    door, *rest = (edge[i] for i in rng.permutation(len(edge)) if edge[i] not in corners)
    for y in (1, 2):
        plan.pop((door[0], y, door[1]), None)
    for x, z in rest[: int(rng.integers(1, windows + 1))]:
        plan[x, 2, z] = "g"
    height = wall + 1
    shrinks = roofs[int(rng.integers(len(roofs)))] == "gable"
    for step in range(min((width + 1) // 2, HEIGHT - height) if shrinks else 1):
        plan |= {(x, height, z): "s" for x in range(step, width - step) for z in range(depth)}
        height += 1
    layers = tuple(
        tuple("".join(plan.get((x, y, z), ".") for x in range(width)) for z in range(depth))
        for y in range(height)
    )
    row = {"key": str(layers), "size": (width, height, depth), "layers": layers}
    task = house_task(num_agents, 0, row)
    most = max(len(fills(task.share(task.plan, agent))) for agent in range(num_agents))
    return row if most <= FILLS * PLANNED_TURNS else None


def house_task(num_agents: int, index: int, row: Row) -> HouseTask:
    """Make a task of a row."""
    fields = task_fields("build-house", index, "a house")
    return HouseTask(**fields, num_agents=num_agents, size=row["size"], layers=row["layers"])


# Boxes


def cells_of(first: Sequence[int], second: Sequence[int]) -> list[Cell]:
    """Return the cells of a box."""
    spans = (range(min(ends), max(ends) + 1) for ends in zip(first, second, strict=True))
    return list(product(*spans))  # type: ignore[arg-type]  # three axes


@lru_cache(maxsize=1024)
def cover(blocks: tuple[tuple[Cell, str], ...]) -> list[tuple[Box, str]]:
    """Return disjoint boxes of one material that have all of some blocks, each as large as it can grow."""
    rest, boxes = dict(blocks), []
    while rest:
        start = min(rest)
        grown = (_grow(rest, start, order) for order in ((0, 2, 1), (2, 1, 0), (1, 0, 2)))
        box = max(grown, key=lambda b: len(cells_of(*b)))
        boxes.append((box, rest[box[0]]))
        for cell in cells_of(*box):
            del rest[cell]
    return boxes


def _grow(rest: Plan, start: Cell, order: Sequence[int]) -> Box:
    """Grow a box from a cell along one axis after the other, as long as its material goes on."""
    name, end = rest[start], list(start)
    for axis in order:
        while True:
            low, high = list(start), list(end)
            low[axis] = high[axis] = end[axis] + 1
            # A face of the box is enough, since its other cells fit already.
            if any(rest.get(cell) != name for cell in cells_of(low, high)):
                break
            end[axis] += 1
    return start, (end[0], end[1], end[2])


def boxes(plan: Mapping[Any, str]) -> str:
    """Return a plan as text: a line of two corners and a material for each box, or `none`."""
    found = cover(tuple(plan.items()))
    return "\n".join(f"{' '.join(map(str, a + b))} {name}" for (a, b), name in found) or "none"


def fills(plan: Plan) -> list[str]:
    """Return commands that build a plan."""
    return [f"fill {line}" for line in boxes(plan).splitlines() if plan]


def choose(plan: Plan, pieces: Mapping[str, slice]) -> Plan:
    """Return a piece of each material, counted from the front to the back, so that it has few boxes."""
    cells = sorted(plan, key=lambda cell: (cell[2], cell[0]))
    return {
        cell: name
        for name, piece in pieces.items()
        for cell in [cell for cell in cells if plan[cell] == name][piece]
    }
