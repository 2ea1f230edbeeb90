"""The family `sudoku-v1`: a grid of 4x4 cells, most of whose clues only the caller sees."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.planning.hints import (
    CALLER,
    PLANNER,
    HintGame,
    HintOptions,
    World,
    game_of,
    guide,
    hint_exploits,
    state_of,
)
from llm_decpomdp.envs.worlds.commands import plain_lines
from llm_decpomdp.envs.worlds.game import task_fields, world_env
from llm_decpomdp.envs.worlds.grid import canonical
from llm_decpomdp.envs.worlds.strategies import Strategy, say
from llm_decpomdp.interfaces import Task
from llm_decpomdp.options import as_arguments, option, pick
from llm_decpomdp.picture import GROUND, panel, picture

Array = NDArray[Any]

SIDE, CELLS = 4, 16

DIGITS = "1234"

OPEN = "."
"""A cell without a digit."""

EXAMPLE = "1234\n3412\n2143\n4321"
"""The example of the prompts. It contradicts a clue that the planner sees, in every task."""

MISTAKE = 1 / (len(DIGITS) - 1)
"""Cost of a wrong digit, in right ones: a guess among four digits is worth nothing on average."""


class SudokuOptions(HintOptions):
    """Options of `sudoku`."""

    clues: int = option(8, ge=5, le=12)
    """Number of clues. With `sight: split` the planner sees a quarter of them, rounded down."""


@dataclass(frozen=True)
class SudokuTask(Task):
    """A puzzle with one solution; all texts have the 16 cells row by row."""

    solution: str = field(kw_only=True)
    clues: str = field(kw_only=True)
    part: str = field(kw_only=True)
    """The clues that the planner sees if sight is split."""


@lru_cache(maxsize=1)
def solutions() -> tuple[str, ...]:
    """Return the 288 grids in which every row, column and block has each digit once."""
    rows = ["".join(digits) for digits in permutations(DIGITS)]
    grids = []
    for lines in product(rows, repeat=SIDE):
        if all(len(set(column)) == SIDE for column in zip(*lines, strict=True)):
            blocks = [lines[y][x : x + 2] + lines[y + 1][x : x + 2] for y in (0, 2) for x in (0, 2)]
            if all(len(set(block)) == SIDE for block in blocks):
                grids.append("".join(lines))
    return tuple(grids)


def fits(grid: str, clues: str) -> bool:
    """Check whether a grid has the digit of every clue."""
    return all(clue in (OPEN, digit) for digit, clue in zip(grid, clues, strict=True))


@lru_cache(maxsize=1)
def grids_by_digit() -> Mapping[tuple[int, str], frozenset[int]]:
    """Return for each cell and digit the positions of the solved grids with that digit there."""
    return {
        (cell, digit): frozenset(n for n, grid in enumerate(solutions()) if grid[cell] == digit)
        for cell, digit in product(range(CELLS), DIGITS)
    }


def candidates(clues: str) -> list[str]:
    """Return the solved grids that fit clues."""
    numbers = frozenset(range(len(solutions())))
    for cell, clue in enumerate(clues):
        if clue != OPEN:
            numbers &= grids_by_digit()[cell, clue]
    return [solutions()[n] for n in sorted(numbers)]


def relabeled(grid: str) -> str:
    """Return a grid, or clues, with the digits renamed to 1, 2, 3, 4 in the order in which they first occur."""
    digits = "".join(dict.fromkeys(grid.replace(OPEN, "")))
    return grid.translate(str.maketrans(digits, DIGITS[: len(digits)]))


def lines_of(grid: str) -> list[str]:
    """Return the rows of a grid."""
    return [grid[start : start + SIDE] for start in range(0, CELLS, SIDE)]


_SEPARATORS = re.compile(r"[\s,;:|/&\\()\[\]+\u2500-\u257f-]")


def read_grid(text: str) -> str | None:
    """Return the last grid of an answer; `None` if there is none.

    Lines count that have only digits 1 to 4, open cells (`.`, `0`, `_`, `?`) and separators, and whole rows of
    four cells. A grid is 16 cells without other text between them, or else the last 16 cells of all.
    """
    grids = [""]
    for line in plain_lines(text):
        bare = _SEPARATORS.sub("", line.text)
        if len(bare) % SIDE == 1:  # a sentence's end
            bare = bare.removesuffix(".")
        if bare and len(bare) % SIDE == 0 and re.fullmatch(r"[1-4.0_?]+", bare):
            grids[-1] += re.sub(r"[0_?]", OPEN, bare)
        elif re.search(r"\w", line.text):
            grids.append("")
    complete = [grid for grid in ("".join(grids), *grids) if len(grid) >= CELLS]
    return complete[-1][-CELLS:] if complete else None


@dataclass(frozen=True)
class SudokuGame(HintGame):
    """The rules of `sudoku-v1`."""

    def shown(self, task: Any) -> str:
        """Return the clues that the planner sees."""
        return str(task.part if self.sight == "split" else task.clues)

    def chances(self, task: Any) -> tuple[int, int]:
        """Return the numbers of clues and of the planner's answers."""
        return CELLS - task.clues.count(OPEN), self.num_turns // 2

    def best_value(self, task: Any) -> float:
        """Return the best expected score without hints, given the clues that the planner sees."""
        # Rotations, reflections and other names of the digits have the same value.
        view = canonical(lines_of(self.shown(task))).replace("\n", "")
        return best_guesses(relabeled(view), *self.chances(task))[0]

    @property
    def scripts(self) -> Mapping[str, Strategy]:  # type: ignore[override]  # they depend on the options
        """Scripted teams."""
        silent = Strategy(guess, exact=self.best_value)
        return {
            "optimum": Strategy(guide, exact=lambda task: 1.0),
            "alone": silent,
            "silent": silent,
            "random": Strategy(scribble),
            **hint_exploits(EXAMPLE),
            "one digit": Strategy(say("1111\n1111\n1111\n1111")),
            "open cells": Strategy(say("....\n....\n....\n....")),
            "padding": Strategy(pad, bound="optimum"),
        }

    def begin(self, task: Any) -> World:
        """Return the world before the first turn: a grid without digits."""
        return {"grid": OPEN * CELLS, "refused": 0, "progress": 0.0, "solved": False}

    def advance(self, task: Any, world: World, answer: str) -> tuple[dict[str, Any], int]:
        """Replace the grid by that of an answer, unless it contradicts a clue that the planner sees."""
        grid, shown = read_grid(answer), self.shown(task)
        if grid is None:
            return dict(world), 1
        filled = "".join(g if g != OPEN else s for g, s in zip(grid, shown, strict=True))
        if not fits(filled, shown):
            return {**world, "refused": world["refused"] + 1}, 0
        points = share_right(filled, task.solution, shown)
        found = {"grid": filled, "progress": max(0.0, points), "solved": filled == task.solution}
        return {**world, **found}, 0

    def view(self, task: Any, world: World, agent: str) -> Sequence[str]:
        """Return the clues that an agent sees."""
        return lines_of(task.clues if agent == CALLER else self.shown(task))

    def rules(self, task: Any, world: World, agent: str) -> str:
        """Return the rules, the last grid and what to answer."""
        story = (
            "The grid has 4x4 cells. Every row, every column and every block of 2x2 cells has each digit from 1 "
            "to 4 once. Only one grid fits all clues."
        )
        last = "/".join(lines_of(world["grid"]))
        grid = f" The planner's last grid: {last}." if last.strip("./") else ""
        legend = f"The clues ({OPEN} for cells without one):"
        split = self.sight == "split"
        if agent == PLANNER:
            sees = "sees clues that you do not see" if split else "sees the same clues"
            partner = f" Your partner, the caller, {sees}." if self.num_agents > 1 else ""
            example = "\n".join(" ".join(row) for row in EXAMPLE.split())
            return (
                f"You are the planner: you fill the grid.{partner} {story}\n"
                f"Answer with four lines of four digits, and {OPEN} for cells that you leave open, such as\n"
                f"{example}\nA wrong digit costs a third of what a right one earns. A grid that contradicts a "
                f"clue below is refused, and costs 0.01 points.{grid}\n{legend}"
            )
        sees = "only a quarter of the clues" if split else "the same clues"
        return (
            f"You are the caller: you see all clues, and write a hint of at most {self.hint_length} characters "
            f"and nothing else. Your partner, the planner, reads it and fills the grid, and sees {sees}. "
            f"{story}{grid}\n{legend}"
        )

    def draw(self, task: Any, world: World) -> Mapping[str, Any]:
        """Return the clues, what the planner sees of them, its grid, and which of its digits are right."""
        marks = "".join(
            GROUND if digit == OPEN else "o" if digit == right else "x"
            for digit, right in zip(world["grid"], task.solution, strict=True)
        )
        grids = {"clues": task.clues, "planner sees": self.shown(task), "grid": world["grid"]}
        panels = [
            panel(title, lines_of(grid.replace(OPEN, GROUND)))
            for title, grid in {**grids, "right?": marks}.items()
        ]
        return picture(panels, {"o": ("#2e7d32", "right digit"), "x": ("#c62828", "wrong digit")})

    def plan(self, task: Any, world: World) -> str:
        """Return the solution."""
        return "\n".join(lines_of(task.solution))


def share_right(grid: str, solution: str, shown: str) -> float:
    """Return (right - wrong / 3) / all of the cells without a clue."""
    cells = [(g, s) for g, s, clue in zip(grid, solution, shown, strict=True) if clue == OPEN]
    right = sum(digit == answer for digit, answer in cells)
    wrong = sum(digit not in (OPEN, answer) for digit, answer in cells)
    return (right - MISTAKE * wrong) / len(cells)


def draw_sudoku(rng: np.random.Generator, clues: int) -> Row | None:
    """Draw a puzzle with one solution; its key is the solution up to the names of the digits."""
    solution = solutions()[int(rng.integers(len(solutions())))]
    places = [int(place) for place in rng.permutation(CELLS)[:clues]]
    grid, part = (
        "".join(digit if place in kept else OPEN for place, digit in enumerate(solution))
        for kept in (places, places[: clues // 4])
    )
    if fits("".join(EXAMPLE.split()), part) or len(candidates(grid)) > 1:
        return None
    return {"key": relabeled(solution), "solution": solution, "clues": grid, "part": part}


def _task(index: int, row: Row) -> SudokuTask:
    fields = task_fields("sudoku", index)
    return SudokuTask(**fields, solution=row["solution"], clues=row["clues"], part=row["part"])


# Scripted teams


def likelihoods(shown: str, clues: int) -> tuple[list[str], Array]:
    """Return the solved grids that fit the clues that the planner sees, and their probabilities.

    A grid is as likely as there are sets of hidden clues with which it is the only solution.
    """
    grids, places = candidates(shown), [n for n, clue in enumerate(shown) if clue == OPEN]
    sets = combinations(places, clues - (CELLS - len(places)))
    hidden = np.array([sum(1 << place for place in subset) for subset in sets])
    counts = []
    for grid in grids:
        differences = (
            sum(1 << n for n in places if grid[n] != rival[n]) for rival in grids if rival != grid
        )
        counts.append(np.all([(hidden & bits) != 0 for bits in differences], axis=0).sum())
    return grids, np.array(counts) / sum(counts)


@lru_cache(maxsize=4096)
def best_guesses(shown: str, clues: int, answers: int) -> tuple[float, tuple[str, ...]]:
    """Return the best expected score without hints, and the grids of the planner's answers.

    An answer shows only whether it is right, and the last one counts. So the planner tries some grids, and then
    writes the one with the most expected points. Branch and bound over its cells finds both: the points of a grid
    are convex in its number of right digits, so the chord to all digits right is a bound.

    Args:
        shown: The clues that the planner sees.
        clues: Number of all clues.
        answers: Number of answers.
    """
    grids, chances = likelihoods(shown, clues)
    if len(grids) <= answers:
        return 1.0, tuple(grids)
    places = [n for n, clue in enumerate(shown) if clue == OPEN]

    # The most certain cells first, so that bounds are tight early.
    table = np.array([list(grid) for grid in grids])
    places.sort(key=lambda n: -max(chances @ (table[:, n] == digit) for digit in DIGITS))
    digits = np.array([[int(grid[n]) - 1 for n in places] for grid in grids])
    right = np.arange(len(places) + 1)
    points = np.maximum(0.0, (right - MISTAKE * (len(places) - right)) / len(places))

    def gains(rights: Array) -> Array:
        """Return what each grid gains by a try, next to the points of the last answer."""
        return (1.0 - points[rights]) * chances

    def values(rights: Array) -> Array:
        bonus = np.sort(gains(rights), axis=-1)[..., len(grids) - answers + 1 :].sum(-1)
        return np.asarray(points[rights] @ chances + bonus)

    def climb(grid: Array) -> float:
        """Return the value of a grid after changes of single digits, as long as one is better."""
        value, trials = -1.0, np.array([grid])
        while (new := values((trials[:, None] == digits).sum(-1))).max() > value + 1e-9:
            value, grid = new.max(), trials[new.argmax()]
            trials = np.repeat(grid[None], len(places) * SIDE, axis=0)
            trials[np.arange(len(trials)), np.arange(len(trials)) // SIDE] = (
                np.arange(len(trials)) % SIDE
            )
        return float(value)

    # A little less, so that rounding does not lose the best grid itself.
    best = max(map(climb, digits)) - 1e-9
    nodes, rights = np.zeros((1, 0), int), np.zeros((1, len(grids)), int)
    for n in range(len(places)):
        choices = np.tile(np.arange(SIDE), len(nodes))
        nodes = np.column_stack([np.repeat(nodes, SIDE, axis=0), choices])
        rights = np.repeat(rights, SIDE, axis=0) + (choices[:, None] == digits[:, n])
        rest = len(places) - n - 1
        bounds = values(rights)
        if rest:
            slopes = (points[rights + rest] - points[rights]) / rest * chances
            match = (digits[:, n + 1 :, None] == np.arange(SIDE)).reshape(len(grids), -1)
            bounds = bounds + (slopes @ match).reshape(len(nodes), rest, SIDE).max(-1).sum(-1)
        nodes, rights = nodes[bounds > best], rights[bounds > best]
    place = values(rights).argmax()
    tries = np.argsort(-gains(rights[place]))[: answers - 1]
    last = list(shown)
    for n, digit in zip(places, nodes[place], strict=True):
        last[n] = DIGITS[digit]
    return float(values(rights)[place]), (*(grids[n] for n in tries), "".join(last))


def guess(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Let the planner make the best guesses, and the caller be silent."""
    if CALLER in prompts:
        return {CALLER: ""}
    task, turns, _ = state_of(env)
    game = game_of(env)
    _, grids = best_guesses(game.shown(task), *game.chances(task))
    return {PLANNER: "\n".join(lines_of(grids[len(turns) // 2]))}


def scribble(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Keep the clues, and write random digits elsewhere."""
    shown = game_of(env).shown(state_of(env)[0])
    grid = "".join(c if c != OPEN else str(rng.integers(1, SIDE + 1)) for c in shown)
    return dict.fromkeys(prompts, "\n".join(lines_of(grid)))


def pad(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Write the solution between other grids."""
    return {agent: f"{EXAMPLE}\n{text}" for agent, text in guide(env, prompts, rng).items()}


@as_arguments(SudokuOptions)
def sudoku(options: SudokuOptions) -> DecPOMDPEnv:
    """Fill a grid with digits: `sudoku-v1`.

    ## Description
    `caller_0` sees all clues of a Sudoku of 4x4 cells and writes a hint. `planner_0` reads the hint, sees a
    quarter of the clues, and fills the grid. They act in turn, the caller first, five times each. The planner's
    last grid counts.

    ## Observation Space
    `UnicodeText`: the clues that an agent sees, and for the planner the hint.

    ## Action Space
    `UnicodeText`: any text is legal. The planner's grid is the last one in its lines of digits. A grid that
    contradicts a clue that the planner sees is refused.

    ## Rewards
    The increase of a score in [0, 1]: (right - wrong / 3) / open - 0.01 * refused grids, at least 0, over the
    cells without a clue that the planner sees. The episode's sum is the final score. `solved` means that the grid
    is the solution.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. Each puzzle has one solution. No
    solution of the split `test` is a training solution with renamed digits.

    ## Episode End
    Terminates when the grid is the solution, or after `num_turns` turns.

    Raises:
        ValueError: If an argument has a bad value.

    ## Version History
    - v1: first version. It repairs the Sudoku of AT-GRPO (arXiv 2510.11062), where any full grid counts as solved
      that keeps the rules, such as the example of the prompt; there is no v0. Before its release, the
      caller's prompt and the reading of answers changed (`docs/environments.md#answers-without-code`).
    """
    game = pick(SudokuGame, options)
    return world_env("sudoku-v1", game, options, draw_sudoku, _task, options.clues)
