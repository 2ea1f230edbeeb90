"""Returns, values of completions, baselines and advantages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS, NAMES, Algorithm
from llm_decpomdp.algorithms.learning.advantages import (
    BASELINES,
    group_advantages,
    mean,
    partner_returns,
    progress,
    returns,
    subtract_baseline,
    visit_weights,
)
from llm_decpomdp.algorithms.learning.completion_values import aggregate
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions, check_credit
from llm_decpomdp.algorithms.maremax import MAREMAX
from llm_decpomdp.algorithms.rollouts.joint import cross, pairing
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.policy import Completion

AGENTS = ("x", "y")
G = 2
DISCOUNT = 0.9


def group(
    rewards: Sequence[float],
    parent: tuple[int, int] | None = None,
    *,
    mode: str = "aligned",
    chosen: int | None = None,
    cut: Sequence[str] = (),
) -> Group:
    """A group of two completions an agent; both agents in `cut` hit the token limit at their first."""
    completions = {
        agent: (
            Completion("first", finish_reason="length" if agent in cut else "stop"),
            Completion("second"),
        )
        for agent in AGENTS
    }
    return Group(
        turn=0 if parent is None else 1,
        parent=None if parent is None else Parent(*parent),
        prompts=dict.fromkeys(AGENTS, ""),
        completions=completions,
        joint=pairing(mode, G, len(AGENTS))(len(AGENTS)).joint,
        rewards=tuple(rewards),
        infos=tuple({} for _ in rewards),
        chosen=chosen,
    )


ALIGNED = Rollout(
    Start(), (group([1.0, 0.0]), group([2.0, 4.0], (0, 0)), group([0.0, 1.0], (0, 1)))
)
CROSS = Rollout(
    Start(),
    (
        group([1.0, 0.0, 0.0, 2.0], mode="cross"),
        group([1.0, 2.0, 3.0, 4.0], (0, 0), mode="cross"),  # mean 2.5
        group([0.0, 0.0, 0.0, 4.0], (0, 1), mode="cross"),  # mean 1.0
        # joint sample 2 ended the episode
        group([2.0, 2.0, 2.0, 2.0], (0, 3), mode="cross"),  # mean 2.0
    ),
)
CHAIN = Rollout(Start(), (group([1.0, 0.0], chosen=0), group([2.0, 4.0], (0, 0), chosen=1)))


def rollout_advantages(
    rollout: Rollout, baseline: str, agent: str, **options: object
) -> list[list[float]]:
    chosen = LearnerOptions(learning_rate=1.0, discount=DISCOUNT, **options)  # type: ignore[arg-type]
    found = group_advantages([rollout], AGENTS, Algorithm("test", BASELINES[baseline]), chosen)
    return [lesson.advantages[agent].tolist() for lesson in found]


def test_a_joint_sample_of_a_tree_earns_its_reward_and_the_mean_of_what_follows() -> None:
    found = returns(ALIGNED, DISCOUNT)
    assert found[0] == pytest.approx([1.0 + 0.9 * 3.0, 0.0 + 0.9 * 0.5])  # 3.7, 0.45
    assert [values.tolist() for values in found[1:]] == [[2.0, 4.0], [0.0, 1.0]]
    assert returns(ALIGNED, 0.0)[0].tolist() == [1.0, 0.0]
    assert returns(ALIGNED)[0].tolist() == [4.0, 0.5]


def test_a_third_turn_reaches_the_first_with_the_discount_squared() -> None:
    root, child = group([1.0, 1.0]), group([0.0, 2.0], (0, 1))
    grandchild = group([4.0, 8.0], (1, 0))
    found = returns(Rollout(Start(), (root, child, grandchild)), 0.5)
    assert found[1].tolist() == [0.0 + 0.5 * 6.0, 2.0]
    assert found[0].tolist() == [1.0, 1.0 + 0.5 * (3.0 + 2.0) / 2]


def test_in_a_cross_tree_a_completion_is_worth_the_mean_of_its_joint_samples() -> None:
    root = returns(CROSS, DISCOUNT)[0]
    assert root == pytest.approx([1.0 + 2.25, 0.0 + 0.9, 0.0, 2.0 + 1.8])  # 3.25, 0.9, 0, 3.8
    x, y = (aggregate(partner_returns(CROSS.groups[0], root, agent), "mean") for agent in (0, 1))
    assert x == pytest.approx([(3.25 + 0.9) / 2, (0.0 + 3.8) / 2])  # 2.075, 1.9
    assert y == pytest.approx([(3.25 + 0.0) / 2, (0.9 + 3.8) / 2])  # 1.625, 2.35


@pytest.mark.parametrize(
    ("baseline", "aligned", "cross_x", "cross_y", "chain"),
    [
        ("mean", [1.625, -1.625], [0.0875, -0.0875], [-0.3625, 0.3625], [0.5, -0.5]),
        ("leave_one_out", [3.25, -3.25], [0.175, -0.175], [-0.725, 0.725], [1.0, -1.0]),
        ("max", [0.0, -3.25], [0.0, -0.175], [-0.725, 0.0], [0.0, -1.0]),
        ("none", [3.7, 0.45], [2.075, 1.9], [1.625, 2.35], [1.0, 0.0]),
    ],
)
def test_advantages_of_the_first_turn_by_hand(
    baseline: str,
    aligned: list[float],
    cross_x: list[float],
    cross_y: list[float],
    chain: list[float],
) -> None:
    for agent in AGENTS:
        assert rollout_advantages(ALIGNED, baseline, agent)[0] == pytest.approx(aligned)
        assert rollout_advantages(CHAIN, baseline, agent)[0] == pytest.approx(chain)
    assert rollout_advantages(CROSS, baseline, "x")[0] == pytest.approx(cross_x)
    assert rollout_advantages(CROSS, baseline, "y")[0] == pytest.approx(cross_y)


def test_groups_count_by_the_share_of_the_episodes_that_reach_them() -> None:
    assert visit_weights(ALIGNED) == [1.0, 0.5, 0.5]
    assert visit_weights(CROSS) == [1.0, 0.25, 0.25, 0.25]
    assert visit_weights(CHAIN) == [1.0, 1.0]


def test_turn_weights_and_shares_multiply() -> None:
    options = LearnerOptions(learning_rate=1.0, turn_gradient_weights=(1.2, 0.8))
    for rollout, expected in ((ALIGNED, [1.2, 0.4, 0.4]), (CHAIN, [1.2, 0.8])):
        found = group_advantages([rollout], AGENTS, ALGORITHMS["magrpo"], options)
        assert [lesson.weight for lesson in found] == pytest.approx(expected)


def test_a_truncated_completion_costs_the_agent_that_wrote_it() -> None:
    rollout = Rollout(Start(), (group([1.0, 1.0], cut=["x"]),))
    options = {"truncation": {"mode": "penalise", "overlong_penalty": 0.5}}
    assert rollout_advantages(rollout, "mean", "x", **options) == [[-0.25, 0.25]]
    assert rollout_advantages(rollout, "mean", "y", **options) == [[0.0, 0.0]]
    assert rollout_advantages(rollout, "mean", "x") == [[0.0, 0.0]]


def test_returns_that_are_not_finite_name_the_start() -> None:
    rollout = Rollout(Start(task_id="task/3"), (group([1.0, float("nan")]),))
    with pytest.raises(FloatingPointError, match=r"task/3.*nan"):
        rollout_advantages(rollout, "mean", "x")


def test_own_points_are_a_component_of_their_own() -> None:
    infos = ({"reward/a": 1.0, "reward/b": 0.0}, {"reward/a": 0.0, "reward/b": 0.0})
    chosen = replace(group([1.0, 0.0]), infos=infos, own={"y": (0.0, 5.0)})
    rollout = Rollout(Start(), (chosen,))
    options = LearnerOptions(reward_parts="normalize_then_sum", own_weight=3.0)
    (found,) = group_advantages([rollout], AGENTS, ALGORITHMS["magrpo"], options)
    unit = 0.5 / np.std([1.0, 0.0])
    assert found.advantages["x"] == pytest.approx([unit, -unit])
    assert found.advantages["y"] == pytest.approx([-2 * unit, 2 * unit])


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_components_that_some_steps_lack_are_refused(names: Sequence[str]) -> None:
    infos = ({"reward/a": 1.0, "reward/b": 0.0}, {f"reward/{name}": 0.0 for name in names})
    rollout = Rollout(Start(task_id="t/1"), (replace(group([1.0, 0.0]), infos=infos),))
    options = LearnerOptions(reward_parts="normalize_then_sum")
    with pytest.raises(
        ValueError, match=r"steps from Start\(.*t/1.* have \['reward/a', 'reward/b'\], of"
    ):
        list(group_advantages([rollout], AGENTS, ALGORITHMS["magrpo"], options))


@pytest.mark.parametrize("parts", ["sum", "normalize_then_sum"])
@pytest.mark.parametrize("kind", [list, torch.tensor])
def test_advantages_may_be_lists_and_tensors(kind: Any, parts: str) -> None:
    class Other(Algorithm):
        def advantages(self, groups: Any, options: Any) -> Any:
            found = super().advantages(groups, options)
            return [{agent: kind(values) for agent, values in of.items()} for of in found]

    options = LearnerOptions(reward_parts=parts, negative_advantage_weight=0.5)
    rows = [
        [
            {agent: values.tolist() for agent, values in of.advantages.items()}
            for of in group_advantages([CHAIN], AGENTS, algorithm, options)
        ]
        for algorithm in (Other("mine", mean), ALGORITHMS["magrpo"])
    ]
    assert rows[0] == rows[1]


GRADIENT = torch.ones(2, requires_grad=True)


@pytest.mark.parametrize("value", [None, [None], 3.0, [{"x": "no"}], [{"x": GRADIENT}]])
def test_advantages_of_another_kind_are_refused(value: Any) -> None:
    class Wrong(Algorithm):
        def advantages(self, groups: Any, options: Any) -> Any:
            return value

    found = group_advantages([CHAIN], AGENTS, Wrong("mine"), LearnerOptions())
    with pytest.raises(
        ValueError, match=r"mine\.advantages must return a mapping.* without a gradient"
    ):
        list(found)


@pytest.mark.parametrize("parts", ["sum", "normalize_then_sum"])
def test_advantages_are_those_of_all_groups(parts: str) -> None:
    class First(Algorithm):
        def advantages(self, groups: Any, options: Any) -> Any:
            return super().advantages(groups, options)[:1]

    found = group_advantages([CHAIN], AGENTS, First("mine"), LearnerOptions(reward_parts=parts))
    with pytest.raises(ValueError, match=r"mine\.advantages must return a mapping"):
        list(found)


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


@pytest.mark.parametrize("aggregation", ["mean", "max", "quantile", "annealed"])
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
    # Alone with their prompts on later turns: the first comparison counts twice.
    assert unequal == doubled
    assert equal == doubled


def test_options_that_need_each_other_are_refused_apart() -> None:
    with pytest.raises(
        ValueError, match="joint_aggregation: name=quantile and a quantile need each other"
    ):
        LearnerOptions(joint_aggregation="quantile")
    with pytest.raises(
        ValueError, match=r"joint_aggregation: quantile=0\.5 means nothing with name=max"
    ):
        LearnerOptions(joint_aggregation={"name": "max", "quantile": 0.5})
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
        ({"step_advantage_weight": 1.0}, {"mode": "tree"}, "set rollout.mode=episodes, or drop it"),
    ],
)
def test_credit_without_joint_samples_is_refused(options: Any, rollouts: Any, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        check_credit(RolloutOptions(**rollouts), LearnerOptions(**options))


def test_mean_is_the_group_mean_for_every_leading_shape() -> None:
    returns = np.array([[[1.0, 2.0, 6.0]], [[0.0, 0.0, 3.0]]])
    assert mean(returns).tolist() == [[[3.0] * 3], [[1.0] * 3]]


def test_equal_returns_have_advantages_of_exactly_zero() -> None:
    for value in (0.1, 1 / 3, 2.1, 1e9 + 0.7):
        assert not subtract_baseline(np.full((1, 7), value), mean).any()


@pytest.mark.parametrize("name", ["mean", "leave_one_out", "max"])
def test_sums_of_the_same_rewards_in_another_order_teach_nothing(name: str) -> None:
    returns = 1e3 * np.array([(0.1 + 0.2) + 0.3, 0.1 + (0.2 + 0.3), 0.6])
    assert len(set(returns)) == 2 and not subtract_baseline(returns, BASELINES[name]).any()
    assert subtract_baseline(np.array([1.0, 1.0 + 1e-9, 1.0]), BASELINES[name]).any()


def test_advantages_sum_to_zero_and_ignore_a_shift() -> None:
    returns = np.array([0.1, 0.9, 0.4, 0.4])
    found = subtract_baseline(returns, mean)
    assert found == pytest.approx([-0.35, 0.45, -0.05, -0.05])
    assert subtract_baseline(returns + 5, mean) == pytest.approx(found)


def test_normalised_advantages_have_the_spread_of_one_and_survive_equal_returns() -> None:
    found = subtract_baseline(np.array([[0.0, 0.2], [0.1 + 0.2, 0.3]]), mean, normalize=True)
    assert found[0] == pytest.approx([-1.0, 1.0])
    assert found[1].tolist() == [0.0, 0.0]


def test_normalising_keeps_the_shift_between_baselines() -> None:
    returns = np.array([0.0, 1.0, 3.0])
    no_baseline = subtract_baseline(returns, np.zeros_like, normalize=True)
    assert not np.allclose(no_baseline, subtract_baseline(returns, mean, normalize=True))


def test_algorithms_are_found_by_name_and_unknown_names_get_a_hint() -> None:
    assert ALGORITHMS["grpo"].baseline is BASELINES["mean"]
    assert [ALGORITHMS[name].name for name in ALGORITHMS] == list(NAMES)
    assert "magrpo" in ALGORITHMS and "ppo" not in ALGORITHMS
    with pytest.raises(KeyError, match="did you mean 'magrpo'"):
        ALGORITHMS["magrp"]


def no_axis(returns: Any) -> Any:
    """One number for all groups, which numpy would subtract from each of them."""
    return returns.mean()


def no_keepdims(returns: Any) -> Any:
    return returns.mean(-1)


def kept(returns: Any) -> Any:
    return returns.mean(-1, keepdims=True)


def nothing(returns: Any) -> Any:
    return None


def infinite(returns: Any) -> Any:
    return np.full_like(returns, np.nan)


def ragged(returns: Any) -> Any:
    return [[1.0, 2.0], [3.0]]


@pytest.mark.parametrize("baseline", [no_axis, no_keepdims, kept, nothing, infinite, ragged])
def test_a_baseline_has_the_shape_of_the_returns(baseline: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=rf"the baseline '{baseline.__name__}' of 'mine' must"):
        Algorithm("mine", baseline=baseline)


def test_a_baseline_of_each_group_is_taken() -> None:
    def median(returns: Any) -> Any:
        return np.broadcast_to(np.median(returns, -1, keepdims=True), returns.shape)

    assert Algorithm("mine", baseline=median).name == "mine"
