"""Preference pairs of groups: which, in which order, and how many."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms.preferences.pairs import (
    MAX_JOINT_SAMPLES,
    PreferencePair,
    SamplePair,
    answers,
    disjoint,
    matches,
)
from llm_decpomdp.algorithms.rollouts.collection import align
from llm_decpomdp.algorithms.rollouts.joint import common, cross
from llm_decpomdp.algorithms.rollouts.rollout import Joint, Parent, Rollout
from llm_decpomdp.policy import SKIPPED, Completion
from tests.algorithms.preferences import teams
from tests.algorithms.preferences.teams import START, group_of, rollout_of

A, B, END = 1, 2, 0
TWO = {"x": [[A, END], [B, END]], "y": [[A, END], [B, END]]}
CROSSED: Joint = ((0, 0), (0, 1), (1, 0), (1, 1))

CASES: list[tuple[str, list[list[int]], list[float], dict[str, Any], list[tuple[int, int]]]] = [
    ("the better one wins", [[0, 0], [1, 1]], [1, 3], {}, [(1, 0)]),
    ("equal returns make no pair", [[0, 0], [1, 1]], [2, 2], {}, []),
    ("nor do differences of rounding", [[0, 0], [1, 1]], [0.1 + 0.2, 0.3], {}, []),
    ("nor the same said twice", [[0, 0], [0, 0]], [0, 1], {}, []),
    ("nor what only others said", [[0, 0], [0, 1]], [0, 1], {"learns": [True, False]}, []),
    ("others may differ too", [[0, 0], [1, 1]], [0, 1], {"learns": [True, False]}, [(1, 0)]),
    (
        "a single pair differs in one agent",
        [[0, 0], [0, 1], [1, 0], [1, 1]],
        [0, 1, 2, 3],
        {"kind": "single"},
        [(1, 0), (2, 0), (3, 1), (3, 2)],
    ),
    (
        "of all agents, and it learns",
        [[0, 0], [0, 1], [1, 0], [1, 1]],
        [0, 1, 2, 3],
        {"kind": "single", "learns": [True, False]},
        [(2, 0), (3, 1)],
    ),
    (
        "half a standard deviation",  # that of 0, 0, 1, 8 is 3.34
        [[0, 0], [1, 1], [2, 2], [3, 3]],
        [0, 0, 1, 8],
        {"min_gap": 0.5},
        [(3, 0), (3, 1), (3, 2)],
    ),
    (
        "or any difference",
        [[0, 0], [1, 1], [2, 2]],
        [0, 1, 8],
        {},
        [(1, 0), (2, 0), (2, 1)],
    ),
]


@pytest.mark.parametrize(
    ("said", "returns", "options", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_pairs_of_a_group(
    said: list[list[int]],
    returns: list[float],
    options: dict[str, Any],
    expected: list[tuple[int, int]],
) -> None:
    learns = options.pop("learns", [True, True])
    found = matches(np.array(said), np.array(returns, dtype=float), learns, **options)
    assert [(match.winner, match.loser) for match in found] == expected
    for match in found:
        assert match.gap == returns[match.winner] - returns[match.loser] > 0


def test_too_many_joint_samples_are_refused_with_the_remedy() -> None:
    said = np.zeros((MAX_JOINT_SAMPLES + 1, 2), dtype=np.int64)
    with pytest.raises(ValueError, match=r"2,049 joint samples.* lower group_size"):
        matches(said, np.zeros(len(said)), [True, True])


def test_completions_are_equal_by_their_tokens_or_without_any_by_their_text() -> None:
    rows = {"x": [[A, END], [A, END], [A]], "y": [[END], [B, END], [END]]}
    group = group_of(rows, align(3, 2).joint, [0, 1, 2])
    assert answers(group).tolist() == [[0, 0], [0, 1], [2, 0]]  # `a` that was cut is another
    texts = (Completion("p"), Completion("q"), Completion("p"))
    silent = (SKIPPED, SKIPPED, SKIPPED)
    remote = replace(group, completions={"x": texts, "y": silent})
    assert answers(remote).tolist() == [[0, 0], [1, 0], [0, 0]]


def test_no_completion_has_a_part_in_two_pairs() -> None:
    group = group_of(TWO, CROSSED, [0, 1, 2, 3])
    said, learns = answers(group), [True, True]
    found = matches(said, np.arange(4.0), learns, "single")
    assert [m[:2] for m in disjoint(found, group, said, learns, 9)] == [(1, 0), (2, 0)]
    assert [m[:2] for m in disjoint(found, group, said, learns, 1)] == [(1, 0)]
    # y said both in the first pair already, and x differs in none but the second
    both = [SamplePair(3, 0, 3.0), SamplePair(1, 0, 1.0)]
    assert disjoint(both, group, said, learns, 9) == both[:1]
    # y learns nothing: it is not used up.
    assert disjoint(both, group, said, [True, False], 9) == both


def pairs_of(rollout: Rollout, seed: int = 0, **options: Any) -> list[PreferencePair]:
    found = teams.pairs_of(rollout, list(rollout.groups[0].completions), seed, **options)
    assert len(found) == len(rollout.groups)
    return [pair for of_group in found for pair in of_group]


def random_group(mode: str, rng: np.random.Generator, size: int = 4, agents: int = 3) -> Rollout:
    pairing = {"aligned": align, "cross": cross}.get(mode)
    joint = pairing(size, agents).joint if pairing else common(size, agents, 3, rng).joint
    rows = {
        f"p{i}": [
            [int(t) for t in rng.integers(1, 3, rng.integers(0, 3))] + [END] for _ in range(size)
        ]
        for i in range(agents)
    }
    return rollout_of(rows, joint, rng.integers(0, 5, len(joint)).tolist())


@pytest.mark.parametrize("mode", ["aligned", "common", "cross"])
@pytest.mark.parametrize("selection", ["largest_gap", "random"])
@pytest.mark.parametrize("kind", ["joint", "single"])
def test_what_holds_for_all_pairs_of_a_group(mode: str, selection: str, kind: str) -> None:
    rng, count = np.random.default_rng(3), 0
    for _ in range(30):
        rollout = random_group(mode, rng)
        (group,) = rollout.groups
        options = {"pair_kind": kind, "pair_selection": selection, "pair_min_gap": 0.5}
        found = pairs_of(rollout, pairs_per_group=4, **options)
        assert len(found) <= 4
        count += len(found)
        for pair in found:
            differing = [agent for agent in group.completions if pair.differs(agent)]
            assert len(differing) == 1 if kind == "single" else differing
            assert pair.gap >= 0.5 * np.std(group.rewards) and pair.gap > 0
            assert (pair.start, pair.prompts, pair.weight) == (START, group.prompts, 1.0)
        if selection == "largest_gap" and found:
            said, learns = answers(group), [True] * 3
            every = matches(said, np.array(group.rewards), learns, kind)
            assert found[0].gap == max(match.gap for match in every)
    assert count > 5


def test_the_seed_draws_the_order_of_random_pairs_and_of_equal_gaps() -> None:
    rows = {"x": [[A] * n for n in range(1, 7)], "y": [[B] * n for n in range(1, 7)]}
    rollout = rollout_of(rows, align(6, 2).joint, [0, 0, 0, 1, 1, 1])
    for selection in ("random", "largest_gap"):
        drawn = [pairs_of(rollout, seed, pair_selection=selection) for seed in (0, 0, 1)]
        assert drawn[0] == drawn[1] != drawn[2]
        assert all(len(found) == 3 for found in drawn)


def test_pairs_of_all_turns_count_for_the_limit_of_a_start_and_weigh_as_their_turns() -> None:
    first = group_of(TWO, align(2, 2).joint, [0, 1])
    second = replace(first, turn=1, parent=Parent(0, 1), rewards=(5.0, 0.0))
    chain = Rollout(START, (first, second))
    weights = {"turn_gradient_weights": [1.5, 0.5]}
    assert [(p.gap, p.weight) for p in pairs_of(chain, **weights)] == [(1, 1.5), (5, 0.5)]
    (largest,) = pairs_of(chain, pairs_per_start=1)
    assert largest.gap == 5
    drawn = {
        pairs_of(chain, seed, pairs_per_start=1, pair_selection="random")[0].gap
        for seed in range(9)
    }
    assert drawn == {1, 5}


def test_in_a_chain_pairs_go_by_rewards_and_in_a_tree_by_returns() -> None:
    first = group_of(TWO, align(2, 2).joint, [0, 1])
    second = replace(first, turn=1, parent=Parent(0, 0), rewards=(5.0, 5.0), chosen=None)
    chain = Rollout(START, (first, second))
    tree = Rollout(START, (replace(first, chosen=None), second))
    assert [pair.gap for pair in pairs_of(chain)] == [1]
    (pair,) = pairs_of(tree, discount=0.5)
    assert pair.gap == 1.5 and pair.winner["x"] == first.completions["x"][0]


def test_a_reward_that_is_not_finite_names_the_start() -> None:
    rollout = rollout_of(TWO, align(2, 2).joint, [0, float("nan")])
    with pytest.raises(FloatingPointError, match=r"isn't finite for Start.*task/7"):
        pairs_of(rollout)


def test_crossed_groups_favour_no_agent_among_equal_gaps() -> None:
    """All that matters is x, yet the order of the samples puts those first in which y differs."""
    rows = {"x": [[A], [B], [A, A], [B, B]], "y": [[A], [B], [A, A], [B, B]]}
    rewards = [float(x < 2) for x, _ in product(range(4), repeat=2)]
    rollout = rollout_of(rows, cross(4, 2).joint, rewards)
    differing = [sum(pair.differs("y") for pair in pairs_of(rollout, seed)) for seed in range(20)]
    assert 0.5 < np.mean(differing) < 2  # of two pairs each
