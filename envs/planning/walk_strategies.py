"""Scripted planners of mazes and levels: one that explores, and on small maps the best one without hints."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import combinations, product
from typing import Any

import numpy as np

from llm_decpomdp.envs.planning.hints import (
    CALLER,
    PLANNER,
    REFUSAL_COST,
    game_of,
    guide,
    hint_exploits,
    state_of,
)
from llm_decpomdp.envs.planning.walk import (
    EXAMPLE,
    FLOOR,
    STEPS,
    UNSEEN,
    WALL,
    State,
    WalkGame,
    WalkTask,
    around,
    drawn_rows,
    find_plan,
    least_moves,
    move,
    read_moves,
    state_in,
    steps_on,
)
from llm_decpomdp.envs.worlds.game import task_fields
from llm_decpomdp.envs.worlds.grid import Cell, canonical
from llm_decpomdp.envs.worlds.strategies import Strategy, say

SMALL, FEW_MOVES = 4, 6
"""Largest size and number of moves of maps on which the best planner without hints is computed, in seconds."""


def walk_strategies(game: WalkGame) -> Mapping[str, Strategy]:
    """Return the scripted teams of a game.

    The best planner without hints is exact where it sees everything, or where the maps are small and it has an
    answer for each move. With fewer answers this value is its limit.
    """
    full, small = game.sight == "full", game.size <= SMALL and game.max_moves <= FEW_MOVES
    alone = Strategy(explore, exact=(lambda task: 1.0) if full else None, limit=lambda task: 1.0)
    if small and game.boxes < 2 and not full:
        value, has_answers = partial(best_value, game), game.num_turns >= 2 * game.max_moves
        alone = Strategy(search_beliefs, exact=value if has_answers else None, limit=value)
    return {
        "optimum": Strategy(guide, exact=lambda task: 1.0),
        "alone": alone,
        "silent": alone,
        "random": Strategy(wander),
        **hint_exploits(EXAMPLE),
        "200 moves up": Strategy(say("U" * 200)),
        "back and forth": Strategy(say("LR" * 100)),
        "padding": Strategy(pad, bound="optimum"),
    }


def explore(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Let the planner search without a hint, and the caller be silent.

    The planner takes what it has not seen for floor. If it has seen all goals and boxes it follows a shortest
    plan. Else it walks from one unseen cell to the next, as far as it may on this turn if all turns get as many
    moves.
    """
    if CALLER in prompts:
        return {CALLER: ""}
    task, turns, world = state_of(env)
    game, state = game_of(env), state_in(world)
    everything = {(x, y) for y, row in enumerate(task.rows) for x in range(len(row))}
    seen = everything if game.sight == "full" else game.seen(task, world) & everything
    rows = [
        "".join(c if (x, y) in seen else FLOOR for x, c in enumerate(row))
        for y, row in enumerate(task.rows)
    ]
    plan = None
    if seen.issuperset((*task.goals, *state[1])):
        plan = find_plan(rows, state, lambda found: game.is_won(task, found))
    if plan is None:
        answers = (env.unwrapped.num_turns - len(turns) + 1) // 2
        moves = -(-(game.max_moves - world["moves"]) // answers)
        visible = (state[0], tuple(box for box in state[1] if box in seen))
        plan = _look_around(rows, visible, seen, everything)[:moves]
    return {PLANNER: plan}


def _look_around(rows: Sequence[str], state: State, seen: set[Cell], cells: set[Cell]) -> str:
    """Return moves from the nearest unseen cell to the next, as if all were floor, until all are seen."""
    letters, steps = "", steps_on(tuple(rows))
    while cells - seen:
        plan = find_plan(rows, state, partial(_is_outside, seen))
        if plan is None:
            break
        for letter in plan:
            state = move(steps, state, letter) or state
            seen = seen | around(state[0])
        letters += plan
    return letters


def _is_outside(cells: Collection[Cell], state: State) -> bool:
    return state[0] not in cells


def wander(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Move at random."""
    letters = "".join(rng.choice(list(STEPS), size=game_of(env).max_moves))
    return dict.fromkeys(prompts, letters)


def pad(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
    """Follow a shortest plan, and go on moving after it."""
    return {agent: text + "\n" + "UD" * 100 for agent, text in guide(env, prompts, rng).items()}


# The best planner without hints on small maps

Cases = tuple[tuple[int, State], ...]
"""The maps that are possible, by their numbers, each with the walker and the boxes. All are equally likely."""

Area = frozenset[Cell]
"""Cells that were seen."""

EQUAL = 1e-12
"""Largest difference of values that rounding explains."""


class BeliefSearch:
    """A search over beliefs, which are the maps that fit what a planner has seen.

    The planner looks after each move. So its value is exact where it has an answer for each move, else a bound.
    A move is not followed if even a planner that then sees everything gains nothing by it.
    """

    def __init__(self, game: WalkGame, maps: Sequence[WalkTask]):
        self.game, self.maps = game, maps
        self.steps = [steps_on(task.rows) for task in maps]
        self.needs = [least_moves(t.rows, t.goals[0], bool(t.boxes)) for t in maps]
        # Without walker and boxes, which move: a place outside of the map hides the walker.
        self.drawn = [drawn_rows(t.rows, ((-1, -1), ()), t.goals) for t in maps]
        self.progress: dict[tuple[int, State, int], float] = {}
        self.values: dict[tuple[Cases, Area, int, int], tuple[float, str]] = {}

    def best(self, cases: Cases, area: Area, moves: int, refusals: int) -> tuple[float, str]:
        """Return the best expected score, and the next move: empty to stay.

        Args:
            cases: The belief.
            area: The cells that were seen.
            moves: Moves that are left.
            refusals: Moves that were refused.
        """
        key = (cases, area, moves, refusals)
        if key not in self.values:
            self.values[key] = self._search(cases, area, moves, refusals)
        return self.values[key]

    def _search(self, cases: Cases, area: Area, moves: int, refusals: int) -> tuple[float, str]:
        best, letter = self._mean(self._score(*case, refusals) for case in cases), ""
        if moves == 0 or self.game.is_won(self.maps[cases[0][0]], cases[0][1]):
            return best, letter
        options = []
        for step in STEPS:
            groups = self.outcomes(cases, area, step)
            ideal = self._mean(
                self._ideal(*case, moves - 1, refusals + is_refused)
                for is_refused, _, group in groups
                for case in group
            )
            options.append((ideal, step, groups))
        for ideal, step, groups in sorted(options, key=lambda option: -option[0]):
            # Sorted, so none of the other options is better either.
            if ideal <= best + EQUAL:
                break
            values = (
                (len(group), self.best(group, after, moves - 1, refusals + is_refused)[0])
                for is_refused, after, group in groups
            )
            # Where a single map is left, nothing is uncertain, and the ideal can be had.
            value = ideal if len(cases) == 1 else sum(n * v for n, v in values) / len(cases)
            if value > best + EQUAL:
                best, letter = value, step
        return best, letter

    def outcomes(self, cases: Cases, area: Area, letter: str) -> list[tuple[bool, Area, Cases]]:
        """Return the beliefs after a move: whether it was refused, the seen cells, and the maps."""
        (x, y), (dx, dy) = cases[0][1][0], STEPS[letter]
        after = area | around((x + dx, y + dy))
        size = range(len(self.drawn[0]))
        new = [(u, v) for u, v in after - area if u in size and v in size]
        groups: dict[object, list[tuple[int, State]]] = {}
        for number, state in cases:
            ahead = move(self.steps[number], state, letter)
            rows, key = self.drawn[number], None
            if ahead is not None:
                boxes = [box for box in ahead[1] if box in after]
                key = (*boxes, *(rows[v][u] for u, v in new))
            groups.setdefault(key, []).append((number, ahead or state))
        return [
            (key is None, area if key is None else after, tuple(group))
            for key, group in groups.items()
        ]

    def _score(self, number: int, state: State, refusals: int) -> float:
        return max(0.0, self._progress(number, state, 0) - REFUSAL_COST * refusals)

    def _ideal(self, number: int, state: State, moves: int, refusals: int) -> float:
        """Return the best score on a map for a planner that sees it."""
        won = self.needs[number].get(state, moves + 1) <= moves
        progress = 1.0 if won else self._progress(number, state, moves)
        return max(0.0, progress - REFUSAL_COST * refusals)

    def _progress(self, number: int, state: State, moves: int) -> float:
        """Return the most progress within a number of moves on a map that is known."""
        key = (number, state, moves)
        if key not in self.progress:
            most = self.game.progress(self.maps[number], state)
            if moves:
                steps = (move(self.steps[number], state, letter) for letter in STEPS)
                most = max([most, *(self._progress(number, s, moves - 1) for s in steps if s)])
            self.progress[key] = most
        return self.progress[key]

    @staticmethod
    def _mean(scores: Iterator[float]) -> float:
        values = list(scores)
        return sum(values) / len(values)


def possible_maps(game: WalkGame, view: Sequence[str], walls: int) -> list[WalkTask]:
    """Return the maps that the generator may draw and whose first view is the given one.

    Args:
        game: The rules.
        view: Rows of the first view.
        walls: Number of walls of every map.
    """
    cells = {(x, y): mark for y, row in enumerate(view) for x, mark in enumerate(row)}
    places = {mark: [cell for cell, sign in cells.items() if sign == mark] for mark in "#WGB?"}
    maps: list[WalkTask] = []
    for hidden in combinations(places["?"], walls - len(places[WALL])):
        blocked = {*places[WALL], *hidden}
        rows = tuple(
            "".join(WALL if (x, y) in blocked else FLOOR for x in range(len(row)))
            for y, row in enumerate(view)
        )
        free = [cell for cell in places["?"] if cell not in blocked]
        for goal, *boxes in product(
            *(places[mark] or free for mark in ("GB" if game.boxes else "G"))
        ):
            if goal not in boxes:
                task = WalkTask(
                    **task_fields("map", len(maps)),
                    rows=rows,
                    start=places["W"][0],
                    goals=(goal,),
                    boxes=tuple(boxes),
                    solution="",
                )
                if game.is_drawn(task):
                    maps.append(task)
    return maps


@lru_cache(maxsize=256)
def first_belief(game: WalkGame, view: str, walls: int) -> tuple[BeliefSearch, Cases, Area]:
    """Return a search, and its first belief and seen cells, for a first view and the number of walls."""
    rows = view.split("\n")
    maps = possible_maps(game, rows, walls)
    area = {(x, y) for y, row in enumerate(rows) for x, mark in enumerate(row) if mark != UNSEEN}
    cases = tuple((number, (task.start, task.boxes)) for number, task in enumerate(maps))
    return BeliefSearch(game, maps), cases, frozenset(area)


def first_view(game: WalkGame, task: WalkTask) -> tuple[list[str], int]:
    """Return the planner's first view of a task, and the number of its walls."""
    return list(game.view(task, game.begin(task), PLANNER)), "".join(task.rows).count(WALL)


def best_value(game: WalkGame, task: WalkTask) -> float:
    """Return the expected score, given its first view, of the best planner that looks after each move."""
    view, walls = first_view(game, task)
    # Rotations and reflections have the same value.
    search, cases, area = first_belief(game, canonical(view), walls)
    return search.best(cases, area, game.max_moves, 0)[0]


def search_beliefs(
    env: Any, prompts: Mapping[str, str], rng: np.random.Generator
) -> Mapping[str, str]:
    """Let the planner make the best moves up to the first that shows something, and the caller be silent."""
    if CALLER in prompts:
        return {CALLER: ""}
    game, (task, turns, _) = game_of(env), state_of(env)
    view, walls = first_view(game, task)
    search, cases, area = first_belief(game, "\n".join(view), walls)
    pieces = (task.rows, task.goals, task.boxes)
    true = next(n for n, m in enumerate(search.maps) if (m.rows, m.goals, m.boxes) == pieces)
    moves, refusals = game.max_moves, 0
    for turn in turns:
        letters = read_moves(turn.completions.get(PLANNER, ""), moves)[0]
        moves -= len(letters)
        for letter in letters:
            after = search.outcomes(cases, area, letter)
            is_refused, area, cases = next(o for o in after if true in dict(o[2]))
            refusals += is_refused
    text, is_last = "", len(turns) + 2 >= game.num_turns
    while step := search.best(cases, area, moves, refusals)[1]:
        after = search.outcomes(cases, area, step)
        text, moves = text + step, moves - 1
        if len(after) > 1 and not is_last:
            break
        # On the last answer nothing more is shown: the most likely belief counts.
        is_refused, area, cases = max(after, key=lambda outcome: len(outcome[2]))
        refusals += is_refused
    return {PLANNER: text}
