from __future__ import annotations

from typing import Any

import pytest

from llm_decpomdp.algorithms import Rollout, RolloutOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.rollouts.checks import Cost, cost
from llm_decpomdp.algorithms.rollouts.joint import pairing
from llm_decpomdp.algorithms.rollouts.rollout import Parent
from tests.algorithms.conftest import Script

TEXTS = {"x": ("a", "b"), "y": ("a", "bb")}


TREE = RolloutOptions(mode="tree")


def grow(env: Any, **options: Any) -> Rollout:
    team = {agent: Script(*texts) for agent, texts in TEXTS.items()}
    trees = RolloutOptions(mode="tree", **options)
    (tree,) = collect_rollouts(env, team, [Start(seed=0)], trees, group_size=2)
    return tree


def test_aligned_samples_play_together_and_crossed_ones_each_with_each() -> None:
    assert pairing("aligned", 3, 2)(2).joint == ((0, 0), (1, 1), (2, 2))
    assert pairing("cross", 2, 2)(2).joint == ((0, 0), (0, 1), (1, 0), (1, 1))
    with pytest.raises(KeyError, match="did you mean 'cross'"):
        pairing("crossed", 2, 2)


def test_every_joint_sample_goes_on_from_the_state_it_led_to(make_env: Any) -> None:
    tree = grow(make_env(2))
    assert [group.parent for group in tree.groups] == [None, Parent(0, 0), Parent(0, 1)]
    assert [group.prompts["x"] for group in tree.groups] == ["a", "aa", "bbb"]
    assert tree.groups[0].rewards == (2.0, 0.0)
    assert [len(turn) for turn in tree.turns] == [1, 2]
    assert tree.last == list(tree.groups[1:])


def test_a_cross_tree_has_a_group_for_each_joint_sample(make_env: Any) -> None:
    tree = grow(make_env(2), joint_mode="cross")
    assert tree.groups[0].rewards == (2.0, 1.0, 1.0, 0.0)
    assert [group.prompts["y"] for group in tree.groups[1:]] == ["aa", "abb", "ba", "bbb"]


@pytest.mark.parametrize("mode", ["aligned", "cross"])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_trees_and_their_estimates_agree(make_env: Any, mode: str, turns: int) -> None:
    tree = grow(make_env(turns), joint_mode=mode)
    expected = cost(RolloutOptions(mode="tree", joint_mode=mode), 2, 2, turns)
    assert len(tree.groups) == expected.groups
    assert sum(len(group.completions["x"]) for group in tree.groups) == expected.completions
    assert sum(len(group.rewards) for group in tree.groups) == expected.joint_samples


def test_a_group_at_the_threshold_leads_to_no_other(make_env: Any) -> None:
    tree = grow(make_env(3), early_termination_threshold=1.0)
    assert len(tree.groups) == 1 and tree.stopped_early == 1.0
    last = grow(make_env(1), early_termination_threshold=1.0)
    assert last.stopped_early == 0.0


def test_an_ended_branch_stops_growing_while_the_others_go_on(make_env: Any) -> None:
    team = {"x": Script("", "b"), "y": Script("", "b")}
    (tree,) = collect_rollouts(make_env(2), team, [Start()], TREE, group_size=2)
    assert [group.parent for group in tree.groups] == [None, Parent(0, 1)]


def test_all_trees_are_sampled_in_one_batch_a_turn(make_env: Any) -> None:
    shared = Script("a", "b")
    collect_rollouts(make_env(2), {"x": shared, "y": shared}, [Start()] * 2, TREE, group_size=2)
    assert list(map(len, shared.batches)) == [4, 8]


def test_the_cost_is_that_of_the_formulas() -> None:
    assert cost(RolloutOptions(), 4, 2, 3) == Cost(3, 12, 12)
    assert cost(RolloutOptions(mode="tree"), 4, 2, 2) == Cost(5, 20, 20)
    assert cost(RolloutOptions(mode="tree", joint_mode="cross"), 4, 2, 2) == Cost(17, 68, 272)
    assert cost(RolloutOptions(), 4, 2, 3).times(2) == Cost(6, 24, 24)


def test_an_absurd_cost_is_refused_with_the_number() -> None:
    with pytest.raises(ValueError, match=r"16,843,008 .*mode=chain"):
        cost(RolloutOptions(mode="tree", joint_mode="cross"), 16, 2, 3)
