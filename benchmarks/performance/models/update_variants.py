"""Update of a team from end to end; it runs in a process of its own (see `host.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from llm_decpomdp.agents.inference.sampling import Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.plans import rollout_chains
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Stopwatch
from llm_decpomdp.algorithms.training.metrics import count_tokens
from llm_decpomdp.benchmarks.performance.models import workload
from llm_decpomdp.policy import Policy

OPTIONS = LearnerOptions(learning_rate=1e-6, max_grad_norm=1.0)

LORA = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}

PARTS = {"sampling": "sampling", "stepping": "reward", "learning": "learning"}


def ours(
    model: str,
    tasks: Sequence[str],
    group_size: int,
    new_tokens: int,
    dtype: str,
    device: str,
    weights: str,
) -> Iterator[dict[str, Any]]:
    """Update by MAGRPO on CoopHumanEval, once for each task.

    Args:
        model: Folder of the model.
        tasks: Task of the update that isn't counted, then of the one that is.
        group_size: Joint samples (G).
        new_tokens: Tokens of a completion.
        dtype: Type that the model computes in.
        device: Place of the weights.
        weights: `own` (a model for each agent), `shared` (one for all), or `adapters` (one, with an
            adapter for each).
    """
    env = workload.environment()
    team = build_team(
        model, env.possible_agents, Sampling(max_new_tokens=new_tokens), dtype, device, weights
    )
    try:
        yield from updates(env, team, [Start(task_id=task) for task in tasks], group_size)
    finally:
        env.close()


def build_team(
    model: str, agents: Sequence[str], sampling: Sampling, dtype: str, device: str, weights: str
) -> dict[str, Policy]:
    """Return a policy for each agent."""
    if weights == "adapters":
        from llm_decpomdp.agents.models.adapters import adapter_policies

        policies = adapter_policies(
            model,
            dict.fromkeys(agents, LORA),
            dict.fromkeys(agents, sampling),
            compute_dtype=dtype,
            device=device,
            seeds={agent: number for number, agent in enumerate(agents)},
        )
        return dict(policies)
    number = 1 if weights == "shared" else len(agents)
    models = [
        CausalLM.from_pretrained(model, sampling, compute_dtype=dtype, device=device, seed=seed)
        for seed in range(number)
    ]
    return {agent: models[index % number] for index, agent in enumerate(agents)}


def updates(
    env: TextEnv, team: dict[str, Policy], starts: Sequence[Start], group_size: int
) -> Iterator[dict[str, Any]]:
    """Make an update for each start, and yield its tokens and times."""
    learner = Learner(team, ALGORITHMS["magrpo"], OPTIONS)
    for start in starts:
        clock = Stopwatch()
        rollouts = rollout_chains(
            env, team, [start], group_size=group_size, rng=np.random.default_rng(0), stopwatch=clock
        )
        with clock("learning"):
            learner.update([with_signal(rollout) for rollout in rollouts])
        parts = {PARTS[name]: seconds for name, seconds in clock.seconds.items()}
        yield {"units": count_tokens(rollouts), "parts": parts}


def with_signal(rollout: Rollout) -> Rollout:
    """Return the rollout with rewards that alternate: groups of equal rewards are skipped, and cost nothing."""
    groups = [
        replace(group, rewards=tuple(float(index % 2) for index in range(len(group.rewards))))
        for group in rollout.groups
    ]
    return replace(rollout, groups=tuple(groups))
