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
from llm_decpomdp.envs.building.blocks import (
    BlockGame,
    BuilderOptions,
    Place,
    World,
    describe,
    take_back,
    world_after,
)
from llm_decpomdp.envs.building.plan import (
    FILLS,
    MATERIALS,
    PLANNED_TURNS,
    SIZES,
    HouseTask,
    Plan,
    boxes,
    cells_of,
    draw_house,
    fills,
    house_task,
)
from llm_decpomdp.envs.worlds.commands import read_commands
from llm_decpomdp.envs.worlds.game import Prompts, Turns, world_env
from llm_decpomdp.envs.worlds.strategies import OPTIMUM, Act, Strategy, each, exploits, only
from llm_decpomdp.options import as_arguments, option, pick
from llm_decpomdp.picture import panel, picture

INK = {"w": "#ddaa77", "b": "#cc6655", "g": "#88ccee", "s": "#556677", "x": "#cc77ff"}

FORMS = {"fill": (int, int, int, int, int, int, str), "clear": (int, int, int, int, int, int)}

MOST_COMMANDS = 100
"""Commands of an agent that are read in a turn, those that change nothing included."""


class HouseOptions(BuilderOptions):
    """Options of `build-house-v0`."""

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
        return {
            agent: "\n".join(self._prompt(task, i, turns)) for i, agent in enumerate(self.agents)
        }

    def _prompt(self, task: HouseTask, agent: int, turns: Turns) -> Iterator[str]:
        (width, height, depth), world = task.size, world_after(turns)
        yield (
            f"{self.num_agents} builders build a house together, {width} wide (x), {height} high (y, 0 is the "
            f"floor) and {depth} deep (z), all from 0. Each builder knows another part of the plan and can build "
            "anywhere."
        )
        part = task.part(agent, self.parts)
        layers = ", ".join(map(str, range(agent, height, self.num_agents)))
        materials = " and ".join(MATERIALS[agent :: self.num_agents])
        kind = f"the layers y = {layers}" if self.parts == "layers" else f"all {materials}"
        yield f"You are builder {agent} and know {kind}, as boxes X1 Y1 Z1 X2 Y2 Z2:"
        yield boxes(part)
        if turns:
            blocks = boxes({cell: name for cell, (name, _) in world.items()})
            yield from describe(turns, f"Blocks in the world:\n{blocks}", _list_cells)
            wrong = {c: name for c, name in part.items() if world.get(c, ("",))[0] != name}
            yield f"Of your part are wrong or missing:\n{boxes(wrong)}"
        stock = remaining(task, agent, world)
        yield f"Your blocks: {', '.join(f'{count} {name}' for name, count in stock.items())}."
        yield (
            'Answer with lines "fill X1 Y1 Z1 X2 Y2 Z2 MATERIAL", and nothing else: it puts a block in each empty '
            'cell of the box. "clear X1 Y1 Z1 X2 Y2 Z2" takes your blocks back. At most '
            f"{FILLS} fills count in a turn. A fill that needs more blocks than you have is refused. Where two "
            f"builders put a block in the same turn, the cell stays empty. This is turn {len(turns) + 1} of "
            f"{self.num_turns}."
        )

    def work(
        self, task: HouseTask, agent: int, text: str, world: World, counts: Counter[str]
    ) -> World:
        """Return the world after an agent's commands."""
        world, stock, count = dict(world), remaining(task, agent, world), 0
        found = read_commands(text, FORMS, MOST_COMMANDS)
        counts["invalid"] += found.invalid
        for verb, *numbers in found.accepted:
            box = (tuple(numbers[:3]), tuple(numbers[3:6]))
            inside = all(0 <= v < most for c in box for v, most in zip(c, task.size, strict=True))
            if not inside or (verb == "fill" and numbers[6] not in stock):
                counts["refused"] += 1
                continue
            cells = cells_of(*box)
            if verb == "clear":
                for cell in cells:
                    if cell in world and world[cell][1] == agent:
                        stock[world.pop(cell)[0]] += 1
            elif empty := [cell for cell in cells if cell not in world]:
                # A fill that changes nothing does not count.
                if len(empty) > stock[numbers[6]] or count == FILLS:
                    counts["refused"] += 1
                    continue
                count += 1
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
        w, _, depth = task.size
        built = {cell: name[0] for cell, (name, _) in world.items()} | dict.fromkeys(conflicts, "x")
        panels = []
        for y, layer in enumerate(task.layers):
            panels.append(panel(f"plan y={y}", [row.replace(".", " ") for row in layer]))
            rows = ["".join(built.get((x, y, z), " ") for x in range(w)) for z in range(depth)]
            panels.append(panel(f"built y={y}", rows))
        key = {name[0]: (INK[name[0]], name) for name in MATERIALS}
        # Small cells, so that the plan of a layer and what is built are side by side on a narrow screen.
        return picture(panels, {**key, "x": (INK["x"], "conflict, stays empty")}, cell=9)

    def reference(self, task: HouseTask, agent: str) -> str:
        """Return all fills of the agent; said in each turn, they build its share, eight more in each."""
        return "\n".join(fills(task.share(task.plan, self.agents.index(agent))))

    @property
    def strategies(self) -> Mapping[str, Strategy]:  # type: ignore[override]  # they depend on the options
        """The known numbers and the exploits."""
        whole = _build(lambda task, agent, _: task.affordable(task.plan))
        part = _build(lambda task, agent, _: task.affordable(task.part(agent, self.parts)))
        clear = each(lambda env, *_: "clear 0 0 0 {} {} {}".format(*(n - 1 for n in env.task.size)))
        pair = (self.num_agents, self.parts) == (2, "layers") and self.num_turns >= PLANNED_TURNS
        return {
            "optimum": OPTIMUM,
            "alone": Strategy(only("builder_0", whole), exact=lambda task: task.bound),
            "silent": Strategy(
                _build(know) if pair else part,
                exact=(lambda task: 1.0) if pair else None,
                changes={"channel": {}},
                limit=lambda task: 1.0,
            ),
            "random": Strategy(each(_build_anywhere)),
            "one builds its part": Strategy(only("builder_0", part)),
            **exploits("fill X1 Y1 Z1 X2 Y2 Z2 MATERIAL"),
            "all build everything": Strategy(whole),
            "fills everything": Strategy(each(_fill_all)),
            "builds and clears": Strategy(take_back(only("builder_0", part), clear)),
        }


def _list_cells(cells: Any) -> str:
    return "\n" + boxes(dict.fromkeys(map(tuple, cells), ""))


def remaining(task: HouseTask, agent: int, world: World) -> dict[str, int]:
    """Return the blocks that an agent still holds."""
    usage = Counter(name for name, owner in world.values() if owner == agent)
    return {name: count - usage[name] for name, count in task.stock.items()}


# Strategies


def know(task: HouseTask, agent: int, turns: Turns) -> Plan:
    """Return what a builder builds without messages in a pair that knows layers; together they build every house.

    Both know that the floor is full, and whether the roof is flat: if not, both have layers of it. They share what
    both know. In the end `builder_1` puts glass where the layer of the windows is open above its own wall.
    """
    (width, top, depth), world = task.size, world_after(turns)
    roof = {cell: name for cell, name in task.plan.items() if cell[1] == top - 1}
    levels = (0, top - 1) if len(roof) == width * depth else (0,)
    common = {cell: name for cell, name in task.plan.items() if cell[1] in levels}
    own = {c: name for c, name in task.part(agent, "layers").items() if c not in common}
    above = [(x, 2, z) for x, y, z in own if y == 1 and len(turns) == PLANNED_TURNS - 1]
    windows = {cell: "glass" for cell in above if cell not in world}
    return {**task.affordable(own), **task.share(common, agent), **windows}


def _build(plan_of: Callable[[HouseTask, int, Turns], Plan]) -> Act:
    """Return the team whose agents say all fills of a plan in each turn, of which as many count as may."""
    return each(lambda env, agent, _: "\n".join(fills(plan_of(env.task, agent, env.episode.turns))))


def _build_anywhere(env: Any, agent: int, rng: np.random.Generator) -> str:
    corners = rng.integers(env.task.size * 2, size=(FILLS, 6)).tolist()
    pairs = zip(corners, rng.choice(MATERIALS, size=FILLS), strict=True)
    return "\n".join(f"fill {' '.join(map(str, box))} {name}" for box, name in pairs)


def _fill_all(env: Any, agent: int, rng: Any) -> str:
    """Fill rows of every layer with whatever is left, each agent in layers of its own."""
    width, height, depth = env.task.size
    rows = product(range(agent, height, len(env.possible_agents)), range(depth), MATERIALS)
    return "\n".join(f"fill 0 {y} {z} {width - 1} {y} {z} {name}" for y, z, name in rows)


@as_arguments(HouseOptions)
def build_house(options: HouseOptions) -> DecPOMDPEnv:
    """Build a house of which each builder knows a part and holds a part of the blocks: `build-house-v0`.

    ## Description
    Two to four builders, `builder_0` and so on, build a house of floor, walls, door, windows and roof. Each knows
    every N-th layer of the plan, or every N-th material. Each holds three quarters of the blocks of each material
    in a pair, so nobody can build the house alone. Builders see the world after each turn.

    ## Observation Space
    `UnicodeText`: the agent's part of the plan as boxes, and its blocks. Later prompts also show the blocks in the
    world, and what is wrong or missing in the agent's part.

    ## Action Space
    `UnicodeText`: a line `fill X1 Y1 Z1 X2 Y2 Z2 MATERIAL` or `clear X1 Y1 Z1 X2 Y2 Z2` for each command. Of an
    agent eight fills that change something count in a turn. Invalid and refused commands are counted in the infos.

    ## Rewards
    The increase of the score, which is the number of cells with the right material, divided by the number of cells
    that have a block or should have one. The rewards of an episode sum to its final score, at most 1.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. No house is in both splits.

    ## Episode End
    Terminates after `num_turns` turns, and when the house is complete if `stop_when_solved`.

    Raises:
        ValueError: If an argument has a bad value.

    ## Version History
    - v0: first version. Before its release, the reading of answers changed
      (`docs/environments.md#answers-without-code`).
    """
    kind = (options.num_agents, options.size)
    to_task, game = partial(house_task, options.num_agents), pick(HouseGame, options)
    return world_env("build-house-v0", game, options, draw_house, to_task, *kind)
