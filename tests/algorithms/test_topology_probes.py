"""Learners solve the probes of team topologies, and own points teach a verifier sooner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from llm_decpomdp import make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.seeding import stream


def learn(
    probe: str,
    updates: int,
    *,
    group_size: int = 16,
    tasks: int = 0,
    seed: int = 0,
    history: str = "none",
    **options: Any,
) -> float:
    """Train whole episodes from all tasks, or `tasks` of them, and return the mean return of 192 episodes."""
    env = make(probe)
    team = {
        agent: tiny_causal_lm(
            "abc",
            Sampling(max_new_tokens=2),
            seed=int(stream(seed, "policy", agent).integers(2**32)),
            history=history,
        )
        for agent in env.possible_agents
    }
    settings = LearnerOptions(
        learning_rate=4e-3,
        max_grad_norm=0.3,
        lr_schedule="linear",
        total_updates=updates,
        **options,
    )
    learner = ALGORITHMS["marloo"].make_learner(team, settings, seed)
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    episodes, rng = RolloutOptions(mode="episodes"), stream(seed, "rollouts")
    for update in range(updates):
        drawn = stream(seed, "starts", update).permutation(len(starts))[: tasks or None]
        batch = [starts[int(index)] for index in sorted(drawn)]
        learner.update(collect_rollouts(env, team, batch, episodes, group_size=group_size, rng=rng))
    rollouts = play_episodes(env, team, starts * (192 // len(starts)))
    return float(np.mean([sum(group.rewards[0] for group in r.groups) for r in rollouts]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "probe", ["probe-relay-turns-v0", "probe-early-exit-v0", "probe-late-entry-v0"]
)
def test_agents_that_wait_leave_or_join_learn_what_pays_later(probe: str) -> None:
    assert learn(probe, 40) > 0.85


@pytest.mark.slow
def test_own_points_teach_a_verifier_before_the_team_is_paid() -> None:
    quick = {"group_size": 4, "tasks": 4}
    assert learn("probe-verifier-v0", 20, own_weight=1.0, **quick) > 0.6
    assert learn("probe-verifier-v0", 20, **quick) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_an_agent_remembers_with_a_history_and_not_without(seed: int) -> None:
    assert learn("probe-memory-v0", 60, seed=seed, history="chat") >= 0.9
    assert abs(learn("probe-memory-v0", 20, seed=seed)) < 0.2
