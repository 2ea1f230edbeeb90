"""The gathering family `gather-v0`: its maps and their exact numbers, options, rules and scripted teams."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import ceil
from string import ascii_lowercase
from typing import Any

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.worlds.commands import Commands, read_commands
from llm_decpomdp.envs.worlds.game import (
    Completions,
    Game,
    Prompts,
    Turns,
    WorldOptions,
    score_verdict,
    task_fields,
    world_env,
)
from llm_decpomdp.envs.worlds.grid import EIGHT, Cell
from llm_decpomdp.envs.worlds.strategies import OPTIMUM, Strategy, each, exploits, only, say
from llm_decpomdp.interfaces import Component, Task, Verdict
from llm_decpomdp.options import as_arguments, option
from llm_decpomdp.picture import panel, picture
from llm_decpomdp.seeding import stream

# Maps


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


# Rules


GRAMMAR = {"go": (int, int), "tell": (str, int, int)}
"""Arguments of the commands."""

Fact = tuple[int, int, int]
"""Kind, column and row."""


class GatherOptions(WorldOptions):
    """Options of `gather`."""

    num_turns: int = option(4, ge=1)
    """Turns of an episode, at most."""
    num_agents: int = option(2, ge=2, le=4)
    """Number of agents, each with a resource of its own."""
    size: int = option(8, ge=3, le=12)
    """Columns and rows of the map. Larger maps need more turns."""
    amount: int = option(2, ge=1, le=2)
    """Cells with the resource of each agent."""
    steps: int = option(4, ge=1)
    """Steps of an agent in a turn, each to one of eight neighbors."""
    facts: int = option(1, ge=0, le=2)
    """Facts that an agent may tell in a turn, each a kind and a cell; 0 for a team without messages."""
    scramble: bool = False
    """Deliver as many random facts as may be told, whatever is told: a control."""
    wording: str = option("sentences", choices=("sentences", "bare"))
    """Words of prompts: `sentences`, or for models of single letters `bare`, which names cells by letters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        turns = turns_needed(self.size, self.amount, self.steps)
        if self.num_turns < turns:
            raise ValueError(
                f"num_turns={self.num_turns} are too few for size={self.size}, amount={self.amount} and "
                f"steps={self.steps}: take num_turns={turns} or more, or more steps"
            )
        if self.wording == "bare" and (self.size > 5 or self.num_agents > 2):
            raise ValueError(
                "wording='bare' is for two agents and at most 5 columns: take wording='sentences'"
            )


COMPONENTS = {"score": Component("Increase of the harvested share of a resource, mean over all.")}


@dataclass(frozen=True)
class GatherGame(Game):
    """The rules.

    The details of a verdict have the state: in `paths` the cells of each agent, its first one included, in `told`
    the facts of all agents, and in `heard` those that were delivered, each with sender, kind, column and row.
    """

    options: GatherOptions
    components = COMPONENTS
    info_keys = ("score", "invalid", "facts_told", "true_facts")

    @cached_property
    def agents(self) -> Sequence[str]:  # type: ignore[override]
        """The agents' ids."""
        return [f"gatherer_{number}" for number in range(self.options.num_agents)]

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:  # type: ignore[override]
        """The listeners of each agent: all others, if there are messages."""
        return {a: [b for b in self.agents if b != a] for a in self.agents if self.options.facts}

    def judge(self, task: GatherTask, completions: Completions, turns: Turns) -> Verdict:
        """Move the agents and deliver their facts."""
        state = self._state(turns)
        plans = [self.read(i, completions[agent]) for i, agent in enumerate(self.agents)]
        paths = [
            [*path, *self._move(path[-1], targets)]
            for path, (targets, _, _) in zip(state["paths"], plans, strict=True)
        ]
        facts = [[i, *fact] for i, (_, facts, _) in enumerate(plans) for fact in facts]
        delivered = self._draw_facts(task, turns) if self.options.scramble else facts
        harvests = [harvest(cells, path) for cells, path in zip(task.places, paths, strict=True)]
        details = {
            "paths": paths,
            "told": [*state["told"], *facts],
            "heard": [*state["heard"], *delivered],
            "invalid": sum(invalid for _, _, invalid in plans),
            "facts_told": len(facts),
            "true_facts": sum((x, y) in task.places[kind] for _, kind, x, y in facts),
            "picture": self._draw(task, paths, harvests),
        }
        total = self.options.amount * len(self.agents)
        return score_verdict(sum(map(len, harvests)) / total, turns, details)

    def _state(self, turns: Turns) -> Mapping[str, Any]:
        if turns:
            return turns[-1].verdict.details
        paths = [[list(start_cell(self.options.size))] for _ in self.agents]
        return {"paths": paths, "told": [], "heard": []}

    def _move(self, place: Sequence[int], targets: Sequence[Cell]) -> list[list[int]]:
        """Return the cells that an agent enters in a turn: it stops when its steps are used up."""
        cells = [(place[0], place[1])]
        for target in targets:
            cells += walk(cells[-1], target, self.options.steps + 1 - len(cells))
        return [[x, y] for x, y in cells[1:]]

    def _draw_facts(self, task: GatherTask, turns: Turns) -> list[list[int]]:
        options, number = self.options, len(self.agents)
        rng = stream(options.task_seed, task.task_id, len(turns))
        return [
            [i, (i + 1 + int(rng.integers(number - 1))) % number, x, y]
            for i in range(number)
            for x, y in rng.integers(options.size, size=(options.facts, 2)).tolist()
        ]

    def read(self, agent: int, text: str) -> tuple[list[Cell], list[Fact], int]:
        """Return the cells that an agent goes to, the facts that it tells, and the number of invalid commands."""
        options, targets, facts = self.options, list[Cell](), list[Fact]()
        # A command for each step is enough, so no text makes a turn slow.
        limit, kinds = options.steps + options.facts, KINDS[: options.num_agents]
        if options.wording == "bare":
            commands = self._read_letters(agent, text.strip()[:limit])
        else:
            commands = read_commands(text, GRAMMAR, limit)
        for verb, *words, x, y in commands.accepted:
            if 0 <= x < options.size and 0 <= y < options.size:
                if verb == "go":
                    targets.append((x, y))
                elif words[0] in kinds and len(facts) < options.facts:
                    facts.append((kinds.index(words[0]), x, y))
        surplus = len(commands.accepted) - len(targets) - len(facts)
        return targets, facts, commands.invalid + surplus

    def _read_letters(self, agent: int, letters: str) -> Commands:
        """Read a letter for each fact, then those of targets; other characters stand for nothing."""
        facts, size = self.options.facts, self.options.size
        places = ascii_lowercase[: size * size]
        cells = [(n, *divmod(places.find(c), size)) for n, c in enumerate(letters) if c in places]
        tell = ("tell", KINDS[1 - agent])
        accepted = tuple((*(tell if n < facts else ("go",)), x, y) for n, y, x in cells)
        return Commands(accepted, len(letters) - len(cells))

    def write(self, targets: Sequence[Cell], facts: Sequence[Fact] = ()) -> str:
        """Write an answer."""
        if self.options.wording == "sentences":
            lines = [f"tell {KINDS[kind]} {x} {y}" for kind, x, y in facts]
            return "\n".join([*lines, *(f"go {x} {y}" for x, y in targets)])
        letters = self._letters([fact[1:] for fact in facts]).ljust(self.options.facts, ".")
        return letters + self._letters(targets)

    def _letters(self, cells: Sequence[Sequence[int]]) -> str:
        return "".join(ascii_lowercase[y * self.options.size + x] for x, y in cells)

    def prompts(self, task: GatherTask, turns: Turns) -> Prompts:
        """Return what each agent sees, was told, and may do."""
        state, texts = self._state(turns), Prompts()
        for i, agent in enumerate(self.agents):
            if self.options.wording == "bare":
                # What it has told already is left out, so that it need not remember it.
                notes = [tuple(fact[2:]) for fact in state["told"] if fact[0] == i]
                cells = [cell for _, cell in task.view(i) if cell not in notes]
                news = [fact[2:] for fact in state["heard"] if fact[0] != i]
                here = self._letters([state["paths"][i][-1], *cells])
                texts[agent] = f"{here}.{self._letters(news)}"
            else:
                texts[agent] = self._prompt(task, i, state, len(turns) + 1)
        return texts

    def _prompt(self, task: GatherTask, i: int, state: Mapping[str, Any], turn: int) -> str:
        options, agent, path = self.options, self.agents[i], state["paths"][i]
        (x, y), middle = path[-1], start_cell(options.size)
        limit = f"at most {options.facts} a turn; the others read it on the next turn"
        lines = [
            f"You are {agent}, in a team with {' and '.join(a for a in self.agents if a != agent)}. "
            f"The map has {options.size} x {options.size} cells, x and y from 0 to {options.size - 1}. "
            f"All start at x={middle[0]} y={middle[1]}.",
            f"Only you can harvest {KINDS[i]}, by entering a cell that has some. There is {KINDS[i]} on "
            f"{options.amount} cell(s), which you cannot see and the others can. You see:",
            *(f"- {KINDS[k]}, for {self.agents[k]}: x={x} y={y}" for k, (x, y) in task.view(i)),
            "The team earns the share of all these cells that is harvested.",
            "",
            "Answer with a command on each line, numbers in place of X and Y:",
            f"go X Y (walk towards that cell, also diagonally; at most {options.steps} steps a turn)",
            *([f"tell KIND X Y ({limit})"] if options.facts else []),
            "",
            f"Turn {turn} of {options.num_turns}. You are at x={x} y={y}. You have harvested "
            f"{len(harvest(task.places[i], path))} of {options.amount}.",
        ]
        notes = [("You told", *fact) for fact in state["told"] if fact[0] == i]
        notes += [(f"{self.agents[f[0]]} told you", *f) for f in state["heard"] if f[0] != i]
        lines += [f"{start}: {KINDS[kind]} at x={x} y={y}" for start, _, kind, x, y in notes]
        return "\n".join(lines)

    def _draw(
        self, task: GatherTask, paths: Sequence[Any], harvests: Sequence[Sequence[Cell]]
    ) -> dict[str, Any]:
        whole = {cell: KINDS[i][0] for i, cells in enumerate(task.places) for cell in cells}
        drawings = {"resources": whole | {start_cell(self.options.size): "@"}}
        for i, agent in enumerate(self.agents):
            marks = dict.fromkeys(map(tuple, paths[i]), "+") | {tuple(paths[i][-1]): "@"}
            marks |= dict.fromkeys(task.places[i], KINDS[i][0]) | dict.fromkeys(harvests[i], "*")
            drawings[agent] = marks
        size = range(self.options.size)
        panels = [
            panel(title, ["".join(marks.get((x, y), " ") for x in size) for y in size])
            for title, marks in drawings.items()
        ]
        colors = ("#a5713d", "#8a8f98", "#3b7dc4", "#d07ab0")
        rows = zip(KINDS, colors, self.agents, strict=False)
        key = {kind[0]: (color, f"{kind}, for {agent}") for kind, color, agent in rows}
        key |= {"+": ("#e6d98a", "entered"), "*": ("#4c9f50", "harvested")}
        return picture(panels, {**key, "@": ("#7a4fb5", "the agent's cell")})

    def next_reference(self, task: GatherTask, agent: str, turns: Turns) -> str:
        """Return the answer of the optimum: tell the next agent its cells in order, and go where one was told.

        Without messages, or with scrambled ones, it goes where the resource is.
        """
        i, options, state = self.agents.index(agent), self.options, self._state(turns)
        listener, first = (i + 1) % len(self.agents), options.facts * len(turns)
        facts = [(listener, *c) for c in task.places[listener][first : first + options.facts]]
        cells: Sequence[Cell] = task.places[i]
        if options.facts and not options.scramble:
            cells = [(x, y) for sender, kind, x, y in state["heard"] if kind == i != sender]
        return self.write([cell for cell in cells if list(cell) not in state["paths"][i]], facts)

    def search(self, task: GatherTask, agent: int, turn: int) -> str:
        """Return the answer, on a turn, of the best agent that is told nothing."""
        steps, avoided = self.options.steps, tuple(cell for _, cell in task.view(agent))
        cells = search_walk(self.options.size, avoided, steps * self.options.num_turns)
        return self.write(cells[steps * turn : steps * (turn + 1)])

    @property
    def strategies(self) -> Mapping[str, Strategy]:  # type: ignore[override]
        """The known numbers and the exploits."""
        options, first = self.options, self.agents[0]
        steps, size = options.steps * options.num_turns, options.size
        silent = silent_value(size, options.num_agents, options.amount, steps)
        cells = [(x, y) for y in range(size) for x in range(size)]
        search = each(lambda env, i, _: self.search(env.task, i, len(env.episode.turns)))
        greedy = each(lambda env, i, _: self.write([cell for _, cell in env.task.view(i)]))

        def guess(_: Any, i: int, rng: np.random.Generator) -> str:
            target, *facts = rng.integers(size, size=(1 + options.facts, 2)).tolist()
            return self.write([target], [((i + 1) % len(self.agents), x, y) for x, y in facts])

        return {
            "optimum": OPTIMUM,
            "alone": Strategy(only(first, search), exact=lambda task: silent / options.num_agents),
            "silent": Strategy(search, exact=lambda task: silent),
            "random": Strategy(each(guess)),
            **exploits("go X Y\ntell KIND X Y", "silent"),
            "one agent goes to all that it sees": Strategy(only(first, greedy)),
            "all go to what they see": Strategy(greedy, bound="silent"),
            "padding": Strategy(say(self.write(cells)), bound="silent"),
        }


@as_arguments(GatherOptions)
def gather(options: GatherOptions) -> DecPOMDPEnv:
    """Gather what only team-mates see: `gather-v0`.

    ## Description
    Each agent (`gatherer_0`, `gatherer_1`, ...) alone can harvest one resource, by entering its cells, and sees
    those of all others. So it must be told where to go. The bandwidth is `facts` a turn, each a kind and a cell,
    read on the next turn. All cells are equally likely, so the best score without messages is a formula.

    ## Observation Space
    `UnicodeText`: the agent's place, what it sees, and what was told.

    ## Action Space
    `UnicodeText`: lines `go X Y` and `tell KIND X Y`. Any text is legal; other lines are ignored.

    ## Rewards
    `score`: increase of the harvested share of a resource, mean over the agents. An episode's sum is the final
    share, in [0, 1]. `solved` means that all is harvested.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. All agents start in the middle.

    ## Episode End
    Terminates after `num_turns` turns, and when all is harvested if `stop_when_solved`.

    Raises:
        ValueError: If an argument has a bad value, or the map needs more turns.

    ## Version History
    - v0: first version. Before its release, the reading of answers changed
      (`docs/environments.md#answers-without-code`).
    """
    kind = (options.size, options.num_agents, options.amount)
    return world_env("gather-v0", GatherGame(options), options, draw_map, make_task, *kind)
