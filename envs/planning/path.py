"""The family `path-v1`: a walker in a maze, whose way the caller sees and the planner does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import Row
from llm_decpomdp.envs.planning.hints import HintOptions
from llm_decpomdp.envs.planning.walk import (
    FLOOR,
    WALL,
    State,
    WalkGame,
    find_plan,
    is_floor,
    least_moves,
    walk_task,
)
from llm_decpomdp.envs.planning.walk_strategies import walk_strategies
from llm_decpomdp.envs.worlds.game import world_env
from llm_decpomdp.envs.worlds.grid import canonical, distances
from llm_decpomdp.envs.worlds.strategies import Strategy
from llm_decpomdp.options import as_arguments, option, pick


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

    @property
    def scripts(self) -> Mapping[str, Strategy]:  # type: ignore[override]  # they depend on the options
        """Scripted teams."""
        return walk_strategies(self)

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
      more than arriving; there is no v0.
    """
    max_moves = 2 * options.size if options.max_moves is None else options.max_moves
    game = pick(PathGame, options, max_moves=max_moves, boxes=0)
    kind = (options.size, options.walls, max_moves)
    return world_env("path-v1", game, options, draw_path, partial(walk_task, "path"), *kind)
