"""Houses of blocks: `build-house-v0`, whose builders each know a part of the plan and hold some of the blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.building.blocks import BlockGame, Place, World, world_after
from llm_decpomdp.envs.building.plan import (
    FILLS,
    MATERIALS,
    PLANNED_TURNS,
    SIZES,
    HouseTask,
    cells_of,
    cover,
    draw_house,
    house_task,
    line_of,
)
from llm_decpomdp.envs.worlds.commands import read_commands
from llm_decpomdp.envs.worlds.game import Prompts, Turns, world_env
from llm_decpomdp.envs.worlds.strategies import Act, Strategy, each, exploits, only
from llm_decpomdp.envs.worlds.tasks import WorldOptions
from llm_decpomdp.options import as_arguments, option, pick
from llm_decpomdp.picture import panel, picture

INK = {"w": "#ddaa77", "b": "#cc6655", "g": "#88ccee", "s": "#556677", "x": "#cc77ff"}

FORMS = {"fill": (int, int, int, int, int, int, str), "clear": (int, int, int, int, int, int)}

MOST_COMMANDS = 100
"""Commands of an agent that are read in a turn, those that change nothing included."""


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
class HouseGame(BlockGame):
    """The rules of `build-house-v0`."""

    parts: str

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
        part = task.part(agent, self.parts)
        kind = self._kind(task, agent)
        yield f"You are builder {agent} and know {kind}, as boxes X1 Y1 Z1 X2 Y2 Z2:"
        yield _list_boxes(part)
        yield from feedback
        if turn > 1:
            wrong = {c: name for c, name in part.items() if world.get(c, ("",))[0] != name}
            yield f"Of your part are wrong or missing:\n{_list_boxes(wrong)}"
        stock = remaining(task, agent, world)
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

    def work(
        self, task: HouseTask, agent: int, text: str, world: World, counts: Counter[str]
    ) -> World:
        """Return the world after an agent's commands."""
        world, fills = dict(world), 0
        stock = remaining(task, agent, world)
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

    def score(self, task: HouseTask, world: World) -> float:
        """Return the number of cells with the right block, divided by that of cells with any block or plan."""
        right = sum(world.get(cell, ("",))[0] == name for cell, name in task.plan.items())
        return right / len(world.keys() | task.plan.keys())

    def draw(
        self, task: HouseTask, world: World, conflicts: Sequence[Place], turn: int
    ) -> Mapping[str, Any]:
        """Return the plan and what is built, layer by layer."""
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

    def reference(self, task: HouseTask, agent: str) -> str:
        """Return all fills of the agent; said in each turn, they build its share, eight more in each."""
        return "\n".join(task.shares[self.agents.index(agent)])

    @property
    def strategies(self) -> Mapping[str, Strategy]:  # type: ignore[override]  # they depend on the options
        """The known numbers and the exploits."""
        share = _build(lambda task, agent: task.shares[agent])
        whole = _build(lambda task, agent: task.affordable(task.plan))
        part = _build(lambda task, agent: task.affordable(task.part(agent, self.parts)))
        return {
            "optimum": Strategy(share, exact=lambda task: 1.0),
            "alone": Strategy(only("builder_0", whole), exact=lambda task: task.bound),
            "silent": Strategy(part, changes={"channel": {}}),
            "random": Strategy(each(_build_anywhere)),
            "one builds its part": Strategy(only("builder_0", part)),
            **exploits("fill X1 Y1 Z1 X2 Y2 Z2 MATERIAL"),
            "all build everything": Strategy(whole),
            "fills everything": Strategy(each(_fill_all)),
            "builds and clears": Strategy(_clear_after(part)),
        }


def remaining(task: HouseTask, agent: int, world: World) -> dict[str, int]:
    """Return the blocks that an agent still holds."""
    usage = Counter(name for name, owner in world.values() if owner == agent)
    return {name: count - usage[name] for name, count in task.stock.items()}


def _list_boxes(plan: Mapping[Any, str]) -> str:
    return "\n".join(line_of(*entry) for entry in cover(plan)) or "none"


def _describe_world(world: World, turns: Turns) -> Iterator[str]:
    if not turns:
        return
    details = turns[-1].verdict.details
    yield f"After turn {len(turns)} the score is {details['score']:.2f} of 1. Blocks in the world:"
    yield _list_boxes({cell: name for cell, (name, _) in world.items()})
    if details["conflict_cells"]:
        cells = dict.fromkeys(map(tuple, details["conflict_cells"]), "")
        yield f"Several builders put a block there at once, so it stayed empty:\n{_list_boxes(cells)}"


# Strategies


def _build(fills_of: Callable[[HouseTask, int], Sequence[str]]) -> Act:
    """Return the team whose agents say their fills, in each turn as many as count."""

    def say_fills(env: Any, agent: int, rng: Any) -> str:
        start = FILLS * len(env.episode.turns)
        return "\n".join(fills_of(env.task, agent)[start : start + FILLS])

    return each(say_fills)


def _clear_after(act: Act) -> Act:
    """Return the team that takes everything back in every second turn."""
    clear = each(lambda env, *_: "clear 0 0 0 {} {} {}".format(*(n - 1 for n in env.task.size)))
    return lambda env, *args: (clear if len(env.unwrapped.episode.turns) % 2 else act)(env, *args)


def _build_anywhere(env: Any, agent: int, rng: np.random.Generator) -> str:
    boxes = rng.integers(env.task.size * 2, size=(FILLS, 6))
    names = rng.integers(len(MATERIALS), size=FILLS)
    pairs = zip(boxes.tolist(), names, strict=True)
    lines = (line_of((box[:3], box[3:]), MATERIALS[name]) for box, name in pairs)
    return "\n".join(f"fill {line}" for line in lines)


def _fill_all(env: Any, agent: int, rng: Any) -> str:
    """Fill rows of every layer with whatever is left, each agent in layers of its own."""
    width, height, depth = env.task.size
    layers = range(agent, height, len(env.possible_agents))
    rows = product(layers, range(depth), MATERIALS)
    return "\n".join(f"fill 0 {y} {z} {width - 1} {y} {z} {name}" for y, z, name in rows)


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
    to_task, game = partial(house_task, options.num_agents), pick(HouseGame, options)
    return world_env("build-house-v0", game, options, draw_house, to_task, *kind)
