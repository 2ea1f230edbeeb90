"""COMA: what another answer of one agent would have been worth, as the critic sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS, LearnerOptions, Rollout, RolloutOptions
from llm_decpomdp.algorithms.critics.counterfactual import ANSWERS, CounterfactualCritic
from llm_decpomdp.algorithms.critics.options import CriticOptions
from studies.hypotheses.training import Noise
from tests.algorithms.critics.readers import HashedParts
from tests.algorithms.critics.test_actor_critic import learner
from tests.algorithms.critics.test_critic import chains, equal

WORTH = {"x": 1.0, "y": 10.0}
"""Value of a letter `a` of each agent."""


class Letters:
    """Number of letters `a` in each agent's answer, and whether both have one."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        self.texts += texts
        return torch.tensor([self.of(text) for text in texts])

    def of(self, text: str) -> list[float]:
        x, y = (text.partition(f"[{agent} answers]")[2].partition("[")[0] for agent in "xy")
        x, y = float(x.count("a")), float(y.count("a"))
        return [x, y, float(x > 0 < y)]


def worth(text: str) -> float:
    x, y, both = Letters().of(text)
    return WORTH["x"] * x + WORTH["y"] * y + 5 * both


def exact(both: float = 5.0) -> CounterfactualCritic:
    """A critic whose head knows what answers are worth."""
    settings = CriticOptions(scope="joint", gate=False)
    critic = CounterfactualCritic(settings, {"team": Letters()}, ["x", "y"], discount=1.0)
    critic.assess(chains(turns=1))
    critic.learn()
    head = critic._heads[ANSWERS, 0]
    scale = head._inputs.deviation / head._targets.deviation.float()
    with torch.no_grad():
        head.weight.copy_(torch.tensor([WORTH["x"], WORTH["y"], both]) * scale)
    return critic


def text(rollout: Rollout, x: int, y: int) -> str:
    group = rollout.groups[0]
    answers = {"x": group.completions["x"][x].text, "y": group.completions["y"][y].text}
    return "\n\n".join(f"[{agent} answers]\n{answer}" for agent, answer in answers.items())


def test_advantages_are_those_of_the_formula_with_the_agent_s_own_samples() -> None:
    rollouts = chains(turns=1, seed=5)
    outlooks, metrics = exact().assess(rollouts)
    assert metrics["critic/counterfactual"] == 1
    for rollout, outlook in zip(rollouts, outlooks, strict=True):
        table = np.array([[worth(text(rollout, x, y)) for y in range(4)] for x in range(4)])
        assert outlook["x"][0] == pytest.approx(table.diagonal() - table.mean(0), abs=1e-4)
        assert outlook["y"][0] == pytest.approx(table.diagonal() - table.mean(1), abs=1e-4)


def test_the_luck_of_partners_is_in_no_advantage_where_the_critic_is_right() -> None:
    rollouts = chains(turns=1, seed=5)
    outlooks, _ = exact(both=0.0).assess(rollouts)  # a letter of y is worth ten of x
    for rollout, outlook in zip(rollouts, outlooks, strict=True):
        said = np.array([c.text.count("a") for c in rollout.groups[0].completions["x"]])
        assert outlook["x"][0] == pytest.approx(said - said.mean(), abs=1e-4)


def test_an_agent_that_always_says_the_same_gains_nothing_where_the_critic_counts() -> None:
    critic, rollouts = exact(), []
    for rollout in chains(turns=1, seed=5):
        (group,) = rollout.groups
        said = {**group.completions, "x": group.completions["x"][:1] * 4}
        rollouts.append(replace(rollout, groups=(replace(group, completions=said),)))
    outlooks, _ = critic.assess(rollouts)
    assert all(outlook["x"][0].tolist() == [0.0] * 4 for outlook in outlooks)
    assert any(outlook["y"][0].any() for outlook in outlooks)


def test_it_reads_each_answer_beside_the_partners_that_were_played_and_equal_texts_once() -> None:
    features = HashedParts(size=16)
    critic = CounterfactualCritic(
        CriticOptions(scope="joint"), {"team": features}, ["x", "y"], discount=1.0
    )
    _, metrics = critic.assess(chains(turns=1))
    read = features.texts
    assert len(read) == len(set(read)) == metrics["critic/answer_texts"] <= 8 * 4 * (1 + 2 * 3)
    assert all("secret of turn 0" in one for one in read)
    assert any(one.endswith("[x answers]\nab\n\n[y answers]\na") for one in read)


def test_where_the_critic_explains_nothing_the_step_is_that_of_magrpo_to_the_last_bit() -> None:
    coma, magrpo = learner("coma", Noise(0)), learner("magrpo")
    for seed in range(3):
        metrics = coma.update(chains(turns=1, seed=seed))
        magrpo.update(chains(turns=1, seed=seed))
        assert metrics["critic/counterfactual"] == 0
    assert equal(coma, magrpo)


def test_a_critic_that_tells_states_apart_and_no_answers_does_not_count() -> None:
    def state(texts: Sequence[str]) -> torch.Tensor:
        return torch.tensor([[float("[x sees]\na" in one), 1.0] for one in texts])

    one = learner("coma", state, learning_rate=0.0, critic={"learning_rate": 0.1})
    for seed in range(4):
        metrics = one.update(chains(turns=1, seed=seed))
    assert metrics["turn_1/explained_differences"] == 0 == metrics["critic/counterfactual"]


def test_a_critic_of_answers_learns_what_they_are_worth_and_then_counts() -> None:
    one = learner("coma", Letters(), learning_rate=0.0, critic={"learning_rate": 0.1})
    for seed in range(20):
        metrics = one.update(chains(turns=1, seed=seed))
    assert metrics["turn_1/explained_differences"] > 0.9 and metrics["critic/counterfactual"] == 1
    rollouts = chains(turns=1, seed=99)
    assert one.critic is not None
    outlooks, _ = one.critic.assess(rollouts)
    for rollout, outlook in zip(rollouts, outlooks, strict=True):
        said = [float(c.text.count("a")) for c in rollout.groups[0].completions["x"]]
        assert outlook["x"][0] == pytest.approx(np.array(said) - np.mean(said), abs=0.5)


def test_joint_samples_that_are_not_aligned_are_refused() -> None:
    with pytest.raises(ValueError, match="joint_mode='aligned'"):
        learner("coma").update(
            chains(turns=1, options=RolloutOptions(joint_mode="cross"), group_size=2)
        )
    with pytest.raises(ValueError, match="joint_mode=cross plays them: set joint_mode=aligned"):
        ALGORITHMS["coma"].check_rollouts(
            "xy", LearnerOptions(), RolloutOptions(joint_mode="cross"), 4
        )


def test_more_texts_than_a_model_should_read_are_refused_with_their_number() -> None:
    coma = ALGORITHMS["coma"]
    coma.check_rollouts("xy", LearnerOptions(), RolloutOptions(), 32)
    with pytest.raises(ValueError, match=r"read 8,128 texts for each group; more than 4,096"):
        coma.check_rollouts("xy", LearnerOptions(), RolloutOptions(), 64)
