"""Families of walkers on maps that only the caller sees whole: `path-v1` in a maze, `sokoban-v1` with boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations
from typing import Any, ClassVar

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.planning.hints import HintOptions
from llm_decpomdp.envs.planning.walk import (
    FLOOR,
    STEPS,
    WALL,
    State,
    WalkGame,
    drawn_rows,
    find_plan,
    is_floor,
    least_moves,
    walk_task,
)
from llm_decpomdp.envs.planning.walk_strategies import walk_strategies
from llm_decpomdp.envs.worlds.game import world_env
from llm_decpomdp.envs.worlds.grid import Cell, canonical, distances
from llm_decpomdp.options import as_arguments, option, pick

# Path


class PathOptions(HintOptions):
    """Options of `path`."""

    size: int = option(10, ge=3, le=12)
    """Width and height of the map."""
    walls: float = option(0.22, ge=0, le=0.4)
    """Share of walls."""
    max_moves: int | None = option(None, ge=2, le=50)
    """Moves of an episode, refused ones included; by default twice the size."""


@dataclass(frozen=True)
class PathGame(WalkGame):
    """The rules of `path-v1`."""

    story: ClassVar[str] = (
        "The walker must reach the goal. Walls and the edge of the map refuse moves."
    )

    scripts = property(walk_strategies)  # they depend on the options

    def is_drawn(self, task: Any) -> bool:
        """Check whether the goal is at least two steps away and within reach."""
        steps = least_moves(task.rows, task.goals[0], False).get((task.start, ()), 0)
        return 2 <= steps <= self.max_moves

    def is_won(self, task: Any, state: State) -> bool:
        """Check whether the walker is at the goal."""
        return state[0] in task.goals

    def progress(self, task: Any, state: State) -> float:
        """Return (d0 - d) / d0 with the distances d to the goal, along the shortest way."""
        steps = distances(task.goals[0], partial(is_floor, task.rows))
        return 1 - steps[state[0]] / steps[task.start]


def draw_path(rng: np.random.Generator, size: int, walls: float, max_moves: int) -> Row | None:
    """Draw a map with connected start and goal at least two steps apart; its key is the walls."""
    cells = [(int(n) % size, int(n) // size) for n in rng.permutation(size * size)]
    count = round(walls * size * size)
    blocked, start, goal = set(cells[:count]), cells[count], cells[count + 1]
    rows = ["".join(WALL if (x, y) in blocked else FLOOR for x in range(size)) for y in range(size)]
    plan = find_plan(rows, (start, ()), lambda state: state[0] == goal)
    if plan is None or not 2 <= len(plan) <= max_moves:
        return None
    return {"key": canonical(rows), "rows": rows, "start": start, "goals": [goal], "plan": plan}


@as_arguments(PathOptions)
def path(options: PathOptions) -> DecPOMDPEnv:
    """Guide a walker through a maze: `path-v1`.

    ## Description
    `caller_0` sees the map, the walker and the goal, and writes a hint. `planner_0` reads the hint, moves the
    walker, and sees only the cells next to its way. They act in turn, the caller first, five times each.

    ## Observation Space
    `UnicodeText`: the map as far as an agent sees it, and for the planner the hint.

    ## Action Space
    `UnicodeText`: any text is legal. The planner's moves are the lines of its answer that consist of the letters
    U, D, L, R, or of the words up, down, left, right. Moves into walls and off the map are refused.

    ## Rewards
    The increase of a score in [0, 1]: (d0 - d) / d0 - 0.01 * refused moves, at least 0. d is the number of steps
    from the walker to the goal along the shortest way, and d0 that at the start. The episode's sum is the final
    score.
    `solved` means that the walker is at the goal.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. Maps are random; no map of the
    split `test` is a training map, or a rotation or reflection of one.

    ## Episode End
    Terminates at the goal, or after `num_turns` turns.

    Raises:
        ValueError: If an argument has a bad value.

    ## Version History
    - v1: first version. It repairs the rewards of Plan-Path (AT-GRPO, arXiv 2510.11062), where wandering earns
      more than arriving; there is no v0. Before its release, the
      caller's prompt and the reading of answers changed (`docs/environments.md#answers-without-code`).
    """
    max_moves = 2 * options.size if options.max_moves is None else options.max_moves
    game = pick(PathGame, options, max_moves=max_moves, boxes=0)
    kind = (options.size, options.walls, max_moves)
    return world_env("path-v1", game, options, draw_path, partial(walk_task, "path"), *kind)


# Sokoban


WALLS = 0.15
"""Share of walls of a level."""

LEAST_PUSHES = 2
"""Least number of pushes of a level, so that no single move solves it."""


class SokobanOptions(HintOptions):
    """Options of `sokoban`."""

    size: int = option(6, ge=4, le=6)
    """Width and height of a level; its edge is a wall around it."""
    boxes: int = option(1, ge=1, le=2)
    """Number of boxes and goals."""
    max_moves: int | None = option(None, ge=2, le=50)
    """Moves of an episode, refused ones included; by default five times the size."""


@dataclass(frozen=True)
class SokobanGame(WalkGame):
    """The rules of `sokoban-v1`."""

    story: ClassVar[str] = (
        "Every box must stand on a goal. The walker pushes a box by walking against it, and cannot pull. Walls, "
        "the edge of the map, and boxes with a wall or a box behind them refuse moves."
    )
    legend: ClassVar[str] = ", B box, * box on a goal, + walker on a goal"

    scripts = property(walk_strategies)  # they depend on the options

    def is_drawn(self, task: Any) -> bool:
        """Check whether a level with one box needs enough pushes and can be solved in time."""
        moves = least_moves(task.rows, task.goals[0], True).get((task.start, task.boxes), math.inf)
        pushes = least_pushes(task.rows, task.boxes, task.goals)
        return LEAST_PUSHES <= pushes and moves <= self.max_moves

    def is_won(self, task: Any, state: State) -> bool:
        """Check whether every box is on a goal."""
        return set(state[1]) == set(task.goals)

    def progress(self, task: Any, state: State) -> float:
        """Return (p0 - p) / p0 with the pushes p that the boxes need, each as if it were alone."""
        return 1 - least_pushes(task.rows, state[1], task.goals) / least_pushes(
            task.rows, task.boxes, task.goals
        )


def least_pushes(rows: Sequence[str], boxes: Sequence[Cell], goals: Sequence[Cell]) -> float:
    """Return a lower bound of the pushes that a level needs; infinite if a box can reach no goal.

    Each box counts as if it were alone and the walker were everywhere, in the best assignment of boxes to goals.
    """
    tables = [pushes_to(tuple(rows), goal) for goal in goals]
    return min(
        sum(table.get(box, float("inf")) for table, box in zip(tables, order, strict=True))
        for order in permutations(boxes)
    )


@lru_cache(maxsize=1024)
def pushes_to(rows: tuple[str, ...], goal: Cell) -> dict[Cell, int]:
    """Return the number of pushes that a lone box needs from each cell to a goal, by pulling it back."""
    lengths, queue = {goal: 0}, [goal]
    for x, y in queue:  # grows while it is read
        for dx, dy in STEPS.values():
            box, walker = (x - dx, y - dy), (x - 2 * dx, y - 2 * dy)
            if box not in lengths and is_floor(rows, box) and is_floor(rows, walker):
                lengths[box] = lengths[x, y] + 1
                queue.append(box)
    return lengths


def draw_sokoban(rng: np.random.Generator, size: int, boxes: int, max_moves: int) -> Row | None:
    """Draw a level that breadth-first search solves; its key is the level without the walker."""
    cells = [(int(n) % size, int(n) // size) for n in rng.permutation(size * size)]
    count = round(WALLS * size * size)
    blocked, (start, *others) = set(cells[:count]), cells[count : count + 1 + 2 * boxes]
    rows = ["".join(WALL if (x, y) in blocked else FLOOR for x in range(size)) for y in range(size)]
    placed, goals = tuple(sorted(others[:boxes])), tuple(sorted(others[boxes:]))
    if not LEAST_PUSHES <= least_pushes(rows, placed, goals) < float("inf"):
        return None
    alive = set().union(*(pushes_to(tuple(rows), goal) for goal in goals))
    plan = find_plan(rows, (start, placed), lambda state: state[1] == goals, alive)
    if plan is None or len(plan) > max_moves:
        return None
    key = canonical(drawn_rows(rows, ((-1, -1), placed), goals))
    row = {"key": key, "rows": rows, "start": start, "goals": goals}
    return {**row, "boxes": placed, "plan": plan}


@as_arguments(SokobanOptions)
def sokoban(options: SokobanOptions) -> DecPOMDPEnv:
    """Push boxes onto goals: `sokoban-v1`.

    ## Description
    `caller_0` sees the level and writes a hint. `planner_0` reads the hint, moves the walker, and sees only the
    cells next to its way. They act in turn, the caller first, five times each. A box that is pushed into a corner
    may make the level unsolvable.

    ## Observation Space
    `UnicodeText`: the level as far as an agent sees it, and for the planner the hint.

    ## Action Space
    `UnicodeText`: any text is legal. Moves are read as in `path-v1`. A move into a wall, off the map, or against a
    box that cannot move is refused.

    ## Rewards
    The increase of a score in [0, 1]: (p0 - p) / p0 - 0.01 * refused moves, at least 0. p is the number of pushes
    that the boxes still need, each counted as if it were alone, and infinite if a box can reach no goal. The
    episode's sum is the final score. `solved` means that every box is on a goal.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. Levels are random, and
    breadth-first search found their shortest solutions. No level of the split `test` is a training level, or a
    rotation or reflection of one.

    ## Episode End
    Terminates when every box is on a goal, or after `num_turns` turns.

    Raises:
        ValueError: If an argument has a bad value.

    ## Version History
    - v1: first version. It repairs the success of Sokoban in AT-GRPO (arXiv 2510.11062), where an episode that
      runs out of moves counts as solved; there is no v0. Before its release, the
      caller's prompt and the reading of answers changed (`docs/environments.md#answers-without-code`).
    """
    max_moves = 5 * options.size if options.max_moves is None else options.max_moves
    game = pick(SokobanGame, options, max_moves=max_moves)
    kind = (options.size, options.boxes, max_moves)
    to_task = partial(walk_task, "sokoban")
    return world_env("sokoban-v1", game, options, draw_sokoban, to_task, *kind)
