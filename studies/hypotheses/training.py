"""Training of tabular teams on probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts, play_episodes
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.parts import ProbeTask
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream
from studies.hypotheses.features import HashedParts
from studies.hypotheses.tabular import TabularPolicy

LEARNING_RATE = 0.3
"""Of AdamW on logits, where an experiment says nothing else; it falls linearly."""

EPISODES = 192
"""Episodes of an evaluation, shared by all tasks."""

Watch = Callable[[int, Mapping[str, float]], bool]
"""Sees the number of updates and the metrics of the last one; true ends the training."""


def make_team(
    env: DecPOMDPEnv, letters: Sequence[str], seed: int, spread: float = 0.0
) -> dict[str, TabularPolicy]:
    """Return new policies that say a letter (or a longer answer, if `letters` is a list of such), or nothing."""
    return {
        agent: TabularPolicy(
            [*letters, ""], int(stream(seed, "policy", agent).integers(2**32)), spread
        )
        for agent in env.possible_agents
    }


def train(
    env: DecPOMDPEnv,
    team: Team,
    *,
    seed: int,
    updates: int,
    group_size: int = 8,
    algorithm: str = "magrpo",
    rollouts: RolloutOptions | None = None,
    options: LearnerOptions | None = None,
    starts: int = 1,
    watch: Watch | None = None,
) -> None:
    """Train a team on all tasks of a probe, each `starts` times an update."""
    options = replace(
        options or LearnerOptions(learning_rate=LEARNING_RATE),
        lr_schedule="linear",
        total_updates=updates,
        discount=env.discount,
    )
    learner = Learner(dict(team), ALGORITHMS[algorithm], options, HashedParts())
    episodes, rng = every_start(env) * starts, stream(seed, "handoff")
    for update in range(1, updates + 1):
        batch = collect_rollouts(
            env,
            team,
            episodes,
            rollouts or RolloutOptions(),
            group_size=group_size,
            rng=rng,
            views=learner.critic is not None,
        )
        metrics = learner.update(batch)
        if watch is not None and watch(update, metrics):
            return


def value(env: DecPOMDPEnv, team: Team) -> float:
    """Return the mean sum of rewards of `EPISODES` episodes."""
    starts = every_start(env)
    rollouts = play_episodes(env, team, starts * (EPISODES // len(starts)))
    return float(
        np.mean([sum(group.rewards[0] for group in rollout.groups) for rollout in rollouts])
    )


def tasks(env: DecPOMDPEnv) -> list[ProbeTask]:
    """Return the tasks of a probe."""
    return [task for task in env.tasks.tasks if isinstance(task, ProbeTask)]


def every_start(env: DecPOMDPEnv) -> list[Start]:
    """Return a start of each task."""
    return [Start(task_id=task.task_id) for task in env.tasks.tasks]
