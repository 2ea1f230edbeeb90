"""A chain hands on a secret, which pays only later, with a critic and not without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp import make
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.envs.probes.horizon import SECRETS
from llm_decpomdp.seeding import stream
from tests.algorithms.conftest import TinyPolicy
from tests.algorithms.critics.readers import HashedParts

EVALUATION_EPISODES = 128


class Table(torch.nn.Module):
    """Probabilities of a single letter by the first letter of a prompt, or for any that is longer.

    Over many turns `spread`, by which logits differ at first, matters. If all letters were equally likely, what
    an agent writes would say nothing about the secret, and nobody would gain by listening to it: the gradient
    grows with the product of what all agents let through.
    """

    def __init__(self, letters: int, spread: float, generator: torch.Generator) -> None:
        super().__init__()
        logits = torch.randn(letters + 1, letters + 1, generator=generator)
        self.logits = torch.nn.Parameter(spread * logits)

    def forward(self, prompt: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        row = int(prompt[0]) if len(prompt) == 1 else 0
        return self.logits[row].expand(len(tokens), tokens.shape[1] + 1, -1)


def relay_value(
    length: int,
    rollouts: RolloutOptions,
    *,
    spread: float = 0.0,
    starts: int = 1,
    group_size: int,
    updates: int,
    learning_rate: float,
    seed: int = 0,
    **critic: Any,
) -> float:
    """Train a team on the relay of two secrets; the mean reward that its episodes end with afterwards.

    `starts` are those of an update with each secret; the learning rate falls linearly.
    """
    env = make("probe-relay-v0", length=length, num_secrets=2)
    team = {}
    for agent in env.possible_agents:
        generator = torch.Generator().manual_seed(_seed(seed, "start", agent))
        table = Table(len(SECRETS), spread, generator)
        team[agent] = TinyPolicy(table, SECRETS, 1)
        team[agent].seed(_seed(seed, agent))
    options = LearnerOptions(
        learning_rate=learning_rate, lr_schedule="linear", total_updates=updates, **critic
    )
    learner = Learner(team, ALGORITHMS["magrpo"], options, HashedParts())
    secrets = [Start(task_id=f"relay/{secret}") for secret in SECRETS[:2]]
    rng, views = stream(seed, "handoff"), learner.critic is not None
    for _ in range(updates):
        played = collect_rollouts(
            *(env, team, secrets * starts, rollouts), group_size=group_size, rng=rng, views=views
        )
        learner.update(played)
    episodes = secrets * (EVALUATION_EPISODES // 2)
    played = collect_rollouts(env, team, episodes, RolloutOptions(), group_size=1, rng=rng)
    return float(np.mean([chain.groups[-1].rewards[0] for chain in played]))


def _seed(seed: int, *names: str) -> int:
    return int(stream(seed, *names).integers(2**32))


CHAIN = RolloutOptions()
CRITIC: dict[str, Any] = {"critic": "joint", "critic_learning_rate": 0.01}


TWO_TURNS: dict[str, Any] = {"starts": 2, "updates": 50, "learning_rate": 0.3}


def test_a_secret_is_handed_on_over_two_turns_with_a_critic() -> None:
    assert relay_value(2, CHAIN, group_size=8, **TWO_TURNS, **CRITIC) >= 0.9


@pytest.mark.slow
def test_without_a_critic_nothing_is_handed_on_but_by_luck_of_the_partners() -> None:
    crossed = RolloutOptions(joint_mode="cross")
    assert relay_value(2, crossed, group_size=4, **TWO_TURNS) <= 0.4


# Three of the seeds 0 to 4 learn it, and four of tables without letters that cannot be handed on (studies/LOG.md).
FOUR_TURNS: dict[str, Any] = {"spread": 1.0, "updates": 400, "learning_rate": 0.05}


@pytest.mark.slow
def test_a_secret_is_handed_on_over_four_turns_with_a_critic() -> None:
    assert relay_value(4, CHAIN, starts=4, group_size=8, **FOUR_TURNS, **CRITIC) >= 0.9


@pytest.mark.slow
def test_nothing_is_handed_on_over_four_turns_by_a_chain() -> None:
    assert relay_value(4, CHAIN, starts=4, group_size=8, **FOUR_TURNS) <= 0.3
