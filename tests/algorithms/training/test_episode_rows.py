from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.training.metrics import evaluation_metrics, reward_metrics
from llm_decpomdp.policy import Completion


def chain(*turns: Sequence[float], key: str = "reward/a", stopped_early: bool = False) -> Rollout:
    groups = [
        Group(
            turn=index,
            parent=Parent(index - 1, 0) if index else None,
            prompts={},
            completions={"x": (Completion("a"), Completion("b", finish_reason="length"))},
            joint=((0,), (1,)),
            rewards=tuple(rewards),
            infos=tuple({key: reward, "turn": 1.0} for reward in rewards),
            chosen=0,
            stopped_early=stopped_early and index == len(turns) - 1,
        )
        for index, rewards in enumerate(turns)
    ]
    return Rollout(Start(), tuple(groups))


def test_metrics_are_means_in_which_every_chain_counts_the_same() -> None:
    long = chain([0.0, 2.0], [3.0, 5.0], stopped_early=True)
    short = chain([1.0, 1.0])
    metrics = reward_metrics([long, short])
    assert metrics["reward_mean"] == metrics["reward/a"] == pytest.approx((2.5 + 1.0) / 2)
    assert metrics["turn_1/reward_mean"] == 1.0
    assert (metrics["turn_2/reward_mean"], metrics["turn_2/groups"]) == (4.0, 1)
    assert metrics["last/reward_mean"] == 2.5
    assert metrics["reward_std"] == pytest.approx(np.std([0, 2, 3, 5, 1, 1]))
    assert metrics["stopped_early"] == 0.5
    assert "turn" not in metrics
    assert metrics["truncated/x"] == 0.5


def test_a_first_episode_that_ended_early_hides_nothing_of_the_others() -> None:
    short, long = chain([4.0]), chain([1.0], [3.0])
    metrics = evaluation_metrics([short, long])
    assert metrics == pytest.approx(evaluation_metrics([long, short]))
    assert (metrics["turn_2/reward_mean"], metrics["turn_2/groups"]) == (
        3.0,
        1,
    )  # nothing is padded
    assert metrics["last/reward_mean"] == 3.5


def test_evaluations_have_the_standard_error_of_independent_chains() -> None:
    chains = [chain([r]) for r in (1.0, 2.0, 6.0)]
    metrics = evaluation_metrics(chains)
    assert metrics["reward_standard_error"] == pytest.approx(np.sqrt(7.0) / np.sqrt(3))
    assert evaluation_metrics(chains[:1])["reward_standard_error"] is None


def test_infos_that_some_steps_lack_are_left_out() -> None:
    chains = [chain([1.0], key=key) for key in ("reward/a", "reward/b")]
    assert "reward/a" not in reward_metrics(chains)
