"""Words of block letters: `build-word-v0`, whose cells each belong to one agent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.building.blocks import (
    BlockGame,
    BuilderOptions,
    Place,
    World,
    describe,
    take_back,
    world_after,
)
from llm_decpomdp.envs.building.font import GLYPHS, SIZE
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.worlds.commands import read_commands
from llm_decpomdp.envs.worlds.game import Prompts, Turns, task_fields, world_env
from llm_decpomdp.envs.worlds.grid import Cell, show
from llm_decpomdp.envs.worlds.strategies import OPTIMUM, Strategy, each, exploits, only
from llm_decpomdp.interfaces import Task
from llm_decpomdp.options import as_arguments, option, pick
from llm_decpomdp.picture import panel, picture

COLORS = ("red", "blue", "green", "yellow", "white", "black", "orange", "purple")

ALLOWANCE = 1.2
"""Commands of a turn, as a multiple of the largest share of a task."""

MAX_LETTERS = 1000
"""Letters of an answer in the wording `bare` that are read, those beyond the limit included."""

FORMS = {"put": (int, int, str), "clear": (int, int)}

INK = {"0": "#4477aa", "1": "#ee6677", "2": "#228833", "3": "#ccbb44"}
"""Color of each agent's blocks in pictures, also for people who confuse red and green."""

Owners = dict[Place, int]
"""The owner of the block in each cell."""


class WordOptions(BuilderOptions):
    """Options of `build-word-v0`."""

    length: int = option(2, ge=1, le=4)
    """Letters of a word, 1 to 4."""
    knowledge: str = option("first", choices=("first", "all"))
    """Agents that are told the shift of the owner's rule: `first`, `builder_0` alone, or `all`."""
    plan: str = option("grid", choices=("grid", "cells"))
    """Form of the word in the prompts: a `grid`, or lists of `cells`, by owner where all agents know the shift."""
    wording: str = option("sentences", choices=("sentences", "bare"))
    """Words of prompts: `sentences`, or `bare` for models of single characters: the letter and the shift, answered
    by the cells, which are the letters a to y. For one letter and one turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.wording == "bare" and (self.length, self.num_turns) != (1, 1):
            raise ValueError(
                f"wording='bare' shows no world and one letter: take length=1 and num_turns=1, got "
                f"length={self.length} and num_turns={self.num_turns}"
            )


@dataclass(frozen=True)
class WordTask(Task):
    """A word to build."""

    word: str = field(kw_only=True)
    shift: int = field(kw_only=True)
    """s of the owner's rule: cell (x, y) belongs to agent (x + y + s) mod N."""
    colors: tuple[tuple[str, str], ...] = field(kw_only=True)
    """The two colors of each agent."""

    @property
    def num_agents(self) -> int:
        """Number N of agents."""
        return len(self.colors)

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """The word as rows of `#` and `.`."""
        return tuple(".".join(GLYPHS[letter][y] for letter in self.word) for y in range(SIZE))

    @cached_property
    def target(self) -> dict[Cell, int]:
        """The owner of every cell of the word, from left to right and then from the top."""
        return {
            (x, y): (x + y + self.shift) % self.num_agents
            for y, row in enumerate(self.rows)
            for x, mark in enumerate(row)
            if mark == "#"
        }

    @property
    def width(self) -> int:
        """Columns of the grid."""
        return len(self.rows[0])

    def share(self, agent: int) -> list[Cell]:
        """Return the cells that an agent owns."""
        return [cell for cell, owner in self.target.items() if owner == agent]

    @property
    def limit(self) -> int:
        """Commands that count in a turn, the same for all agents, so that it does not tell the shift."""
        return math.ceil(ALLOWANCE * max(len(self.share(i)) for i in range(self.num_agents)))


def draw_word(rng: np.random.Generator, num_agents: int, length: int) -> Row:
    """Draw a word, a shift and colors."""
    letters = sorted(GLYPHS)
    word = "".join(letters[i] for i in rng.integers(len(letters), size=length))
    names = [COLORS[i] for i in rng.permutation(len(COLORS))[: 2 * num_agents]]
    colors = tuple(zip(names[::2], names[1::2], strict=True))
    return {"key": word, "word": word, "shift": int(rng.integers(num_agents)), "colors": colors}


def word_task(index: int, row: Row) -> WordTask:
    """Make a task of a row."""
    fields = {name: row[name] for name in ("word", "shift", "colors")}
    return WordTask(**task_fields("build-word", index, row["word"]), **fields)


def f1(task: WordTask, blocks: Owners) -> float:
    """Return F1 of the cells with a block of the right owner: 2 correct / (blocks + cells of the word)."""
    correct = sum(blocks.get(cell) == owner for cell, owner in task.target.items())
    return 2 * correct / (len(blocks) + len(task.target))


def score_alone(task: WordTask, agents: Sequence[int] | None = None) -> float:
    """Return the best score of a single agent, which has all cells that it owns: 2 c / (c + n).

    n is the number of the task's cells, and c the largest share of `agents`, by default of all.
    """
    candidates = range(task.num_agents) if agents is None else agents
    cells = max(len(task.share(agent)) for agent in candidates)
    return 2 * cells / (cells + len(task.target))


@dataclass(frozen=True)
class WordGame(BlockGame):
    """The rules of `build-word-v0`."""

    knowledge: str
    plan: str
    wording: str

    def prompts(self, task: WordTask, turns: Turns) -> Prompts:
        """Return the task, and after the first turn the world."""
        if self.wording == "bare":
            told = [i == 0 or self.knowledge == "all" for i in range(self.num_agents)]
            texts = (f"{task.word}{task.shift}" if knows else task.word for knows in told)
            return dict(zip(self.agents, texts, strict=True))
        world = list(_describe_world(task, turns))
        turn = f"This is turn {len(turns) + 1} of {self.num_turns}."
        return {
            agent: "\n".join([*self._task(task, i), *world, *_request(task), turn])
            for i, agent in enumerate(self.agents)
        }

    def _task(self, task: WordTask, agent: int) -> Iterator[str]:
        n = self.num_agents
        yield (
            f'{n} builders build the word "{task.word}" together, on a grid of {task.width} columns and {SIZE} '
            "rows. Columns x count from the left, rows y from the top, both from 0."
        )
        if self.plan == "cells" and self.knowledge == "all":
            for i in range(n):
                yield f"Cells of builder {i} (x y): {_list_cells(task.share(i))}."
        else:
            yield from self._rule(task, agent)
        first, second = task.colors[agent]
        yield f"You are builder {agent}. Your blocks are {first} and {second}; other colors are not yours."

    def _rule(self, task: WordTask, agent: int) -> Iterator[str]:
        n = self.num_agents
        if self.plan == "grid":
            yield f"Each cell # needs a block:\n{show(task.rows)}"
        else:
            for rest in range(n):
                cells = [cell for cell in task.target if sum(cell) % n == rest]
                yield f"Cells (x y) with (x + y) mod {n} = {rest}: {_list_cells(cells)}."
        shift = f"any of 0 to {n - 1}, and builder 0 alone knows it"
        if self.knowledge == "all":
            shift = f"{task.shift}"
        elif agent == 0:
            shift = f"{task.shift}, and you alone know it"
        yield f"The block in (x, y) must be one of builder (x + y + s) mod {n}, where s is {shift}."

    def work(
        self, task: WordTask, agent: int, text: str, world: World, counts: Counter[str]
    ) -> World:
        """Return the world after an agent's commands.

        Refused are cells outside of the grid or with a block of another agent, and colors of others.
        """
        text = _in_sentences(task, agent, text) if self.wording == "bare" else text
        found, own = read_commands(text, FORMS, task.limit), dict(world)
        counts["invalid"] += found.invalid
        for verb, x, y, *color in found.accepted:
            inside = 0 <= x < task.width and 0 <= y < SIZE
            # A free cell counts as the agent's own.
            _, owner = world.get((x, y), ("", agent))
            if not inside or owner != agent or (color and color[0] not in task.colors[agent]):
                counts["refused"] += 1
            elif verb == "put":
                own[x, y] = (color[0], agent)
            else:
                own.pop((x, y), None)
        return own

    def score(self, task: WordTask, world: World) -> float:
        """Return F1 of the cells."""
        return f1(task, owners(world))

    def draw(
        self, task: WordTask, world: World, conflicts: Sequence[Place], turn: int
    ) -> Mapping[str, Any]:
        """Return the word and what is built."""
        built = {**owners(world), **dict.fromkeys(conflicts, "x")}
        panels = [
            panel("target", _world_rows(task, task.target, " ")),
            panel(f"turn {turn}", _world_rows(task, built, " ")),
        ]
        key = {str(i): (INK[str(i)], f"builder_{i}") for i in range(task.num_agents)}
        return picture(panels, {**key, "x": ("#888888", "conflict, stays empty")})

    def reference(self, task: WordTask, agent: str) -> str:
        """Return a block in each cell that the agent owns."""
        i = self.agents.index(agent)
        if self.wording == "bare":
            return "".join(chr(ord("a") + x + SIZE * y) for x, y in task.share(i))
        return put_all(task, i, task.share(i))

    @property
    def strategies(self) -> Mapping[str, Strategy]:  # type: ignore[override]  # they depend on the options
        """The known numbers and the exploits."""
        first = only("builder_0", each(_build_share))
        all_know = self.knowledge == "all"
        silent: Callable[[WordTask], float] | None = None
        if all_know:
            silent = OPTIMUM.exact
        elif (
            self.num_agents == 2
        ):  # for more agents it is not proven that no silent team earns more
            silent = partial(score_alone, agents=[0])
        return {
            "optimum": OPTIMUM,
            "alone": Strategy(each(_build_largest_share), exact=score_alone),
            "silent": Strategy(
                each(_build_share) if all_know else first,
                exact=silent,
                changes={"num_turns": 1, "channel": {}},
                limit=lambda task: 1.0,
            ),
            "random": Strategy(each(_build_anywhere)),
            **exploits("put X Y COLOR"),
            "all build everything": Strategy(each(_build_word)),
            "one builds everything": Strategy(only("builder_0", each(_build_word))),
            "fills the grid": Strategy(each(_fill_grid)),
            "uses other colors": Strategy(each(_build_with_other_colors)),
            "builds and clears": Strategy(
                take_back(only("builder_0", each(_build_share)), each(_clear_share))
            ),
        }


def owners(world: World) -> Owners:
    """Return the builder of the block in each cell."""
    return {cell: owner for cell, (_, owner) in world.items()}


def _in_sentences(task: WordTask, agent: int, text: str) -> str:
    """Return the commands of an answer of letters of cells; others are read as they are."""
    places = [ord(letter) - ord("a") for letter in text]
    if not all(0 <= place < SIZE * SIZE for place in places):
        return text
    cells = [(place % SIZE, place // SIZE) for place in places[:MAX_LETTERS]]
    return put_all(task, agent, cells)


def _list_cells(cells: Sequence[Sequence[int]]) -> str:
    return ", ".join(f"{x} {y}" for x, y in cells)


def _describe_world(task: WordTask, turns: Turns) -> Iterator[str]:
    if turns:
        world = show(_world_rows(task, owners(world_after(turns))))
        text = f"The number in a cell is the builder of its block:\n{world}"
        yield from describe(turns, text, lambda cells: f" {_list_cells(cells)}.")


def _request(task: WordTask) -> list[str]:
    return [
        'Answer with one line "put X Y COLOR" for each block, and nothing else. "clear X Y" takes a block of '
        f"yours away. At most {task.limit} lines count. Where two builders put a block in the same turn, the cell "
        "stays empty."
    ]


def _world_rows(task: WordTask, blocks: Mapping[Any, Any], ground: str = ".") -> list[str]:
    cells = range(task.width)
    return ["".join(str(blocks.get((x, y), ground)) for x in cells) for y in range(SIZE)]


def put_all(task: WordTask, agent: int, cells: Sequence[Cell]) -> str:
    """Return the commands that put an agent's blocks in cells."""
    return "\n".join(f"put {x} {y} {task.colors[agent][0]}" for x, y in cells)


# Strategies


def _build_share(env: Any, agent: int, rng: Any) -> str:
    return put_all(env.task, agent, env.task.share(agent))


def _build_largest_share(env: Any, agent: int, rng: Any) -> str:
    best = max(range(env.task.num_agents), key=lambda i: len(env.task.share(i)))
    return _build_share(env, agent, rng) if agent == best else ""


def _build_word(env: Any, agent: int, rng: Any) -> str:
    return put_all(env.task, agent, list(env.task.target))


def _build_anywhere(env: Any, agent: int, rng: np.random.Generator) -> str:
    task = env.task
    places = rng.permutation(task.width * SIZE)[: len(task.target) // task.num_agents]
    return put_all(task, agent, [(int(p) % task.width, int(p) // task.width) for p in places])


def _fill_grid(env: Any, agent: int, rng: Any) -> str:
    cells = [(x, y) for y in range(SIZE) for x in range(env.task.width)]
    # Each a part of the grid, so that no two write in the same cell.
    return put_all(env.task, agent, cells[agent :: env.task.num_agents])


def _build_with_other_colors(env: Any, agent: int, rng: Any) -> str:
    other = (agent + 1) % env.task.num_agents
    return put_all(env.task, other, env.task.share(other))


def _clear_share(env: Any, agent: int, rng: Any) -> str:
    return "\n".join(f"clear {x} {y}" for x, y in env.task.share(agent))


@as_arguments(WordOptions)
def build_word(options: WordOptions) -> DecPOMDPEnv:
    """Build a word of blocks whose cells each belong to one agent: `build-word-v0`.

    ## Description
    Two to four builders build a word of block letters on a grid. Each cell of the word belongs to one of them, by
    a checkerboard with a shift, and only a block of that builder counts there. The builders cannot place each
    other's blocks, so none can build the word alone. By default `builder_0` alone is told the shift: the others
    need its message, or see after the first turn where it builds.

    ## Observation Space
    `UnicodeText`: the word as a grid or as lists of cells, the rule of the owners, and the agent's own colors.
    Later prompts also show the owner of each block, and the cells in which blocks met.

    ## Action Space
    `UnicodeText`: a line `put X Y COLOR` or `clear X Y` for each command; other lines are ignored. Commands count
    up to 1.2 times the largest share of the word. Invalid commands, and those that the rules refuse, are counted
    in the infos.

    ## Rewards
    The increase of the score, which is F1 of the cells with a block of their owner: 2 correct / (blocks + cells of
    the word). The rewards of an episode sum to its final score, at most 1.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. Task number `index` of a
    `task_seed` is always the same. No word is in both splits.

    ## Episode End
    Terminates after `num_turns` turns, and when the word is complete if `stop_when_solved`.

    Raises:
        ValueError: If an argument has a bad value.

    ## Version History
    - v0: first version. Before its release, the reading of answers changed
      (`docs/environments.md#answers-without-code`).
    """
    kind = (options.num_agents, options.length)
    game = pick(WordGame, options)
    return world_env("build-word-v0", game, options, draw_word, word_task, *kind)
