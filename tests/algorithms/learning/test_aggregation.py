"""Optimism about partners, by hand and on the climbing game."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.advantages import (
    aggregate,
    group_advantages,
    progress,
)
from llm_decpomdp.algorithms.learning.learner_options import AGGREGATIONS, LearnerOptions
from llm_decpomdp.algorithms.maremax import MAREMAX
from llm_decpomdp.algorithms.rollouts.joint import cross
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.trainer_options import check_credit
from llm_decpomdp.policy import Completion

VALUES = np.array([[11.0, -30.0, 0.0], [0.0, 7.0, 6.0]])


def test_values_by_hand() -> None:
    assert aggregate(VALUES, "mean") == pytest.approx([-19 / 3, 13 / 3])
    assert aggregate(VALUES, "max").tolist() == [11.0, 7.0]
    assert aggregate(VALUES, "quantile", quantile=0.5).tolist() == [0.0, 6.0]
    assert aggregate(VALUES, "quantile", quantile=1.0).tolist() == [11.0, 7.0]
    halfway = (aggregate(VALUES, "mean") + aggregate(VALUES, "max")) / 2
    assert aggregate(VALUES, "annealed", progress=0.5) == pytest.approx(halfway)
    assert aggregate(VALUES, "annealed", progress=0.0).tolist() == [11.0, 7.0]
    assert aggregate(VALUES, "annealed", progress=1.0) == pytest.approx([-19 / 3, 13 / 3])


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_beside_one_choice_of_partners_all_are_the_return(aggregation: str) -> None:
    values = aggregate(VALUES[:, :1], aggregation, quantile=0.3, progress=0.4)
    assert values.tolist() == [11.0, 0.0]


COMPLETIONS = {agent: (Completion("a"), Completion("b")) for agent in ("x", "y")}


def crossed(rewards: tuple[float, ...]) -> Rollout:
    group = Group(0, None, {}, COMPLETIONS, cross(2, 2).joint, rewards, ({},) * 4)
    return Rollout(Start(), (group,))


def x_advantages(rollout: Rollout, progress: float = 0.0, **options: object) -> list[list[float]]:
    settings = LearnerOptions(total_updates=4, **options)  # type: ignore[arg-type]
    found = group_advantages([rollout], ["x"], ALGORITHMS["magrpo"], settings, progress)
    return [group.advantages["x"].tolist() for group in found]


def test_the_learner_weighs_an_answer_by_its_best_partner_if_it_is_told_to() -> None:
    risky = crossed((11.0, -30.0, 0.0, 7.0))  # a earns 11 or -30, b earns 0 or 7
    assert x_advantages(risky) == [[-6.5, 6.5]]
    assert x_advantages(risky, joint_aggregation="max") == [[2.0, -2.0]]
    annealed = [x_advantages(risky, p, joint_aggregation="annealed") for p in (0.0, 1.0)]
    assert annealed == [[[2.0, -2.0]], [[-6.5, 6.5]]]


def test_optimism_fades_from_the_first_update_to_the_last() -> None:
    assert [progress(update, 5) for update in range(5)] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert progress(0, 1) == progress(3, None) == progress(9, 5) == 1.0


def test_a_leak_forgives_answers_below_the_baseline() -> None:
    risky = crossed((11.0, -30.0, 0.0, 7.0))
    assert x_advantages(risky, negative_advantage_weight=0.5) == [[-3.25, 6.5]]
    assert x_advantages(risky, negative_advantage_weight=0.0) == [[0.0, 6.5]]


def episode_group(turn: int, parent: tuple[int, int] | None, reward: float, prompt: str) -> Group:
    completions = {"x": (Completion("a"),), "y": (Completion("a"),)}
    where = None if parent is None else Parent(*parent)
    prompts = dict.fromkeys(completions, prompt)
    return Group(turn, where, prompts, completions, ((0, 0),), (reward,), ({},))


def episodes() -> Rollout:
    """Three episodes: the first two go on, to different prompts, and one of them to a third turn."""
    triple = {agent: (Completion("a"), Completion("b"), Completion("c")) for agent in ("x", "y")}
    root = Group(
        0, None, dict.fromkeys(triple, "p"), triple, ((0, 0), (1, 1), (2, 2)), (0, 1, 5), ({},) * 3
    )
    later = (episode_group(1, (0, 0), 2.0, "q"), episode_group(1, (0, 1), 6.0, "r"))
    last = episode_group(2, (1, 0), 10.0, "s")
    return Rollout(Start(), (root, *later, last), pooled=True)


def test_the_completions_of_a_turn_are_compared_over_all_episodes_that_came_to_it() -> None:
    options = LearnerOptions(discount=0.5)
    found = list(group_advantages([episodes()], ["x", "y"], ALGORITHMS["marloo"], options))
    # Returns: 0 + 0.5 (2 + 0.5 * 10) = 3.5, 1 + 0.5 * 6 = 4, 5; then 7 and 6; then 10.
    first, *later = (group.advantages["x"].tolist() for group in found)
    assert first == pytest.approx([3.5 - 4.5, 4 - 4.25, 5 - 3.75])
    assert later == [[1.0], [-1.0], [10.0]]  # the last is alone, and the others earn 0 by then
    assert [group.weight for group in found] == [1.0, 1 / 3, 1 / 3, 1 / 3]


def test_a_second_advantage_compares_completions_for_equal_joint_prompts() -> None:
    base = episodes()
    same = Rollout(
        base.start,
        (base.groups[0], base.groups[1], episode_group(1, (0, 1), 6.0, "q"), base.groups[3]),
        pooled=True,
    )
    plain, unequal, equal = (
        [
            group.advantages["x"].tolist()
            for group in group_advantages(
                [rollout], ["x"], ALGORITHMS["marloo"], LearnerOptions(step_advantage_weight=weight)
            )
        ]
        for rollout, weight in ((base, 0.0), (base, 1.0), (same, 1.0))
    )
    doubled = [[2 * value for value in group] for group in plain]
    assert (
        unequal == doubled
    )  # alone with their prompts on later turns: the first comparison counts twice
    assert equal == doubled


def test_options_that_need_each_other_are_refused_apart() -> None:
    with pytest.raises(ValueError, match="'quantile' and aggregation_quantile need each other"):
        LearnerOptions(joint_aggregation="quantile")
    with pytest.raises(
        ValueError, match=r"aggregation_quantile=0\.5 means nothing with joint_aggregation=max"
    ):
        LearnerOptions(joint_aggregation="max", aggregation_quantile=0.5)
    with pytest.raises(ValueError, match="'annealed' needs total_updates"):
        LearnerOptions(joint_aggregation="annealed")
    with pytest.raises(ValueError, match="negative_advantage_weight=0 leaves nothing to learn"):
        MAREMAX.check(["x"], LearnerOptions(negative_advantage_weight=0.0))


@pytest.mark.parametrize(
    ("options", "rollouts", "remedy"),
    [
        (
            {"joint_aggregation": "max"},
            {},
            "set joint_mode=cross, or joint_mode=common with num_par",
        ),
        ({"joint_aggregation": "max"}, {"joint_mode": "common"}, "with num_partners of 2 or more"),
        ({"step_advantage_weight": 1.0}, {"plan": "tree"}, "set plan=episodes, or drop it"),
    ],
)
def test_credit_that_the_joint_samples_do_not_have_is_refused(
    options: Any, rollouts: Any, remedy: str
) -> None:
    with pytest.raises(ValueError, match=remedy):
        check_credit(RolloutOptions(**rollouts), LearnerOptions(**options))
