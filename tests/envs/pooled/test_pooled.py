"""The hidden profile family: exact bounds by enumeration, answers, exploits, and channels."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import llm_decpomdp
from llm_decpomdp.benchmarks.evaluation.strategies import check_strategies
from llm_decpomdp.envs.pooled.env import (
    best_guesses,
    is_hidden,
    leader,
    profiles,
    silent_value,
    total,
)

EASY: dict[str, Any] = {"facts": 3}
HARD: dict[str, Any] = {"candidates": 4}
KINDS = ({}, EASY, HARD, {"wording": "bare"}, {"num_agents": 4}, {"num_turns": 2})


def make(**options):
    return llm_decpomdp.make("pooled-v0", **options)


# Exact bounds


def test_hidden_profiles_are_those_whose_majority_is_wrong() -> None:
    assert is_hidden(((1, 3, 0), (1, 3, 0), (4, 0, 0))) is None  # nobody is the best
    assert is_hidden(((2, 1, 1), (2, 1, 1), (0, 4, 0))) is True  # 4 and 6
    assert is_hidden(((1, 2, 0), (1, 2, 0), (3, 0, 0))) is True  # 5 and 4, two favor the second
    assert is_hidden(((2, 1, 0), (2, 1, 0), (0, 3, 0))) is True
    assert is_hidden(((2, 1, 0), (2, 1, 0), (1, 2, 0))) is False
    assert is_hidden(((3, 0, 0), (3, 0, 0), (0, 0, 3))) is None  # the third can change nothing
    assert is_hidden(((2, 2, 0), (2, 1, 1), (3, 1, 0))) is None  # a view without a leader
    assert is_hidden(((3, 1, 0), (0, 3, 1), (1, 0, 3))) is None  # no majority


def test_profiles_are_all_of_their_kind() -> None:
    opens, hiddens = profiles(3, 3, 4)
    assert (len(opens), len(hiddens)) == (369, 72)
    assert all(sum(view) == 4 for profile in (*opens, *hiddens) for view in profile)
    for profile in hiddens:
        votes = [leader(view) for view in profile]
        favorite = max(votes, key=votes.count)
        assert votes.count(favorite) >= 2 and favorite != leader(total(profile))


@pytest.mark.parametrize("kind", [(3, 2, 3), (3, 2, 5)])
def test_the_silent_value_is_the_best_of_all_teams_without_messages(kind) -> None:
    """By enumeration of all maps from views to answers, for agents with the same one and with different ones."""
    weighted = [(p, 0.5 / len(part)) for part in profiles(*kind) for p in part]
    views = sorted({view for profile, _ in weighted for view in profile})

    def score(teams) -> float:
        return sum(
            weight
            * np.mean([team[v] == leader(total(p)) for team, v in zip(teams, p, strict=True)])
            for p, weight in weighted
        )

    policies = [dict(zip(views, c, strict=True)) for c in product((0, 1), repeat=len(views))]
    best = max(score([policy] * 3) for policy in policies)
    assert silent_value(*kind) == pytest.approx(best)
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert score([policies[i] for i in rng.integers(len(policies), size=3)]) <= best + 1e-9


def test_the_guess_from_a_view_is_the_likeliest_candidate() -> None:
    guesses = best_guesses(3, 3, 4)
    assert guesses[(0, 1, 3)][0] == 2
    assert guesses[(4, 0, 0)][0] == 0
    assert sum(weight for _, weight in guesses.values()) == pytest.approx(silent_value(3, 3, 4))


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_strategies_earn_their_exact_values_and_no_exploit_beats_its_bound(options) -> None:
    found = {entry.name: entry for entry in check_strategies("pooled-v0", options, 200)}
    assert [entry.problem for entry in found.values()] == [""] * len(found)
    assert found["optimum"].score.value == 1.0
    assert found["majority of private views"].score.value == 0.5
    assert found["silent"].score.value < 1.0
    if "wording" not in options:
        names = ("empty answer", "repeats the prompt", "copied example", "all candidates")
        assert [found[name].score.value for name in names] == [0.0] * 4


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (EASY, [1.0, 0.1905, 0.5714, 0.333]),
        ({}, [1.0, 0.183, 0.548, 0.333]),
        (HARD, [1.0, 0.172, 0.515, 0.25]),
    ],
    ids=str,
)
def test_the_numbers_of_three_difficulties(options, expected) -> None:
    strategies = make(**options).reward.strategies
    found = [strategies[name].exact(None) for name in ("optimum", "alone", "silent", "random")]
    assert found == pytest.approx(expected, abs=6e-4)


# Tasks


@pytest.mark.parametrize("options", [{}, EASY, HARD], ids=str)
def test_half_of_the_tasks_mislead(options) -> None:
    for tasks in (make(split=split, **options).tasks.tasks for split in ("train", "test")):
        assert sum(is_hidden(task.profile) is True for task in tasks) == len(tasks) / 2
        assert sum(is_hidden(task.profile) is False for task in tasks) == len(tasks) / 2


def test_no_strength_is_on_two_lists_and_no_candidate_is_always_the_best() -> None:
    for task in make().tasks.tasks[:50]:
        strengths = [text for facts in task.lists for _, text in facts]
        assert len(set(strengths)) == len(strengths) == 12
    places = [task.names.index(task.best) for task in make().tasks.tasks]
    assert min(places.count(place) for place in range(3)) > 80


# Answers


@pytest.mark.parametrize(
    ("form", "right", "invalid"),
    [
        ("answer {best}", 1, 0),
        ("I think.\n- Answer {best}.", 1, 0),
        ("answer {other}", 0, 0),
        ("answer {other}\nanswer {best}", 0, 1),
        ("answer {best}\nanswer {best}", 1, 0),
        ("answer nobody", 0, 1),
        ("answer {best} {best}", 0, 1),
        ("answer {other}\nWait.\n**Final answer:** {best}", 1, 0),
        ("answer {other}\nWait.\n**Answer:**\n\nanswer {best}", 1, 0),
        ("{best}", 1, 0),
        ("{best}\n{other}", 0, 1),
        ("{other}\nanswer {best}", 1, 0),
        ("", 0, 0),
    ],
)
def test_an_answer_names_one_candidate(form: str, right: int, invalid: int) -> None:
    env = make()
    env.reset(seed=0)
    best = env.task.best
    other = next(name for name in env.task.names if name != best)
    texts = dict.fromkeys(env.agents, "") | {"member_0": form.format(best=best, other=other)}
    _, rewards, *_, infos = env.step(texts)
    assert rewards["member_0"] == pytest.approx(right / 3)
    assert infos["member_0"]["invalid"] == invalid


def test_only_the_last_turn_counts_so_that_nobody_can_try_all_candidates() -> None:
    env = make(num_turns=3)
    for task in env.tasks.tasks[:9]:
        env.reset(options={"task_id": task.task_id})
        total = 0.0
        for name in task.names:
            _, rewards, *_ = env.step(dict.fromkeys(env.agents, f"answer {name}"))
            total += rewards["member_0"]
        assert total == (task.names[-1] == task.best)


def test_a_prompt_shows_the_own_facts_alone() -> None:
    env = make()
    prompts, _ = env.reset(seed=0)
    for agent, prompt in prompts.items():
        for i, facts in enumerate(env.task.lists):
            assert all((text in prompt) == (agent == f"member_{i}") for _, text in facts)
    bare = make(wording="bare")
    prompts, _ = bare.reset(seed=0)
    assert all(len(text) == 4 and set(text) <= set("abc") for text in prompts.values())


def test_messages_and_turns_let_agents_pool_their_facts() -> None:
    env = make(channel={"bandwidth": 80})
    env.reset(seed=0)
    prompts, *_ = env.step(dict.fromkeys(env.agents, "my list"))
    assert all(text.count("told you: my list") == 2 for text in prompts.values())
    _, rewards, *_ = env.step(dict.fromkeys(env.agents, f"answer {env.unwrapped.task.best}"))
    assert rewards["member_0"] == 1.0
    order = [f"member_{i}" for i in range(3)]
    env = make(order=order)
    env.reset(seed=0)
    prompts, *_ = env.step({"member_0": "my list"})
    assert "member_0:\nmy list" in prompts["member_1"]


def test_a_picture_has_the_facts_and_the_answer_of_each_agent() -> None:
    env = make()
    env.reset(seed=0)
    task, best = env.task, env.task.names.index(env.task.best)
    wrong = (best + 1) % 3
    answers = {"member_0": f"answer {task.best}", "member_1": f"answer {task.names[wrong]}"}
    env.step({**answers, "member_2": "who?"})
    drawn = env.episode.turns[-1].verdict.details["picture"]
    titles = [panel["title"] for panel in drawn["panels"]]
    rows = [panel["rows"] for panel in drawn["panels"]]
    assert titles == ["all lists", *env.possible_agents]
    for counts, of in zip((total(task.profile), *task.profile), rows, strict=True):
        assert [row.count(letter) for row, letter in zip(of, "abc", strict=True)] == list(counts)
    marks = [{i: row[0] for i, row in enumerate(of) if row[0] != " "} for of in rows]
    assert marks == [{}, {best: "o"}, {wrong: "x"}, {}]
    assert drawn["key"]["abc"[best]][1] == f"{task.best}, the best"
