"""A chain hands on a secret, which pays only later, with a critic and not without one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from llm_decpomdp import make
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.plans import rollout_chains
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.envs.probes.horizon import SECRETS
from llm_decpomdp.seeding import stream
from tests.algorithms.conftest import TinyPolicy
from tests.algorithms.critics.readers import HashedParts

EVALUATION_EPISODES = 128


class Table(torch.nn.Module):
    """Probabilities of a single letter by the first letter of a prompt, or for any that is longer."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(letters + 1, letters + 1))

    def forward(self, prompt: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        row = int(prompt[0]) if len(prompt) == 1 else 0
        return self.logits[row].expand(len(tokens), tokens.shape[1] + 1, -1)


def relay_value(
    *,
    length: int,
    critic: str,
    updates: int,
    learning_rate: float,
    seed: int,
    group_size: int = 32,
    mode: str = "aligned",
) -> float:
    """Train a team on the relay; the mean reward that its episodes end with afterwards."""
    env = make("probe-relay-v0", length=length)
    team = {agent: TinyPolicy(Table(len(SECRETS)), SECRETS, 1) for agent in env.possible_agents}
    for agent, policy in team.items():
        policy.seed(int(stream(seed, agent).integers(2**32)))
    options = {"critic": critic, "critic_learning_rate": 0.01} if critic != "none" else {}
    learner = Learner(
        team,
        ALGORITHMS["magrpo"],
        LearnerOptions(learning_rate=learning_rate, **options),
        HashedParts(),
    )
    rng, starts = stream(seed, "handoff"), [Start(task_id=f"relay/{secret}") for secret in SECRETS]
    for _ in range(updates):
        views = learner.critic is not None
        learner.update(
            rollout_chains(
                env,
                team,
                starts,
                group_size=group_size,
                joint_mode=mode,
                rng=rng,
                views=views,
            )
        )
    episodes = starts * (EVALUATION_EPISODES // len(starts))
    played = rollout_chains(env, team, episodes, group_size=1, rng=rng)
    return float(np.mean([chain.groups[-1].rewards[0] for chain in played]))


def test_a_secret_is_handed_on_over_two_turns_with_a_critic() -> None:
    assert relay_value(length=2, critic="joint", updates=80, learning_rate=0.1, seed=0) >= 0.9


def test_without_a_critic_nothing_is_handed_on_but_by_luck_of_the_partners() -> None:
    value = relay_value(
        length=2, critic="none", updates=60, learning_rate=0.1, seed=0, group_size=6, mode="cross"
    )
    assert value <= 0.4


@pytest.mark.slow
def test_a_secret_is_handed_on_over_four_turns_more_often_than_not() -> None:
    assert relay_value(length=4, critic="joint", updates=200, learning_rate=0.1, seed=0) >= 0.5
