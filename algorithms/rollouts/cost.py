"""Cost of rollouts in completions and environment steps, computed before a run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import Protocol, runtime_checkable

from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.plans import RolloutOptions
from llm_decpomdp.algorithms.rollouts.rollout import Start

MAX_JOINT_SAMPLES = 100_000
"""Largest plan per start, in environment steps; a larger one is refused as a likely mistake."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cost:
    """Cost of one start or several, if no episode ends before the horizon."""

    groups: int
    completions: int
    """Completions of each agent."""
    joint_samples: int
    """Steps of the environment."""

    def scaled(self, starts: int) -> Cost:
        """Return the cost of `starts` starts."""
        return Cost(self.groups * starts, self.completions * starts, self.joint_samples * starts)

    def __str__(self) -> str:
        return f"{self.completions:,} completions of each agent and {self.joint_samples:,} joint samples"


def cost(plan: str, joint_mode: str, group_size: int, num_agents: int, num_turns: int) -> Cost:
    """Compute the cost of one start.

    A chain has one group a turn, T in all. In a tree every joint sample leads to a group: 1 + J + ... + J^(T-1)
    groups with J = G joint samples if aligned, and J = G^N if crossed.

    Raises:
        ValueError: If it is more than `MAX_JOINT_SAMPLES` joint samples; names them, and what to change.
    """
    joint = group_size**num_agents if (plan, joint_mode) == ("tree", "cross") else group_size
    groups = num_turns if plan == "chain" else sum(joint**turn for turn in range(num_turns))
    total = Cost(groups, groups * group_size, groups * joint)
    if total.joint_samples > MAX_JOINT_SAMPLES:
        raise ValueError(
            f"a {plan} of {num_turns} turns with G = {group_size} and {num_agents} agents ({joint_mode}) takes "
            f"{total.completions:,} completions of each agent and {total.joint_samples:,} steps of the "
            f"environment for every start; more than {MAX_JOINT_SAMPLES:,} is refused: use fewer turns or "
            "samples, joint_mode=aligned or plan=chain"
        )
    return total


@runtime_checkable
class Bounded(Protocol):
    """An environment that tells its horizon."""

    @property
    def num_turns(self) -> int:
        """The horizon, in turns."""
        ...


@dataclass(frozen=True)
class RunCost:
    """Upper bounds of the cost of a run."""

    start: Cost
    """A single rollout."""
    update: Cost
    """The largest update."""
    training: Cost
    """All updates."""
    evaluations: Cost
    """All evaluations."""


def run_cost(
    env: TextEnv,
    eval_env: TextEnv,
    options: RolloutOptions,
    group_size: int,
    batches: Sequence[Sequence[Start]],
    episodes: int,
) -> RunCost | None:
    """Compute upper bounds of the cost of a run; `None` where the environment does not tell its horizon.

    Args:
        env: The environment of training.
        eval_env: That of evaluations.
        options: The plan of its rollouts.
        group_size: Completions of each agent in a group (G).
        batches: The starts of each update.
        episodes: Number of those of all evaluations.

    Raises:
        ValueError: If a rollout is absurdly large; names the number.
    """
    if not (isinstance(env, Bounded) and isinstance(eval_env, Bounded)):
        return None
    agents = len(env.possible_agents)
    start = cost(options.plan, options.joint_mode, group_size, agents, env.num_turns)
    return RunCost(
        start=start,
        update=start.scaled(max(map(len, batches))),
        training=start.scaled(sum(map(len, batches))),
        evaluations=cost("chain", "aligned", 1, agents, eval_env.num_turns).scaled(episodes),
    )


def announce(costs: RunCost | None, options: RolloutOptions, group_size: int, updates: int) -> None:
    """Log the cost of a run before it begins."""
    if costs is None:
        logger.warning(
            "the environment does not tell its horizon (num_turns), so the cost of a %s isn't known",
            options.plan,
        )
        return
    logger.info(
        "%s (%s), G = %d: each start takes at most %s; the largest update %s; all %d updates %s; evaluations %s",
        *(options.plan, options.joint_mode, group_size, costs.start, costs.update),
        *(updates, costs.training, costs.evaluations),
    )
