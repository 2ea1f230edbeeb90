"""Grids: shortest ways, and grids as text for prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

Cell = tuple[int, int]
"""Column from the left and row from the top, from 0."""

FOUR = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Steps up, right, down and left."""

EIGHT = (*FOUR, (1, -1), (1, 1), (-1, 1), (-1, -1))


def distances(
    start: Cell, is_free: Callable[[Cell], bool], steps: Sequence[Cell] = FOUR
) -> dict[Cell, int]:
    """Return the number of steps to every cell that can be reached, by breadth-first search.

    `is_free` checks whether a cell is in the grid and can be entered.
    """
    lengths = {start: 0}
    queue = deque([start])
    while queue:
        x, y = cell = queue.popleft()
        for dx, dy in steps:
            neighbor = (x + dx, y + dy)
            if neighbor not in lengths and is_free(neighbor):
                lengths[neighbor] = lengths[cell] + 1
                queue.append(neighbor)
    return lengths


def canonical(rows: Sequence[str]) -> str:
    """Return the text of a grid that all its rotations and reflections share."""
    grids = []
    for _ in range(4):
        rows = ["".join(column) for column in zip(*reversed(rows), strict=True)]
        grids += ["\n".join(rows), "\n".join(row[::-1] for row in rows)]
    return min(grids)


def show(rows: Sequence[str]) -> str:
    """Return rows of equal length with the numbers of their columns above and of the rows before them."""
    width = len(str(len(rows) - 1))
    columns = [str(x) for x in range(len(rows[0]))]
    height = max(map(len, columns))
    lines = [
        " " * (width + 1) + "".join(column.rjust(height)[line] for column in columns)
        for line in range(height)
    ]
    return "\n".join([*lines, *(f"{y:>{width}} {row}" for y, row in enumerate(rows))])
