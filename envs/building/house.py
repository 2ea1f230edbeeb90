"""Houses of blocks: `build-house-v0`, whose builders each know a part of the plan and hold some of the blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.building.plan import (
    FILLS,
    MATERIALS,
    PLANNED_TURNS,
    SIZES,
    Cell,
    HouseTask,
    affordable,
    cells_of,
    cover,
    draw_house,
    fill,
    house_task,
    stock_bound,
    team_fills,
)
from llm_decpomdp.envs.worlds.commands import read_commands
from llm_decpomdp.envs.worlds.game import Completions, Game, Prompts, Turns, game_env, score_verdict
from llm_decpomdp.envs.worlds.strategies import Strategy, each, only, repeat_prompt, say
from llm_decpomdp.envs.worlds.tasks import WorldOptions, generated_tasks
from llm_decpomdp.interfaces import Verdict
from llm_decpomdp.options import as_arguments, option
from llm_decpomdp.picture import panel, picture

INK = {"w": "#ddaa77", "b": "#cc6655", "g": "#88ccee", "s": "#556677", "x": "#cc77ff"}

FORMS = {"fill": (int, int, int, int, int, int, str), "clear": (int, int, int, int, int, int)}

MOST_COMMANDS = 100
"""Commands of an agent that are read in a turn, those that change nothing included."""

World = dict[Cell, tuple[str, int]]
"""Material and builder of the block in each cell."""


class HouseOptions(WorldOptions):
    """Options of `build-house-v0`."""

    num_agents: int = option(2, ge=2, le=4)
    """Agents `builder_0`, `builder_1` and so on, 2 to 4."""
    num_turns: int = option(PLANNED_TURNS, ge=1)
    """Turns of an episode, at most; three are enough for every house."""
    size: str = option("medium", choices=tuple(SIZES))
    """Size of the houses: `small`, `medium` or `large`."""
    parts: str = option("layers", choices=("layers", "materials"))
    """What an agent knows of the plan: every N-th of the `layers`, or every N-th of the `materials`."""


@dataclass(frozen=True)
class HouseGame(Game):
    """The rules of `build-house-v0`."""

    num_agents: int
    parts: str
    num_turns: int

    info_keys = ("score", "invalid", "refused", "conflicts")

    @property
    def agents(self) -> Sequence[str]:  # type: ignore[override]  # the number is an option
        """The agents' ids."""
        return [f"builder_{i}" for i in range(self.num_agents)]

    def prompts(self, task: HouseTask, turns: Turns) -> Prompts:
        """Return each agent's part of the plan and stock, and after the first turn the world."""
        world = world_after(turns)
        feedback = list(_describe_world(world, turns))
        return {
            agent: "\n".join(self._prompt(task, i, world, feedback, len(turns) + 1))
            for i, agent in enumerate(self.agents)
        }

    def _prompt(
        self, task: HouseTask, agent: int, world: World, feedback: Sequence[str], turn: int
    ) -> Iterator[str]:
        width, height, depth = task.size
        yield (
            f"{self.num_agents} builders build a house together, {width} wide (x), {height} high (y, 0 is the "
            f"floor) and {depth} deep (z), all from 0. Each builder knows another part of the plan and can build "
            "anywhere."
        )
        part = task.part(agent, self.num_agents, self.parts)
        kind = self._kind(task, agent)
        yield f"You are builder {agent} and know {kind}, as boxes X1 Y1 Z1 X2 Y2 Z2:"
        yield _list_boxes(part)
        yield from feedback
        if turn > 1:
            wrong = {c: name for c, name in part.items() if world.get(c, ("",))[0] != name}
            yield f"Of your part are wrong or missing:\n{_list_boxes(wrong)}"
        stock = remaining(task, agent, self.num_agents, world)
        yield f"Your blocks: {', '.join(f'{count} {name}' for name, count in stock.items())}."
        yield (
            'Answer with lines "fill X1 Y1 Z1 X2 Y2 Z2 MATERIAL", and nothing else: it puts a block in each empty '
            'cell of the box. "clear X1 Y1 Z1 X2 Y2 Z2" takes your blocks back. At most '
            f"{FILLS} fills count in a turn. A fill that needs more blocks than you have is refused. Where two "
            f"builders put a block in the same turn, the cell stays empty. This is turn {turn} of "
            f"{self.num_turns}."
        )

    def _kind(self, task: HouseTask, agent: int) -> str:
        if self.parts == "layers":
            layers = range(agent, task.size[1], self.num_agents)
            return f"the layers y = {', '.join(map(str, layers))}"
        return f"all {' and '.join(MATERIALS[agent :: self.num_agents])}"

    def judge(self, task: HouseTask, completions: Completions, turns: Turns) -> Verdict:
        """Change the world, and score it."""
        before = world_after(turns)
        after, writes = dict(before), Counter[Cell]()
        counts = Counter({"invalid": 0, "refused": 0})
        for i, agent in enumerate(self.agents):
            # Each agent works in the world before the turn, so that their order makes no difference.
            own = self._work(task, i, completions[agent], before, counts)
            for cell in before.keys() - own.keys():
                after.pop(cell, None)
            new = {cell: block for cell, block in own.items() if before.get(cell) != block}
            writes.update(new.keys())
            after |= new
        conflicts = sorted(cell for cell, times in writes.items() if times > 1)
        for cell in conflicts:
            del after[cell]
        details = {
            **counts,
            "conflicts": len(conflicts),
            "conflict_cells": [list(cell) for cell in conflicts],
            "blocks": [[*cell, name, owner] for cell, (name, owner) in sorted(after.items())],
            "picture": _picture(task, after, conflicts),
        }
        return score_verdict(iou(task, after), turns, details)

    def _work(
        self, task: HouseTask, agent: int, text: str, before: World, counts: Counter[str]
    ) -> World:
        """Return the world in which one agent's commands were carried out, and count those that were not."""
        world, fills = dict(before), 0
        stock = remaining(task, agent, self.num_agents, world)
        found = read_commands(text, FORMS, MOST_COMMANDS)
        counts["invalid"] += found.invalid
        for verb, *numbers in found.accepted:
            box = (tuple(numbers[:3]), tuple(numbers[3:6]))
            inside = all(0 <= v < most for c in box for v, most in zip(c, task.size, strict=True))
            if not inside or (verb == "fill" and numbers[6] not in stock):
                counts["refused"] += 1
                continue
            if verb == "clear":
                for cell in cells_of(*box):
                    if cell in world and world[cell][1] == agent:
                        stock[world.pop(cell)[0]] += 1
                continue
            empty = [cell for cell in cells_of(*box) if cell not in world]
            if not empty:  # it changes nothing, so it does not count
                continue
            if len(empty) > stock[numbers[6]] or fills == FILLS:
                counts["refused"] += 1
                continue
            fills += 1
            stock[numbers[6]] -= len(empty)
            world |= dict.fromkeys(empty, (numbers[6], agent))
        return world

    def reference(self, task: HouseTask, agent: str) -> str:
        """Return all fills of the agent; said in each turn, they build its share, eight more in each."""
        return "\n".join(team_fills(task.layers, self.num_agents)[self.agents.index(agent)])

    @property
    def strategies(self) -> Mapping[str, Strategy]:  # type: ignore[override]  # they depend on the options
        """The known numbers and the exploits."""
        n = self.num_agents

        def build_share(env: Any, agent: int, rng: Any) -> str:
            return _now(env, team_fills(env.task.layers, n)[agent])

        def build_all(env: Any, agent: int, rng: Any) -> str:
            return _now(env, affordable(env.task, env.task.plan, n))

        def build_part(env: Any, agent: int, rng: Any) -> str:
            return _now(env, affordable(env.task, env.task.part(agent, n, self.parts), n))

        def build_and_clear(env: Any, agent: int, rng: Any) -> str:
            width, height, depth = env.task.size
            clear = f"clear 0 0 0 {width - 1} {height - 1} {depth - 1}"
            return clear if len(env.episode.turns) % 2 else build_part(env, agent, rng)

        return {
            "optimum": Strategy(each(build_share), exact=lambda task: 1.0),
            "alone": Strategy(only("builder_0", each(build_all)), exact=partial(stock_bound, n)),
            "silent": Strategy(each(build_part), changes={"channel": {}}),
            "random": Strategy(each(_build_anywhere)),
            "one builds its part": Strategy(only("builder_0", each(build_part))),
            "empty answer": Strategy(say("")),
            "copied example": Strategy(say("fill X1 Y1 Z1 X2 Y2 Z2 MATERIAL")),
            "repeats the prompt": Strategy(repeat_prompt),
            "all build everything": Strategy(each(build_all)),
            "fills everything": Strategy(each(_fill_all)),
            "builds and clears": Strategy(each(build_and_clear)),
        }


def world_after(turns: Turns) -> World:
    """Return the world after these turns."""
    blocks = turns[-1].verdict.details["blocks"] if turns else []
    return {(x, y, z): (name, owner) for x, y, z, name, owner in blocks}


def iou(task: HouseTask, world: World) -> float:
    """Return the number of cells with the right block, divided by that of cells with any block or plan."""
    right = sum(task.plan.get(cell) == name for cell, (name, _) in world.items())
    return right / len(world.keys() | task.plan.keys())


def remaining(task: HouseTask, agent: int, num_agents: int, world: World) -> dict[str, int]:
    """Return the blocks that an agent still holds."""
    usage = Counter(name for name, owner in world.values() if owner == agent)
    return {name: count - usage[name] for name, count in task.stock(num_agents).items()}


def _list_boxes(plan: Mapping[Cell, str]) -> str:
    lines = [f"{' '.join(map(str, (*a, *b)))} {name}" for (a, b), name in cover(plan)]
    return "\n".join(lines) or "none"


def _describe_world(world: World, turns: Turns) -> Iterator[str]:
    if not turns:
        return
    details = turns[-1].verdict.details
    yield f"After turn {len(turns)} the score is {details['score']:.2f} of 1. Blocks in the world:"
    yield _list_boxes({cell: name for cell, (name, _) in world.items()})
    if details["conflict_cells"]:
        cells = dict.fromkeys(map(tuple, details["conflict_cells"]), "")
        yield f"Several builders put a block there at once, so it stayed empty:\n{_list_boxes(cells)}"


def _picture(task: HouseTask, world: World, conflicts: Iterable[Cell]) -> Any:
    width, height, depth = task.size
    built = {cell: name[0] for cell, (name, _) in world.items()} | dict.fromkeys(conflicts, "x")
    panels = []
    for y in range(height):
        rows = [row.replace(".", " ") for row in task.layers[y]]
        panels.append(panel(f"plan y={y}", rows))
        cells = range(width)
        rows = ["".join(built.get((x, y, z), " ") for x in cells) for z in range(depth)]
        panels.append(panel(f"built y={y}", rows))
    key = {name[0]: (INK[name[0]], name) for name in MATERIALS}
    # Small cells, so that the plan of a layer and what is built are side by side on a narrow screen.
    return picture(panels, {**key, "x": (INK["x"], "conflict, stays empty")}, cell=9)


# Strategies


def _now(env: Any, lines: Sequence[str]) -> str:
    """Return the fills of a list that count in this turn."""
    start = FILLS * len(env.episode.turns)
    return "\n".join(lines[start : start + FILLS])


def _build_anywhere(env: Any, agent: int, rng: np.random.Generator) -> str:
    boxes = rng.integers(env.task.size * 2, size=(FILLS, 6))
    names = rng.integers(len(MATERIALS), size=FILLS)
    return "\n".join(
        fill((tuple(box[:3]), tuple(box[3:])), MATERIALS[name])
        for box, name in zip(boxes.tolist(), names, strict=True)
    )


def _fill_all(env: Any, agent: int, rng: Any) -> str:
    """Fill rows of every layer with whatever is left, each agent in layers of its own."""
    width, height, depth = env.task.size
    layers = range(agent, height, len(env.possible_agents))
    rows = product(layers, range(depth), MATERIALS)
    return "\n".join(fill(((0, y, z), (width - 1, y, z)), name) for y, z, name in rows)


@as_arguments(HouseOptions)
def build_house(options: HouseOptions) -> DecPOMDPEnv:
    """Build a house of which each builder knows a part and holds a part of the blocks: `build-house-v0`.

    ## Description
    Two to four builders, `builder_0` and so on, build a house of a floor, walls with a door and windows, and a
    roof. Each knows every N-th layer of the plan, or every N-th material. Each holds three quarters of the blocks
    of each material in a pair, so a builder may lack blocks for its part, and nobody can build the house alone.
    Builders see the world after each turn.

    ## Observation Space
    `UnicodeText`: the agent's part of the plan as boxes, and its blocks. Later prompts also show the blocks in the
    world, and what is wrong or missing in the agent's part.

    ## Action Space
    `UnicodeText`: a line `fill X1 Y1 Z1 X2 Y2 Z2 MATERIAL` or `clear X1 Y1 Z1 X2 Y2 Z2` for each command; other
    lines are ignored. Eight fills of an agent count in a turn; those that change nothing do not count. Invalid
    commands, and those that the rules refuse, are counted in the infos.

    ## Rewards
    The increase of the score, which is the number of cells with the right material, divided by the number of cells
    that have a block or should have one. The rewards of an episode sum to its final score, at most 1.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. Task number `index` of a
    `task_seed` is always the same. No house is in both splits.

    ## Episode End
    Terminates after `num_turns` turns, and when the house is complete if `stop_when_solved`.

    Raises:
        ValueError: If an argument has a bad value.

    ## Version History
    - v0: first version.
    """
    kind = (options.num_agents, options.size)
    return game_env(
        "build_house_v0",
        partial(generated_tasks, "build-house", options, draw_house, house_task, *kind),
        HouseGame(options.num_agents, options.parts, options.num_turns),
        num_turns=options.num_turns,
        stop_when_solved=options.stop_when_solved,
        discount=options.discount,
        render_mode=options.render_mode,
    )
