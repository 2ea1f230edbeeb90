"""What is known to go wrong in actor-critics for language models does not go wrong here: a test for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms import ALGORITHMS, LearnerOptions, RolloutOptions
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.learning.advantages import group_advantages
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.runs.setup import load_config
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.critics.test_actor_critic import critic, learner, line
from tests.algorithms.critics.test_critic import chains


def test_a_critic_of_actions_is_refused_and_no_advantage_falls_as_a_critic_becomes_right() -> None:
    with pytest.raises(ConfigError, match=r"critic_type.*is 0 for every action.*name=coma"):
        load_config(None, ["algorithm.critic_type=q"])
    one = critic(gate=False)
    for reward in [1.0, 3.0] * 20:  # V learns the mean, which is all that there is to know
        one.assess([line([reward])])
        one.learn()
    (good,), _ = one.assess([line([3.0])])
    (bad,), _ = one.assess([line([1.0])])
    assert good["x"][0].item() > 0.8 and bad["x"][0].item() < -0.8


def test_returns_reach_over_turns_and_steps_of_old_samples_have_ratios() -> None:
    assert CriticOptions().td_lambda == 0.95
    assert LearnerOptions(num_iterations=2).objective.clip_bounds == (0.2, 0.2)
    one = learner("maac", num_iterations=2, learning_rate=1.0)
    one.update(chains(seed=0))
    metrics = one.update(chains(seed=1))
    assert metrics["clip_fraction/x"] > 0


def test_a_critic_of_the_team_learns_once_from_a_sample_toward_one_target() -> None:
    one = learner("maac", kl={"coefficient": 0.0})
    rollouts = chains(turns=1)
    one.update(rollouts)
    assert one.critic is not None
    (head,) = one.critic._heads.values()
    assert len(head._pairs) == len(rollouts)
    targets = [float(np.mean(rollout.groups[0].rewards)) for rollout in rollouts]
    assert head._pairs[:, 1].tolist() == pytest.approx(targets)


@pytest.mark.parametrize("size", [2, 3])
def test_rewards_of_agents_cannot_be_read_as_those_of_samples(size: int) -> None:
    class Torn(EchoEnv):
        def step(self, actions: dict[str, str]) -> Any:
            prompts, _, *others = super().step(actions)
            return prompts, {agent: float(n) for n, agent in enumerate(actions)}, *others

    with pytest.raises(ValueError, match="must earn the same"):
        chains(Torn(1), group_size=size)
    for rollout in chains(turns=1, group_size=size):
        assert len(rollout.groups[0].rewards) == size == len(rollout.groups[0].joint)


def test_a_sample_that_is_alone_in_its_turn_is_scaled_as_all_others_are() -> None:
    one = critic(gate=False, trace=0.0)
    one.assess([line([0.0, 0.0])])
    one.learn()
    batch = [line([100.0, 5.0]), line([50.0])]
    outlooks, _ = one.assess(batch)
    found = list(group_advantages(batch, ["x"], ALGORITHMS["iac"], LearnerOptions(), 0.0, outlooks))
    by_start = [float(credit.advantages["x"][0]) for credit in found]
    assert by_start == pytest.approx([100.0, 5.0, 50.0], abs=1e-5)
    with pytest.raises(ValueError, match="one completion has none"):
        ALGORITHMS["iac"].check_rollouts(
            "x", LearnerOptions(normalize_advantages=True), RolloutOptions(), 1
        )
