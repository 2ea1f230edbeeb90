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
    """An environment that tells how long an episode can last."""

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
    """A rollout from each start, by the plan of the options."""
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


def play(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    at_a_time: int,
    rng: np.random.Generator,
    stopwatch: Stopwatch,
) -> list[Rollout]:
    """One episode from each start, `at_a_time` of them in step."""
    played: list[Rollout] = []
    for first in range(0, len(starts), at_a_time):
        some = starts[first : first + at_a_time]
        played += rollout_chains(env, team, some, group_size=1, rng=rng, stopwatch=stopwatch)
    return played


@dataclass(frozen=True)
class RunCost:
    """What a run costs at most."""

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
    options: TrainerOptions,
    batches: Sequence[Sequence[Start]],
    episodes: int,
) -> RunCost | None:
    """What a run will cost at most; `None` where the environment does not tell its horizon.

    Args:
        env: The environment.
        options: Of the run.
        batches: The starts of each update.
        episodes: Those of an evaluation.

    Raises:
        ValueError: If a rollout is absurdly large; names the number.
    """
    if not isinstance(env, Bounded):
        return None
    agents = len(env.possible_agents)
    one = cost(options.plan, options.joint_mode, options.group_size, agents, env.num_turns)
    return RunCost(
        start=one,
        update=one.scaled(max(map(len, batches))),
        training=one.scaled(sum(map(len, batches))),
        evaluations=cost("chain", "aligned", 1, agents, env.num_turns).scaled(
            options.evaluations(len(batches)) * episodes
        ),
    )


def announce(found: RunCost | None, options: TrainerOptions, updates: int) -> None:
    """Log what a run is going to cost, in the first of several processes."""
    if processes.rank() > 0:
        return
    if found is None:
        logger.warning(
            "the environment does not tell its horizon (num_turns), so the cost of a %s isn't known",
            options.plan,
        )
        return
    logger.info(
        "%s, G = %d: each start takes at most %s; the largest update %s; all %d updates %s; evaluations %s",
        *(f"{options.plan} ({options.joint_mode})", options.group_size, _words(found.start)),
        *(_words(found.update), updates, _words(found.training), _words(found.evaluations)),
    )


def _words(found: Cost) -> str:
    return (
        f"{found.completions:,} completions of each agent and {found.joint_samples:,} joint samples"
    )
