"""What is known to go wrong in actor-critics for language models does not go wrong here: a test for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.critics.states import critic_text
from llm_decpomdp.algorithms.learning.advantages import group_advantages
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, View
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.metrics import evaluation_metrics
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.utils.storage import read_json_lines
from llm_decpomdp.utils.text import OMISSION
from studies.hypotheses.training import Noise
from tests.algorithms.conftest import END, EchoEnv
from tests.algorithms.critics.readers import HashedParts, reading_team
from tests.algorithms.critics.test_actor_critic import critic, learner, line
from tests.algorithms.critics.test_critic import StateEnv, chains
from tests.algorithms.runs import BATCHES, Run, make_team


def test_1_a_critic_of_actions_is_refused_and_no_advantage_falls_as_a_critic_becomes_right() -> (
    None
):
    with pytest.raises(ConfigError, match=r"critic_type.*is 0 for every action.*name=coma"):
        load_config(None, ["algorithm.critic_type=q"])
    one = critic(critic_gate=False)
    for reward in [1.0, 3.0] * 20:  # V learns the mean, which is all that there is to know
        one.assess([line([reward])])
        one.learn()
    (good,), _ = one.assess([line([3.0])])
    (bad,), _ = one.assess([line([1.0])])
    assert good["x"][0].item() > 0.8 and bad["x"][0].item() < -0.8


def test_2_a_centralised_critic_reads_the_state_and_no_agent_does() -> None:
    features, team = HashedParts(), make_team()
    starts, rng = [Start(seed=0)], np.random.default_rng(0)
    rollouts = collect_rollouts(StateEnv(2), team, starts, group_size=2, rng=rng, views=True)
    learner("maac", features).update(rollouts)
    assert all(text.startswith("[state]\nsecret of turn") for text in features.texts)
    prompts = [prompt for policy in team.values() for batch in policy.batches for prompt in batch]
    assert prompts and not any("secret" in prompt for prompt in prompts)


def test_3_returns_reach_over_turns_and_steps_of_old_samples_have_ratios() -> None:
    assert CriticOptions().critic_lambda == 0.95
    assert LearnerOptions(updates_per_batch=2).clip_bounds == (0.2, 0.2)
    one = learner("maac", updates_per_batch=2, learning_rate=1.0)
    one.update(chains(seed=0))
    metrics = one.update(chains(seed=1))
    assert metrics["clip_fraction/x"] > 0


def test_4_samples_come_from_the_distribution_whose_gradient_is_taken() -> None:
    assert (Sampling().temperature, Sampling().top_p, Sampling().top_k) == (1.0, 1.0, None)
    policy = tiny_causal_lm("ab", Sampling(temperature=0.6, max_new_tokens=4))
    (completions,) = policy.generate(["ab"], 4)
    log_probs, mask = policy.log_probs("ab", completions)
    for row, keep, completion in zip(log_probs, mask, completions, strict=True):
        sampled = row[keep.bool()].tolist()
        assert sampled == pytest.approx(list(completion.log_probs), abs=1e-4)


def test_5_the_end_of_a_completion_is_an_action_even_of_an_empty_one() -> None:
    policy = tiny_causal_lm("ab", Sampling(max_new_tokens=4))
    empty, letter = policy.encode_completion(""), policy.encode_completion("a")
    assert empty.text == "" and empty.tokens == letter.tokens[1:] == (END,)
    log_probs, mask = policy.log_probs("a", [empty, letter])
    assert mask.tolist() == [[1.0, 0.0], [1.0, 1.0]]
    log_probs[0, 0].backward()
    assert any(p.grad is not None and p.grad.any() for p in policy.parameters())


def test_6_no_episode_ends_early_unless_a_threshold_is_set() -> None:
    assert RolloutOptions().early_termination_threshold is None
    (rollout, *_) = chains(turns=2)
    assert len(rollout.groups) == 2 and not rollout.groups[0].stopped_early


def test_7_a_critic_of_the_team_learns_once_from_a_sample_toward_one_target() -> None:
    one = learner("maac", kl_coefficient=0.0)
    rollouts = chains(turns=1)
    one.update(rollouts)
    assert one.critic is not None
    (head,) = one.critic._heads.values()
    assert len(head._pairs) == len(rollouts)
    targets = [float(np.mean(rollout.groups[0].rewards)) for rollout in rollouts]
    assert head._pairs[:, 1].tolist() == pytest.approx(targets)


def test_8_the_last_agent_s_prompt_is_in_the_text_however_long_the_others_are() -> None:
    view = View("s" * 500, {"x": "a" * 500, "y": "last"})
    text, cut = critic_text("history+state", view, [], ["x", "y"], 50)
    assert cut == 2 and text.count(OMISSION) == 2
    assert text.endswith("[y sees]\nlast")


@pytest.mark.parametrize("size", [2, 3])
def test_9_rewards_of_agents_cannot_be_read_as_those_of_samples(size: int) -> None:
    class Torn(EchoEnv):
        def step(self, actions: dict[str, str]) -> Any:
            prompts, _, *others = super().step(actions)
            return prompts, {agent: float(n) for n, agent in enumerate(actions)}, *others

    with pytest.raises(ValueError, match="must earn the same"):
        chains(Torn(1), group_size=size)
    for rollout in chains(turns=1, group_size=size):
        assert len(rollout.groups[0].rewards) == size == len(rollout.groups[0].joint)


def test_10_an_evaluation_counts_the_final_reward_of_episodes_that_ended_before() -> None:
    def episode(*rewards: float) -> Rollout:
        return line(rewards)

    metrics = evaluation_metrics([episode(4.0), episode(1.0, 2.0), episode(1.0, 2.0)])
    assert metrics["turn_2/reward_mean"] == 2.0  # of those that got there,
    assert metrics["turn_2/groups"] / metrics["n"] == pytest.approx(2 / 3)  # a share that is told
    assert metrics["last/reward_mean"] == pytest.approx((4 + 2 + 2) / 3)


def test_11_a_sample_that_is_alone_in_its_turn_is_scaled_as_all_others_are() -> None:
    one = critic(critic_gate=False, trace=0.0)
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


def test_12_a_critic_that_fails_is_seen_and_is_not_followed() -> None:
    one = learner("maac", Noise(0), critic_learning_rate=0.5)
    for seed in range(4):
        metrics = one.update(chains(seed=seed))
    assert metrics["turn_1/explained_variance"] < 0 and metrics["turn_2/explained_variance"] < 0
    assert metrics["critic/gate"] == 0
    assert {"entropy/x", "critic/loss"} <= metrics.keys()


def test_13_critic_and_optimisers_go_on_from_checkpoints(tmp_path: Path) -> None:
    def trainer(folder: str, batches: Any) -> Run:
        return Run(
            tmp_path / folder,
            batches,
            LearnerOptions(learning_rate=0.05, critic_gate=False),
            TrainerOptions(group_size=1, checkpoint_every=2),
            env=StateEnv(2),
            team=reading_team(),
            algorithm="maac",
            eval_starts=[],
        )

    straight = trainer("straight", BATCHES)
    straight.run_updates()
    trainer("parts", BATCHES[:2]).run_updates()
    again = trainer("parts", BATCHES)
    assert again.resume() == 2
    assert again.learner.critic is not None and again.learner.critic._heads
    again.run_updates()
    weights, resumed = (
        [p.detach() for policy in one.learner.policies.values() for p in policy.parameters()]
        for one in (straight, again)
    )
    assert all(map(torch.equal, weights, resumed))
    rows = read_json_lines(tmp_path / "parts" / "metrics.jsonl")
    assert [row["update"] for row in rows] == [1, 2, 3, 4]
