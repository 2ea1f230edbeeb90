"""The rollout plans of a run: which one grows, and what it will cost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import Protocol, runtime_checkable

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.chain import rollout_chains
from llm_decpomdp.algorithms.rollouts.cost import Cost, cost
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, Stopwatch
from llm_decpomdp.algorithms.rollouts.tree import rollout_trees
from llm_decpomdp.algorithms.training.options import TrainerOptions
from llm_decpomdp.policy import Team

logger = logging.getLogger(__name__)


@runtime_checkable
class Bounded(Protocol):
    """An environment that tells its horizon."""

    @property
    def num_turns(self) -> int:
        """The horizon, in turns."""
        ...


def roll_out(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    options: TrainerOptions,
    rng: np.random.Generator,
    stopwatch: Stopwatch,
) -> list[Rollout]:
    """Grow a rollout from each start, by the plan of the options."""
    if options.plan == "tree":
        return rollout_trees(
            env,
            team,
            starts,
            group_size=options.group_size,
            joint_mode=options.joint_mode,
            early_termination_threshold=options.early_termination_threshold,
            stopwatch=stopwatch,
        )
    return rollout_chains(
        env,
        team,
        starts,
        group_size=options.group_size,
        handoff=options.handoff,
        early_termination_threshold=options.early_termination_threshold,
        rng=rng,
        stopwatch=stopwatch,
    )


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
    options: TrainerOptions,
    batches: Sequence[Sequence[Start]],
    episodes: int,
) -> RunCost | None:
    """Compute upper bounds of the cost of a run; `None` where the environment does not tell its horizon.

    Args:
        env: The environment of training.
        eval_env: That of evaluations.
        options: Those of the run.
        batches: The starts of each update.
        episodes: Number of those of an evaluation.

    Raises:
        ValueError: If a rollout is absurdly large; names the number.
    """
    if not (isinstance(env, Bounded) and isinstance(eval_env, Bounded)):
        return None
    agents = len(env.possible_agents)
    start = cost(options.plan, options.joint_mode, options.group_size, agents, env.num_turns)
    return RunCost(
        start=start,
        update=start.scaled(max(map(len, batches))),
        training=start.scaled(sum(map(len, batches))),
        evaluations=cost("chain", "aligned", 1, agents, eval_env.num_turns).scaled(
            options.evaluations(len(batches)) * episodes
        ),
    )


def announce(costs: RunCost | None, options: TrainerOptions, updates: int) -> None:
    """Log the cost of a run before it begins, in the first of several processes."""
    if processes.rank() > 0:
        return
    if costs is None:
        logger.warning(
            "the environment does not tell its horizon (num_turns), so the cost of a %s isn't known",
            options.plan,
        )
        return
    logger.info(
        "%s, G = %d: each start takes at most %s; the largest update %s; all %d updates %s; evaluations %s",
        *(f"{options.plan} ({options.joint_mode})", options.group_size, _words(costs.start)),
        *(_words(costs.update), updates, _words(costs.training), _words(costs.evaluations)),
    )


def _words(bound: Cost) -> str:
    return (
        f"{bound.completions:,} completions of each agent and {bound.joint_samples:,} joint samples"
    )
