"""A walker on a grid, with or without boxes: moves, shortest plans, and what a planner has seen."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.planning.hints import CALLER, PLANNER, HintGame, World
from llm_decpomdp.envs.worlds.commands import AnswerLine, plain_lines
from llm_decpomdp.envs.worlds.game import task_fields
from llm_decpomdp.envs.worlds.grid import Cell
from llm_decpomdp.interfaces import Task
from llm_decpomdp.picture import GROUND, panel, picture

STEPS: Mapping[str, Cell] = {"U": (0, -1), "R": (1, 0), "D": (0, 1), "L": (-1, 0)}

WORDS = {"up": "U", "right": "R", "down": "D", "left": "L"}

WALL, FLOOR, UNSEEN = "#", ".", "?"

EXAMPLE = "UDLR"
"""The example of the prompts."""

State = tuple[Cell, tuple[Cell, ...]]
"""The walker's cell, and those of the boxes in order."""

Steps = Mapping[Cell, Mapping[str, Cell]]
"""For each cell of the floor the cells next to it, by the letter of the move."""


@dataclass(frozen=True)
class WalkTask(Task):
    """A grid with a walker, goals, and as many boxes as goals or none."""

    rows: tuple[str, ...] = field(kw_only=True)
    """Walls and floor."""
    start: Cell = field(kw_only=True)
    goals: tuple[Cell, ...] = field(kw_only=True)
    boxes: tuple[Cell, ...] = field(default=(), kw_only=True)
    solution: str = field(kw_only=True)
    """A shortest plan."""


def walk_task(name: str, index: int, row: Row) -> WalkTask:
    """Make a task of a row."""
    return WalkTask(
        **task_fields(name, index),
        rows=tuple(row["rows"]),
        start=row["start"],
        goals=tuple(row["goals"]),
        boxes=tuple(row.get("boxes", ())),
        solution=row["plan"],
    )


def is_floor(rows: Sequence[str], cell: Cell) -> bool:
    """Check whether a cell is in the grid and no wall."""
    x, y = cell
    return 0 <= y < len(rows) and 0 <= x < len(rows[0]) and rows[y][x] != WALL


@lru_cache(maxsize=1024)
def steps_on(rows: tuple[str, ...]) -> Steps:
    """Return for each cell of the floor the cells next to it by the letter of the move."""
    cells = [(x, y) for y in range(len(rows)) for x in range(len(rows[0]))]
    ways = {
        (x, y): {letter: (x + dx, y + dy) for letter, (dx, dy) in STEPS.items()} for x, y in cells
    }
    return {
        cell: {letter: ahead for letter, ahead in way.items() if is_floor(rows, ahead)}
        for cell, way in ways.items()
        if is_floor(rows, cell)
    }


def move(steps: Steps, state: State, letter: str) -> State | None:
    """Return the state after a move; `None` if a wall, the edge or a stuck box refuses it."""
    walker, boxes = state
    ahead = steps[walker].get(letter)
    if ahead is None or ahead not in boxes:
        return None if ahead is None else (ahead, boxes)
    behind = steps[ahead].get(letter)
    if behind is None or behind in boxes:
        return None
    # Sorted, so that a search meets equal positions of the boxes as one state.
    return ahead, tuple(sorted(behind if box == ahead else box for box in boxes))


def find_plan(
    rows: Sequence[str],
    state: State,
    is_won: Callable[[State], bool],
    alive: frozenset[Cell] | set[Cell] | None = None,
) -> str | None:
    """Return a shortest plan by breadth-first search; `None` if there is none.

    Args:
        rows: The grid.
        state: First state.
        is_won: Whether a state is a goal.
        alive: Cells on which boxes may stand, if boxes on others can reach no goal.
    """
    steps = steps_on(tuple(rows))
    earlier: dict[State, tuple[State, str] | None] = {state: None}
    queue = deque([state])
    while queue:
        current = queue.popleft()
        if is_won(current):
            letters = []
            while (step := earlier[current]) is not None:
                current, letter = step
                letters.append(letter)
            return "".join(reversed(letters))
        walker, boxes = current
        for letter, ahead in steps[walker].items():
            # Most moves push nothing: they are decided here, without a call.
            after = (ahead, boxes)
            if ahead in boxes:
                pushed = move(steps, current, letter)
                if pushed is None or (alive is not None and not alive.issuperset(pushed[1])):
                    continue
                after = pushed
            if after not in earlier:
                earlier[after] = (current, letter)
                queue.append(after)
    return None


@lru_cache(maxsize=8192)
def least_moves(rows: tuple[str, ...], goal: Cell, has_box: bool) -> Mapping[State, int]:
    """Return the least number of moves to a win with one goal, and one box or none, of all states that can win."""
    steps = steps_on(rows)
    lengths: dict[State, int] = {(goal, ()): 0}
    if has_box:
        lengths = {(cell, (goal,)): 0 for cell in steps if cell != goal}
    queue = deque(lengths)
    while queue:
        walker, boxes = state = queue.popleft()
        x, y = walker
        for letter, (dx, dy) in STEPS.items():
            before = (x - dx, y - dy)
            # The walker came from there, and pushed the box, or not.
            for earlier in ((before, boxes), (before, (walker,))):
                if len(earlier[1]) == len(boxes) and earlier not in lengths and before in steps:
                    if before not in earlier[1] and move(steps, earlier, letter) == state:
                        lengths[earlier] = lengths[state] + 1
                        queue.append(earlier)
    return lengths


ARROWS = dict(zip("\u2191\u2192\u2193\u2190\u2b06\u27a1\u2b07\u2b05", "URDLURDL", strict=True))

_BETWEEN = re.compile(
    r"(?:[\s,;|/.()\[\]+>-]|[\u2192\u21d2\u279c\u2794]|\b(?:and|then|move|go)\b)+", re.IGNORECASE
)
_REMARK = re.compile(
    r"\((?:[0-9]+ moves|(?:(?:up|down|left|right)[\s,]*)+)\)|(?<=[UDLR]{2})\.\s.*|(?<=[UDLR]{2}) \([^()]*\)",
    re.IGNORECASE,
)
_CONTINUES = re.compile(r"(?:then|next|after|finally)\b|step\s*(?!1\b)[0-9]", re.IGNORECASE)


def read_moves(text: str, limit: int) -> tuple[str, int]:
    """Read the moves of an answer: its last lines of U, D, L, R, of `up`, `down`, `left`, `right`, or of arrows.

    Lines without other text between them belong together, and so do numbered steps. Lines between fences or behind
    a label such as `Moves:` take precedence.

    Returns:
        The first `limit` moves, and the number of invalid ones: those beyond the limit, or 1 if there is no move.
    """
    plans = {True: "", False: ""}
    last: AnswerLine | None = None  # a line of moves that the next one may continue
    kind = False
    for line in plain_lines(text):
        moves, continues = _parse_moves(line.text), bool(_CONTINUES.match(line.label or line.text))
        if moves:
            if not continues and (last is None or line.label or line.is_fenced != last.is_fenced):
                kind = line.is_answer
                plans[kind] = ""
            plans[kind] += moves
            last = line
        elif line.text:
            last = None
    letters = plans[True] or plans[False]
    return letters[:limit], max(0, len(letters) - limit) if letters else 1


def _parse_moves(line: str) -> str:
    """Return the moves of a line; empty if it has anything else."""
    marks = re.sub(r"[\s,;|.]+", "", line)
    if all(mark in ARROWS for mark in marks):
        return "".join(ARROWS[mark] for mark in marks)
    words = _BETWEEN.sub(" ", _REMARK.sub("", line)).split()
    letters = [WORDS.get(word.lower(), word.upper()) for word in words]
    # Such as: U (up), D (down), L (left), R (right)
    is_legend = "(" in line and sorted(letters) == sorted(STEPS)
    is_plan = all(re.fullmatch("[UDLR]+", word) for word in letters) and not is_legend
    return "".join(letters) if is_plan else ""


def around(cell: Cell) -> set[Cell]:
    """Return a cell with the eight next to it."""
    x, y = cell
    return {(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)}


def drawn_rows(
    rows: Sequence[str], state: State, goals: Collection[Cell], seen: Collection[Cell] | None = None
) -> list[str]:
    """Return a grid with the walker `W`, boxes `B`, goals `G`, `*` for a box and `+` for the walker on a goal.

    Cells that are not `seen` are `?`.
    """
    walker, boxes = state
    lines = []
    for y, row in enumerate(rows):
        line = ""
        for x, character in enumerate(row):
            cell = (x, y)
            if seen is not None and cell not in seen:
                line += UNSEEN
            elif cell == walker:
                line += "+" if cell in goals else "W"
            elif cell in boxes:
                line += "*" if cell in goals else "B"
            else:
                line += "G" if cell in goals else character
        lines.append(line)
    return lines


KEY = {
    WALL: ("#666666", "wall"),
    "W": ("#2e7d32", "walker"),
    "+": ("#2e7d32", "walker on a goal"),
    "B": ("#b26a00", "box"),
    "*": ("#6a1b9a", "box on a goal"),
    "G": ("#e6b800", "goal"),
    UNSEEN: ("#cccccc", "not seen by the planner"),
}


@dataclass(frozen=True)
class WalkGame(HintGame):
    """A caller sees the grid, and a planner moves the walker; families say what is won and what is progress."""

    size: int = 10
    boxes: int = 0
    max_moves: int = 20
    story: ClassVar[str]
    """What the prompts say about the grid and the goal."""

    def is_won(self, task: Any, state: State) -> bool:
        """Check whether a state is a goal."""
        raise NotImplementedError

    def progress(self, task: Any, state: State) -> float:
        """Return the progress of a state, 1 if it is won."""
        raise NotImplementedError

    def is_drawn(self, task: Any) -> bool:
        """Check whether the generator draws a map, once its walls and pieces are in place."""
        raise NotImplementedError

    def begin(self, task: Any) -> World:
        """Return the world before the first turn."""
        return _world((task.start, task.boxes), [task.start], 0, 0, 0.0, False)

    def advance(self, task: Any, world: World, answer: str) -> tuple[dict[str, Any], int]:
        """Move the walker until it has won or has no moves left."""
        letters, invalid = read_moves(answer, self.max_moves - world["moves"])
        state, visited = state_in(world), list(map(tuple, world["visited"]))
        moves, refused = world["moves"], world["refused"]
        for letter in letters:
            if self.is_won(task, state):
                break
            after = move(steps_on(task.rows), state, letter)
            moves, refused = moves + 1, refused + (after is None)
            state = after or state
            if state[0] not in visited:
                visited.append(state[0])
        won = self.is_won(task, state)
        progress = 1.0 if won else min(1.0, max(0.0, self.progress(task, state)))
        return _world(state, visited, moves, refused, progress, won), invalid

    def seen(self, task: Any, world: World) -> set[Cell]:
        """Return the cells that the planner has seen: those next to its way, also across corners."""
        return set().union(*(around((x, y)) for x, y in world["visited"]))

    def view(self, task: Any, world: World, agent: str) -> Sequence[str]:
        """Return the grid, for the planner as far as it is known."""
        hidden = agent == PLANNER and self.sight == "split"
        seen = self.seen(task, world) if hidden else None
        return drawn_rows(task.rows, state_in(world), task.goals, seen)

    def rules(self, task: Any, world: World, agent: str) -> str:
        """Return the story, the legend and what to answer."""
        left = self.max_moves - world["moves"]
        legend = f"{WALL} wall, {FLOOR} free, W walker, G goal{self.legend}"
        answer = (
            "Answer with the walker's moves in one line of the letters U (up), D (down), L (left) and R (right), "
            f"such as {EXAMPLE}. A refused move costs {0.01:g} points."
        )
        if agent == PLANNER:
            partner = "You are the planner: you move the walker."
            if self.num_agents > 1:
                partner += " Your partner, the caller, sees the whole map."
            part = ", ? not seen yet" if self.sight == "split" else ""
            return (
                f"{partner} {self.story}\n{answer}\nMoves left: {left}. The map ({legend}{part}):"
            )
        sees = "only the cells next to its way" if self.sight == "split" else "the same map"
        return (
            f"You are the caller: you see the whole map, and write a hint of at most {self.hint_length} "
            "characters and nothing else. Your partner, the planner, reads it and moves the walker, and sees "
            f"{sees}. {self.story}\n"
            f"A move is U (up), D (down), L (left) or R (right). Moves left: {left}. The map ({legend}):"
        )

    legend: ClassVar[str] = ""

    def draw(self, task: Any, world: World) -> Mapping[str, Any]:
        """Return the world, and what the planner has seen of it."""
        rows = {"world": self.view(task, world, CALLER)}
        if self.sight == "split":
            rows["seen by the planner"] = self.view(task, world, PLANNER)
        panels = [
            panel(title, [line.replace(FLOOR, GROUND) for line in lines])
            for title, lines in rows.items()
        ]
        return picture(panels, KEY)

    def plan(self, task: Any, world: World) -> str:
        """Return a shortest plan from the walker's cell; empty if there is none."""
        state = state_in(world)
        return find_plan(task.rows, state, lambda found: self.is_won(task, found)) or ""


def _world(
    state: State, visited: Sequence[Any], moves: int, refused: int, progress: float, solved: bool
) -> dict[str, Any]:
    return {
        "walker": list(state[0]),
        "boxes": [list(box) for box in state[1]],
        "visited": [list(cell) for cell in visited],
        "moves": moves,
        "refused": refused,
        "progress": progress,
        "solved": solved,
    }


def state_in(world: World) -> State:
    """Return the walker and the boxes of a world."""
    x, y = world["walker"]
    return (x, y), tuple((a, b) for a, b in world["boxes"])
