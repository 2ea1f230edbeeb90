"""Cost of rollouts in completions and environment steps, computed before a run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from typing_extensions import Protocol, runtime_checkable

from llm_decpomdp.algorithms.rollouts.rollout import Start, TextEnv
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions, check_partners

MAX_JOINT_SAMPLES = (
    100_000  # joint samples of a start: a larger plan is refused as a likely mistake
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cost:
    """Cost of one start or several, if no episode ends before the horizon."""

    groups: int
    completions: int  # completions of each agent
    joint_samples: int  # steps of the environment

    def times(self, starts: int) -> Cost:
        """Return the cost of `starts` starts."""
        return Cost(*(starts * number for number in vars(self).values()))

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(add, vars(self).values(), vars(other).values()))

    def __str__(self) -> str:
        return f"{self.completions:,} completions of each agent and {self.joint_samples:,} joint samples"


def cost(
    options: RolloutOptions,
    group_size: int,
    num_agents: int,
    num_turns: int,
    *,
    comparator: bool = False,
) -> Cost:
    """Compute the cost of one start.

    With J joint samples of a group, a chain has one group a turn, T in all. In a tree every joint sample leads to
    a group: 1 + J + ... + J^(T-1) groups. G whole episodes have G groups of one completion on each later turn.
    Where another team plays beside, its part is a tree as well, or the first group of a chain.

    Raises:
        ValueError: If it is more than `MAX_JOINT_SAMPLES` joint samples; names them, and what to change. Or if an
            agent's partners have less than `num_partners` choices.
    """
    joint = joint_samples(options, group_size, num_agents)
    if options.plan == "episodes":
        groups, completions = 1 + group_size * (num_turns - 1), group_size * num_turns
        total = Cost(groups, completions, completions)
    else:
        tree = options.plan == "tree"
        groups = sum(joint**turn for turn in range(num_turns)) if tree else num_turns
        total = Cost(groups, groups * group_size, groups * joint)
    if total.joint_samples > MAX_JOINT_SAMPLES:
        raise ValueError(
            f"a {options.plan} of {num_turns} turns with G = {group_size} and {num_agents} agents "
            f"({options.joint_mode}) takes {total.completions:,} completions of each agent and "
            f"{total.joint_samples:,} steps of the environment for every start; more than "
            f"{MAX_JOINT_SAMPLES:,} is refused: use fewer turns, samples or partners, joint_mode=aligned or "
            "plan=chain"
        )
    if comparator:
        horizon = num_turns if options.plan == "tree" else 1
        total += cost(options, group_size, num_agents, horizon)
    return total


def joint_samples(options: RolloutOptions, group_size: int, num_agents: int) -> int:
    """Return the largest number of joint samples of a group."""
    crossed: int = group_size**num_agents
    if options.joint_mode == "common":
        check_partners(group_size, num_agents, options.num_partners)
        return min(crossed, options.num_partners * (1 + num_agents * (group_size - 1)))
    return crossed if options.joint_mode == "cross" else group_size


@runtime_checkable
class Bounded(Protocol):
    """An environment that tells its horizon."""

    @property
    def num_turns(self) -> int:
        """The horizon, in turns."""
        ...


class RunCost(NamedTuple):
    """Upper bounds of the cost of a single rollout, of the largest update and of all updates."""

    start: Cost
    update: Cost
    training: Cost


def run_cost(
    env: TextEnv,
    options: RolloutOptions,
    group_size: int,
    batches: Sequence[Sequence[Start]],
    *,
    comparator: bool = False,
) -> RunCost | None:
    """Compute upper bounds of the cost of a run; `None` where the environment does not tell its horizon.

    Args:
        env: The environment of training.
        options: The plan of its rollouts.
        group_size: Completions of each agent in a group (G).
        batches: The starts of each update.
        comparator: Whether another team plays beside that of the run.

    Raises:
        ValueError: If a rollout is absurdly large; names the number.
    """
    if not isinstance(env, Bounded):
        return None
    agents, rounds = len(env.possible_agents), 1 + options.refill
    start = cost(options, group_size, agents, env.num_turns, comparator=comparator)
    largest, total = (rounds * combine(map(len, batches)) for combine in (max, sum))
    return RunCost(start, start.times(largest), start.times(total))


def evaluation_cost(env: TextEnv, episodes: int) -> Cost | None:
    """Compute an upper bound of the cost of some episodes; `None` where the environment tells no horizon."""
    if not isinstance(env, Bounded):
        return None
    return cost(RolloutOptions(), 1, len(env.possible_agents), env.num_turns).times(episodes)


def announce(costs: RunCost | None, options: RolloutOptions, group_size: int, updates: int) -> None:
    """Log the cost of a run before it begins."""
    if costs is None:
        logger.warning(
            "the environment does not tell its horizon (num_turns), so the cost of a %s isn't known",
            options.plan,
        )
        return
    logger.info(
        "%s (%s), G = %d: each start takes at most %s; the largest update %s; all %d updates %s",
        options.plan,
        options.joint_mode,
        group_size,
        costs.start,
        costs.update,
        updates,
        costs.training,
    )
