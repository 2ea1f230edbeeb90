"""The gathering family: exact bounds, bandwidth, exploits, and the splits of its maps."""

from __future__ import annotations

from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest

import llm_decpomdp
from llm_decpomdp import check_env
from llm_decpomdp.envs.gather.env import (
    KINDS,
    GatherGame,
    draw_map,
    search_walk,
    silent_value,
    start_cell,
    turns_needed,
    walk,
)
from llm_decpomdp.envs.worlds.strategies import play

EASY: dict[str, Any] = {"size": 5, "amount": 1, "steps": 2, "num_turns": 2}
HARD: dict[str, Any] = {"size": 12, "num_agents": 3, "num_turns": 6}
TINY: dict[str, Any] = {
    "size": 3,
    "amount": 1,
    "steps": 1,
    "num_turns": 2,
    "wording": "bare",
    "split": "all",
}
KINDS_OF_TASKS = ({}, EASY, HARD, {"facts": 0}, {"facts": 2}, TINY)


def make(**options):
    return llm_decpomdp.make("gather-v0", **options)


def scores(name: str, tasks: int | None = None, **options) -> list[float]:
    env = make(**options)
    strategy = env.unwrapped.reward.strategies[name]
    return [play(env, task.task_id, strategy) for task in env.unwrapped.tasks.tasks[:tasks]]


# Exact bounds


@pytest.mark.parametrize("options", KINDS_OF_TASKS, ids=str)
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_optimum_earns_full_marks_on_every_task(options, split) -> None:
    assert min(scores("optimum", **{**options, "split": split})) == pytest.approx(1.0)


@pytest.mark.parametrize(("size", "amount", "steps"), [(3, 1, 1), (5, 2, 2), (8, 2, 4), (7, 2, 1)])
def test_no_map_needs_more_turns_than_the_formula_says_and_one_needs_all(size, amount, steps):
    """With one fact a turn, by enumeration of the cells (of both, for two)."""
    middle = start_cell(size)
    cells = [cell for cell in product(range(size), repeat=2) if cell != middle]
    most = 0
    for places in permutations(cells, amount):
        place, turn = middle, 1  # on the first turn nobody has read a fact
        for cell in places:
            turn += -(-len(walk(place, cell, size)) // steps)
            place = cell
        most = max(most, turn)
    assert most <= turns_needed(size, amount, steps)
    assert most >= turns_needed(size, amount, steps) - (amount - 1)


@pytest.mark.parametrize("blind", [0, 1])
def test_the_silent_value_is_the_best_expectation_by_enumeration(blind) -> None:
    """All walks of two steps on the smallest map, against all cells where the resource can be."""
    size, seen = 3, ((0, 0), (2, 1))[: 1 + blind]
    free = [c for c in product(range(size), repeat=2) if c not in (start_cell(size), *seen)]
    steps = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 0)]
    best = 0.0
    for first, second in product(steps, repeat=2):
        x, y = start_cell(size)
        entered = {(x + first[0], y + first[1])}
        entered.add((x + first[0] + second[0], y + first[1] + second[1]))
        best = max(best, sum(cell in entered for cell in free) / len(free))
    assert best == pytest.approx(silent_value(size, 2, 1 + blind, 2))
    walked = search_walk(size, seen, 2)
    assert sum(cell in walked for cell in free) / len(free) == pytest.approx(best)


def test_finding_a_cell_does_not_change_where_the_other_one_may_be() -> None:
    """The premise of the silent value: all placements of the unseen cells are equally likely."""
    rows = [draw_map(np.random.default_rng(seed), 3, 2, 1)["places"] for seed in range(5600)]
    counts = {}
    for own, other in rows:
        counts.setdefault(tuple(other[0]), []).append(tuple(own[0]))
    assert len(counts) == 8
    for seen, cells in counts.items():
        shares = np.unique([x * 3 + y for x, y in cells], return_counts=True)[1] / len(cells)
        assert len(shares) == 7 and start_cell(3) not in cells and seen not in cells
        assert abs(shares - 1 / 7).max() < 0.06


@pytest.mark.parametrize("options", KINDS_OF_TASKS, ids=str)
def test_the_search_enters_as_many_unknown_cells_as_there_are_steps(options) -> None:
    env = make(**{"split": "all", **options})
    game = env.reward
    steps = game.options.steps * game.options.num_turns
    for task in env.tasks.tasks[::5]:
        for agent in range(len(game.agents)):
            avoided = tuple(cell for _, cell in task.view(agent))
            cells = search_walk(game.options.size, avoided, steps)
            assert len({*cells, start_cell(game.options.size), *avoided}) == steps + 1 + len(
                avoided
            )
            assert all(walk(a, b, 9) == [b] for a, b in pairwise(cells))


@pytest.mark.parametrize("options", [{}, EASY, HARD, TINY], ids=str)
def test_the_silent_team_earns_its_exact_value(options) -> None:
    options = {"split": "all", **options}
    found = np.array(scores("silent", 200, **options))
    exact = make(**options).reward.strategies["silent"].exact(None)
    assert abs(found.mean() - exact) < 4 * found.std() / len(found) ** 0.5
    alone = np.array(scores("alone", 200, **options))
    agents = len(make(**options).possible_agents)
    assert abs(alone.mean() - exact / agents) < 4 * alone.std() / len(alone) ** 0.5


@pytest.mark.parametrize("options", [{}, EASY, HARD, TINY], ids=str)
def test_no_exploit_beats_its_bound(options) -> None:
    env = make(**options)
    strategies = env.reward.strategies
    for name in list(strategies)[4:]:
        bound = strategies[strategies[name].bound or "alone"].exact(None)
        found = np.array(scores(name, 40, **options))
        assert found.mean() - 2 * found.std() / len(found) ** 0.5 <= bound, name
    if "wording" not in options:
        for name in ("empty answer", "repeats the prompt", "copied example"):
            assert set(scores(name, 5, **options)) == {0.0}


def test_one_agent_with_full_knowledge_earns_its_share_alone() -> None:
    env = make(num_agents=3, num_turns=5)
    for task in env.tasks.tasks[:20]:
        env.reset(options={"task_id": task.task_id})
        total = 0.0
        while env.agents:
            everything = [cell for cells in task.places for cell in cells]
            path = [tuple(c) for c in env.reward._state(env.episode.turns)["paths"][0]]
            text = env.reward.write([cell for cell in everything if cell not in path])
            _, rewards, *_ = env.step({**dict.fromkeys(env.agents, ""), "gatherer_0": text})
            total += rewards["gatherer_0"]
        assert total <= 1 / 3 + 1e-9


def test_what_training_maps_hold_helps_nobody_on_test_maps() -> None:
    """An agent that goes where its resource was on the training map that looks most alike."""
    train, test = make(), make(split="test")
    found = []
    for task in test.tasks.tasks:
        seen = set(task.places[1])
        twin = max(train.tasks.tasks, key=lambda other: len(seen & set(other.places[1])))
        found.append(len(set(twin.places[0]) & set(task.places[0])) / 2)
    chance = 2 / 61  # two guesses of the 61 cells that it does not know
    assert np.mean(found) < chance + 2 * np.std(found) / len(found) ** 0.5


# Rules


@pytest.fixture
def env():
    env = make(split="all")
    env.reset(options={"task_id": "gather/0"})
    return env


def act(env, first: str = "", second: str = ""):
    return env.step(dict(zip(env.possible_agents, (first, second), strict=True)))


def details(env) -> dict[str, Any]:
    return env.episode.turns[-1].verdict.details


def test_a_walk_ends_with_the_steps_of_the_turn(env) -> None:
    act(env, "go 4 6\ngo 0 6\ngo 7 7", "go 4 4")
    assert details(env)["paths"] == [[[4, 4], [4, 5], [4, 6], [3, 6], [2, 6]], [[4, 4]]]
    act(env, "go 1 7")
    assert details(env)["paths"][0][5:] == [[1, 7]]


@pytest.mark.parametrize(
    ("text", "facts", "invalid"),
    [
        ("tell stone 1 2", [[0, 1, 1, 2]], 0),
        ("tell stone 1 2\ntell stone 3 4", [[0, 1, 1, 2]], 1),
        ("tell iron 1 2", [], 1),  # nobody gathers iron
        ("tell stone 8 2", [], 1),
        ("tell stone one 2", [], 1),
        ("go -1 0", [], 1),
        ("I will tell nobody", [], 1),
        ("Tell STONE 1 2.", [[0, 1, 1, 2]], 0),
        ("stone is at 1 2", [], 0),
        ("", [], 0),
    ],
)
def test_facts_are_commands_and_the_bandwidth_is_kept(env, text, facts, invalid) -> None:
    text = text.removeprefix("I will ")
    prompts, *_, infos = act(env, text)
    assert details(env)["told"] == facts
    assert infos["gatherer_0"]["invalid"] == invalid
    assert infos["gatherer_0"]["facts_told"] == len(facts)
    assert ("gatherer_0 told you: stone at x=1 y=2" in prompts["gatherer_1"]) == bool(facts)
    assert ("You told: stone at x=1 y=2" in prompts["gatherer_0"]) == bool(facts)


def test_true_facts_are_counted(env) -> None:
    (x, y), other = env.task.places[1][0], env.task.places[0][0]
    *_, infos = act(env, f"tell stone {x} {y}", f"tell stone {other[0]} {other[1]}")
    assert infos["gatherer_0"]["facts_told"] == 2 and infos["gatherer_0"]["true_facts"] == 1


def test_without_bandwidth_nothing_is_told() -> None:
    env = make(facts=0)
    env.reset(seed=0)
    prompts, *_, infos = act(env, "tell stone 1 2", "go 0 0")
    assert infos["gatherer_0"]["invalid"] == 1 and infos["gatherer_0"]["facts_told"] == 0
    assert "tell" not in prompts["gatherer_1"] and "told" not in prompts["gatherer_1"]


@pytest.mark.parametrize("num_agents", [2, 3])
def test_scrambled_facts_depend_on_no_message(num_agents) -> None:
    env = make(facts=2, scramble=True, num_agents=num_agents, num_turns=5)
    found = []
    for text in ("", "tell stone 1 2\ntell stone 3 4"):
        env.reset(options={"task_id": "gather/0"})
        env.step(dict.fromkeys(env.agents, text))
        found.append(details(env)["heard"])
        assert len(details(env)["told"]) == (2 if text else 0) * num_agents
    assert found[0] == found[1]
    assert [fact[0] for fact in found[0]] == [i for i in range(num_agents) for _ in range(2)]
    assert all(kind != sender for sender, kind, _, _ in found[0])


def test_an_agent_does_not_see_its_own_resource_nor_the_moves_of_others(env) -> None:
    prompts, _ = env.reset(options={"task_id": "gather/0"})
    for agent, own, other in (("gatherer_0", 0, 1), ("gatherer_1", 1, 0)):
        for x, y in env.task.places[other]:
            assert f"- {KINDS[other]}, for gatherer_{other}: x={x} y={y}" in prompts[agent]
        assert f"- {KINDS[own]}" not in prompts[agent]
    following = []
    for text in ("go 0 0", "go 7 7"):
        env.reset(options={"task_id": "gather/0"})
        following.append(act(env, text)[0]["gatherer_1"])
    assert following[0] == following[1]


def test_the_rewards_of_an_episode_sum_to_the_harvested_share(env) -> None:
    rng, total = np.random.default_rng(0), 0.0
    while env.agents:
        targets = rng.integers(8, size=(2, 2)).tolist()
        _, rewards, *_, infos = act(env, *(f"go {x} {y}" for x, y in targets))
        total += rewards["gatherer_0"]
    paths = [{tuple(cell) for cell in path} for path in details(env)["paths"]]
    shares = [len(set(c) & p) / 2 for c, p in zip(env.task.places, paths, strict=True)]
    assert total == pytest.approx(np.mean(shares)) == pytest.approx(infos["gatherer_0"]["score"])


def test_letters_name_cells_in_the_bare_wording() -> None:
    env = make(**TINY)
    env.reset(options={"task_id": env.tasks.tasks[0].task_id})
    (own,), (other,) = env.task.places
    letters = {cell: "abcdefghi"[3 * cell[1] + cell[0]] for cell in (own, other)}
    assert env.episode.prompts == {
        "gatherer_0": f"e{letters[other]}.",
        "gatherer_1": f"e{letters[own]}.",
    }
    prompts, *_ = act(env, letters[other] + "e", letters[own] + "e")
    assert prompts["gatherer_0"] == "e." + letters[own]  # what it has told already is left out
    *_, infos = act(env, "." + letters[own], "z" + letters[other])
    assert infos["gatherer_0"]["score"] == 1.0 and infos["gatherer_0"]["invalid"] == 2


# Tasks and the contract


def test_free_text_reaches_nobody_even_with_messages(monkeypatch) -> None:
    """The listeners are declared; without the declaration no unique word of an answer is found either."""
    monkeypatch.setattr(GatherGame, "readers", {})
    check_env(make)


def test_an_agent_reads_earlier_answers_in_a_turn_order() -> None:
    env = make(facts=0, order=["gatherer_0", "gatherer_1"])
    env.reset(seed=0)
    prompts, *_ = env.step({"gatherer_0": "stone is at 1 2"})
    assert "stone is at 1 2" in prompts["gatherer_1"]


def test_the_picture_shows_what_was_harvested(env) -> None:
    x, y = env.task.places[0][0]
    for _ in range(3):
        act(env, f"go {x} {y}\ngo 0 0")
    drawn = details(env)["picture"]
    rows = {entry["title"]: entry["rows"] for entry in drawn["panels"]}
    assert rows["resources"][y][x] == "w"
    assert rows["gatherer_0"][y][x] == "*"
    assert set("".join(rows["gatherer_1"])) <= set(" s@")
