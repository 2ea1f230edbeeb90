"""Update of a team from end to end; it runs in a process of its own (see `host.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from llm_decpomdp.agents.loading import load_team
from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.algorithms.training.metrics import count_tokens
from llm_decpomdp.policy import Policy
from tools.performance.models import workload
from tools.performance.models.workload import Case

OPTIONS = LearnerOptions(learning_rate=1e-6, max_grad_norm=1.0)

LORA = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}

PARTS = {"sampling": "sampling", "stepping": "reward", "learning": "learning"}


def ours(**arguments: Any) -> Iterator[dict[str, Any]]:
    """Update by MAGRPO on CoopHumanEval, once for each task."""
    case = Case(**arguments)
    env = workload.environment()
    team = build_team(case, env.possible_agents)
    try:
        yield from updates(env, team, [Start(task_id=task) for task in case.tasks], case.group_size)
    finally:
        env.close()


def credited(
    critic: dict[str, Any], joint: dict[str, Any], turns: int, **arguments: Any
) -> Iterator[dict[str, Any]]:
    """Update by MAGRPO over turns, with options of a critic and of joint samples."""
    case = Case(**arguments)
    env = workload.environment(turns)
    team = build_team(case, env.possible_agents)
    starts = [Start(task_id=task) for task in case.tasks]
    options = replace(OPTIONS, **critic)
    try:
        yield from updates(env, team, starts, case.group_size, options, views=bool(critic), **joint)
    finally:
        env.close()


def build_team(case: Case, agents: Sequence[str]) -> dict[str, Policy]:
    """Return a policy for each agent."""
    adapters, shared = case.weights == "adapters", case.weights == "shared"
    spec = PolicySpec(
        name=case.model,
        max_new_tokens=case.new_tokens,
        compute_dtype=case.dtype,
        device=case.device,
        lora=LORA if adapters else None,
    )
    names = {agent: "all" if shared else agent for agent in agents}
    return load_team(names, dict.fromkeys(names.values(), spec))


def updates(
    env: TextEnv,
    team: dict[str, Policy],
    starts: Sequence[Start],
    group_size: int,
    options: LearnerOptions = OPTIONS,
    **ways: Any,
) -> Iterator[dict[str, Any]]:
    """Make an update for each start, and yield its tokens and times; `ways` as of `collect_rollouts`."""
    learner = Learner(team, ALGORITHMS["magrpo"], options)
    for start in starts:
        timer = Timer()
        settings = {"group_size": group_size, "rng": np.random.default_rng(0), **ways}
        rollouts = collect_rollouts(env, team, [start], timer=timer, **settings)
        with timer("learning"):
            learner.update([with_signal(rollout) for rollout in rollouts])
        parts = {PARTS[name]: seconds for name, seconds in timer.seconds.items()}
        yield {"units": count_tokens(rollouts), "parts": parts}


def with_signal(rollout: Rollout) -> Rollout:
    """Return the rollout with rewards that alternate: groups of equal rewards are skipped, and cost nothing."""
    groups = [
        replace(group, rewards=tuple(float(index % 2) for index in range(len(group.rewards))))
        for group in rollout.groups
    ]
    return replace(rollout, groups=tuple(groups))
