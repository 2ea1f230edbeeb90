"""`build-house-v0` has the rules and the known numbers that it claims."""

from __future__ import annotations

from collections import Counter

import pytest

from llm_decpomdp import answers, make
from llm_decpomdp.envs.building.blocks import world_after
from llm_decpomdp.envs.building.house import remaining
from llm_decpomdp.envs.building.plan import (
    FILLS,
    MATERIALS,
    PLANNED_TURNS,
    cells_of,
    cover,
    fills,
)


@pytest.fixture
def env():
    env = make("build-house-v0", size="small", stop_when_solved=False)
    env.reset(seed=3)
    return env


def say(env, first, second=""):
    """Play a turn; return the infos."""
    *_, infos = env.step({"builder_0": first, "builder_1": second})
    return infos["builder_0"]


@pytest.mark.parametrize(("size", "num_agents"), [("small", 2), ("medium", 2), ("large", 4)])
def test_every_house_can_be_built_in_time_within_the_stocks(size: str, num_agents: int) -> None:
    most = FILLS * PLANNED_TURNS
    tasks = make("build-house-v0", size=size, num_agents=num_agents, split="all").tasks.tasks
    for task in tasks[::4]:
        lines = [fills(task.share(task.plan, agent)) for agent in range(num_agents)]
        assert max(map(len, lines)) <= most
        assert len(fills(task.affordable(task.plan))) <= most
        stock, built = task.stock, {}
        for own in lines:
            used = Counter()
            for line in own:
                _, *numbers, name = line.split()
                cells = cells_of(tuple(map(int, numbers[:3])), tuple(map(int, numbers[3:])))
                assert not built.keys() & set(cells)
                built |= dict.fromkeys(cells, name)
                used[name] += len(cells)
            assert all(used[name] <= stock[name] for name in used)
        assert built == task.plan


def test_a_cover_has_each_cell_once_and_no_other(env) -> None:
    for task in env.tasks.tasks[:20]:
        boxes = cover(tuple(task.plan.items()))
        cells = [(cell, name) for box, name in boxes for cell in cells_of(*box)]
        assert len(cells) == len(task.plan) and dict(cells) == task.plan


def test_one_agent_has_at_most_three_quarters_of_the_blocks_of_a_pair() -> None:
    for task in make("build-house-v0").tasks.tasks:
        counts, stock = Counter(task.plan.values()), task.stock
        assert all(counts[name] / 2 <= stock[name] <= 0.75 * counts[name] + 1 for name in MATERIALS)
        held = sum(min(stock[name], counts[name]) for name in MATERIALS)
        assert task.bound == held / len(task.plan) < 0.8


def test_a_fill_that_needs_more_than_the_stock_is_refused_whole(env) -> None:
    width, _, depth = env.task.size
    info = say(env, f"fill 0 0 0 {width - 1} 0 {depth - 1} wood")
    assert (info["refused"], info["score"]) == (1, 0.0)
    assert world_after(env.episode.turns) == {}
    assert remaining(env.task, 0, {}) == env.task.stock


def test_conflicts_stay_empty_and_cost_nobody_blocks(env) -> None:
    info = say(env, "fill 0 0 0 1 0 0 wood", "fill 1 0 0 2 0 0 wood")
    assert info["conflicts"] == 1
    world = world_after(env.episode.turns)
    assert world == {(0, 0, 0): ("wood", 0), (2, 0, 0): ("wood", 1)}
    assert remaining(env.task, 0, world)["wood"] == env.task.stock["wood"] - 1
    assert all("stayed empty:\n1 0 0 1 0 0" in text for text in env.episode.prompts.values())


def test_a_builder_takes_only_its_own_blocks_back(env) -> None:
    say(env, "fill 0 0 0 0 0 0 slate", "fill 1 0 0 1 0 0 wood")
    say(env, "clear 0 0 0 3 0 0")
    world = world_after(env.episode.turns)
    assert world == {(1, 0, 0): ("wood", 1)}
    assert remaining(env.task, 0, world) == env.task.stock


def test_only_eight_fills_that_change_something_count_in_a_turn(env) -> None:
    cells = [f"fill {x} 0 {z} {x} 0 {z} wood" for z in range(3) for x in range(3)]
    assert say(env, "\n".join(cells))["refused"] == 1
    assert len(world_after(env.episode.turns)) == FILLS
    assert say(env, "\n".join(cells))["refused"] == 0
    assert len(world_after(env.episode.turns)) == FILLS + 1


def test_invalid_and_refused_commands_are_counted(env) -> None:
    info = say(env, "fill 0 0 0 wood\nfill 0 0 0 0 0 99 wood\nfill 0 0 0 0 0 0 gold", "fill it")
    assert (info["invalid"], info["refused"]) == (2, 2)


def test_air_and_wrong_materials_earn_nothing(env) -> None:
    task, score = env.task, env.reward.score
    assert score(task, {}) == 0.0
    plan = {cell: (name, 0) for cell, name in task.plan.items()}
    assert score(task, plan) == 1.0
    cell = next(iter(plan))
    assert score(task, {**plan, cell: ("glass", 0)}) == (len(plan) - 1) / len(plan)
    outside = (1, 1, 1)
    assert outside not in plan
    assert score(task, {**plan, outside: ("wood", 0)}) == len(plan) / (len(plan) + 1)


@pytest.mark.parametrize("parts", ["layers", "materials"])
def test_the_parts_of_the_agents_are_the_plan(parts: str) -> None:
    env = make("build-house-v0", num_agents=3, parts=parts)
    prompts, _ = env.reset(seed=1)
    shares = [env.task.part(i, parts) for i in range(3)]
    assert sum(map(len, shares)) == len(env.task.plan) and all(shares)
    for prompt, share in zip(prompts.values(), shares, strict=True):
        text = prompt.partition("X2 Y2 Z2:\n")[2].partition("\nYour blocks")[0]
        shown = [line.split() for line in text.splitlines()]
        boxes = [(tuple(map(int, n[:3])), tuple(map(int, n[3:6])), n[6]) for n in shown]
        assert {c: name for a, b, name in boxes for c in cells_of(a, b)} == share


def test_references_of_large_houses_build_them_over_the_turns() -> None:
    env = make("build-house-v0", size="large")
    for task in env.tasks.tasks[:10]:
        env.reset(options={"task_id": task.task_id})
        while env.agents:
            *_, infos = env.step(dict(answers(env).references))
        assert infos["builder_0"]["score"] == 1.0
