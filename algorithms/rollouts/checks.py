"""Checks before anything is sampled: the cost of rollouts, starts in any order, and prompts that are too long."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from operator import add
from typing import NamedTuple

from typing_extensions import Protocol, runtime_checkable

from llm_decpomdp.algorithms.rollouts.rollout import Start, TextEnv, reset_branch
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.policy import (
    Policy,
    PromptTooLong,
    Team,
    continues_earlier,
    distinct_policies,
    policy_attribute,
)
from llm_decpomdp.validation import check_whole, unknown

# Joint samples of a start: a larger plan is refused as a likely mistake.
MAX_JOINT_SAMPLES = 100_000
MAX_NAMED = 10  # long prompts that a message names
# Starts in a row without a long prompt after which no more are looked at: a reset may run programs.
ENOUGH = 64

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
    opponent: bool = False,
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
    if options.mode == "episodes":
        # Episodes share the first group, and part after it.
        groups, completions = 1 + group_size * (num_turns - 1), group_size * num_turns
        total = Cost(groups, completions, completions)
    else:
        tree = options.mode == "tree"
        groups = sum(joint**turn for turn in range(num_turns)) if tree else num_turns
        total = Cost(groups, groups * group_size, groups * joint)
    if total.joint_samples > MAX_JOINT_SAMPLES:
        raise ValueError(
            f"a {options.mode} of {num_turns} turns with G = {group_size} and {num_agents} agents "
            f"({options.joint_mode}) takes {total.completions:,} completions of each agent and "
            f"{total.joint_samples:,} steps of the environment for every start; more than "
            f"{MAX_JOINT_SAMPLES:,} is refused: use fewer turns, samples or partners, joint_mode=aligned or "
            "rollout.mode=chain"
        )
    if opponent:
        horizon = num_turns if options.mode == "tree" else 1
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
    opponent: bool = False,
) -> RunCost | None:
    """Compute upper bounds of the cost of a run; `None` where the environment does not tell its horizon.

    Args:
        env: The environment of training.
        options: The mode of its rollouts.
        group_size: Completions of each agent in a group (G).
        batches: The starts of each update.
        opponent: Whether another team plays beside that of the run.

    Raises:
        ValueError: If a rollout is absurdly large; names the number.
    """
    if not isinstance(env, Bounded):
        return None
    agents, rounds = len(env.possible_agents), 1 + options.max_resample_rounds
    start = cost(options, group_size, agents, env.num_turns, opponent=opponent)
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
            "the environment does not tell its horizon (num_turns), so the cost of a rollout is not known"
        )
        return
    logger.info(
        "%s (%s), G = %d: each start takes at most %s; the largest update %s; all %d updates %s",
        options.mode,
        options.joint_mode,
        group_size,
        costs.start,
        costs.update,
        updates,
        costs.training,
    )


def check_team(env: TextEnv, team: Team, group_size: int) -> None:
    """Raise an error unless there is a policy for each agent, and something to sample."""
    # Numbers of numpy are whole numbers too, as in options.
    is_whole = isinstance(group_size, Integral) and not isinstance(group_size, bool)
    check_whole("group_size", int(group_size) if is_whole else group_size, 1)
    for agent, policy in team.items():
        if agent not in env.possible_agents:
            raise KeyError(unknown("agent", agent, env.possible_agents))
        lacks = [name for name in ("generate", "act") if not callable(getattr(policy, name, None))]
        # Rollouts call `generate` alone, but that of a model of transformers is another one.
        if "generate" in lacks or (lacks and hasattr(policy, "forward")):
            raise TypeError(
                f"the policy of {agent!r} needs the methods generate and act of llm_decpomdp.policy.Policy, and a "
                f"{type(policy).__name__} lacks {' and '.join(lacks)}: take that of load_policy(FOLDER), or a "
                "class of your own"
            )
    for agent in env.possible_agents:
        if agent not in team:
            raise KeyError(f"the team has no policy for agent {agent!r}; it has {sorted(team)}")


def check_starts(
    env: TextEnv, team: Team, starts: Sequence[Start], size: int | None, in_workers: bool
) -> None:
    """Check that rollout batches can be sampled in any order, and that first prompts are short enough.

    Args:
        env: The environment.
        team: A policy for each agent.
        starts: All starts of the run.
        size: The option `rollout_batch_size`.
        in_workers: Whether other processes share the rollout batches.

    Raises:
        ValueError: If other processes would sample a whole update each, if a policy continues from its earlier
            completions, if a start leaves the choice to the environment's running generator, or if a first prompt
            is too long for its policy.
    """
    if size is None and in_workers:
        raise ValueError(
            "rollout workers share the batches of an update, and without rollout_batch_size an update is one "
            "batch: set it, such as to a fraction of an update's starts"
        )
    for name, policy in distinct_policies(team).items():
        if size is not None and continues_earlier(policy):
            raise ValueError(
                f"rollout_batch_size={size} samples batches in any order, and the policy of {name}, a "
                f"{type(policy).__name__}, continues from its earlier completions: drop rollout_batch_size, or "
                "give the policy a method `seed` that restarts it"
            )
    if size is not None and Start() in starts:
        raise ValueError(
            f"rollout_batch_size={size} samples batches in any order, and a start with neither seed nor task_id "
            "is the environment's next random choice: give it a seed or a task_id, or drop rollout_batch_size"
        )
    require_short(env, team, starts)


class LongPrompt(NamedTuple):
    """The first prompt of an agent that is too long for its policy, which takes `limit` tokens."""

    start: Start
    agent: str
    tokens: int
    limit: int


def long_first_prompts(
    env: TextEnv, team: Team, starts: Iterable[Start], handling: str
) -> list[LongPrompt]:
    """List the first prompts that are too long, for the policies whose `on_long_prompt` is `handling`.

    Looks no further after `ENOUGH` starts in a row that fit, so pass the starts with the most text first. Starts
    that leave the choice to the environment's running generator are left out.
    """
    policies = {
        agent: policy
        for agent, policy in team.items()
        if policy_attribute(policy, "on_long_prompt") == handling
    }
    seeded = [start for start in dict.fromkeys(starts) if start != Start()] if policies else []
    prompts: list[LongPrompt] = []
    fitting = 0
    for start in seeded:
        if fitting >= ENOUGH:
            break
        before = len(prompts)
        _, texts = reset_branch(env, start)
        for agent, policy in policies.items():
            if agent not in texts:  # it waits, or joins later
                continue
            over = overflow(policy, texts[agent])
            if over is not None:
                prompts.append(LongPrompt(start, agent, *over))
        fitting = fitting + 1 if len(prompts) == before else 0
    return prompts


def describe_prompts(prompts: Sequence[LongPrompt]) -> str:
    """Describe the first ten, as in "mine/5: main_0 sees 15,562 tokens of at most 4,080"."""
    parts = [
        f"{label(prompt.start)}: {prompt.agent} sees {prompt.tokens:,} tokens of at most {prompt.limit:,}"
        for prompt in prompts[:MAX_NAMED]
    ]
    rest = len(prompts) - len(parts)
    return "; ".join([*parts, f"and {rest} more"] if rest else parts)


def label(start: Start) -> str:
    """Return the task of a start, or its seed."""
    return f"seed {start.seed}" if start.task_id is None else start.task_id


def require_short(env: TextEnv, team: Team, starts: Iterable[Start]) -> None:
    """Raise a `ValueError` if a first prompt is too long for a policy that would raise one when it samples."""
    prompts = long_first_prompts(env, team, starts, "raise")
    if prompts:
        raise ValueError(
            f"first prompts are too long: {describe_prompts(prompts)}. Shorten them, make room (a lower "
            "max_new_tokens, a higher max_prompt_tokens), or set on_long_prompt to skip or truncate_left"
        )


@contextmanager
def name_long_prompts(
    team: Team, starts: Sequence[Start], prompts: Sequence[Mapping[str, str]]
) -> Iterator[None]:
    """Add the start and the agent to the error of a prompt that is too long."""
    try:
        yield
    except PromptTooLong as error:
        for start, texts in zip(starts, prompts, strict=True):
            for agent, text in texts.items():
                if text == error.prompt and overflow(team[agent], text) is not None:
                    raise ValueError(f"{label(start)}, {agent}: {error}") from error
        raise


def overflow(policy: Policy, prompt: str) -> tuple[int, int] | None:
    """Return the tokens of a prompt that is too long, and those that would fit; `None` for any other."""
    count: Callable[[str], tuple[int, int] | None] | None = policy_attribute(policy, "overflow")
    return None if count is None else count(prompt)


def check_partners(group_size: int, num_agents: int, num_partners: int) -> None:
    """Raise a `ValueError` unless an agent's partners have so many choices: at most G^(N-1)."""
    choices = group_size ** (num_agents - 1)
    if not 1 <= num_partners <= choices:
        raise ValueError(
            f"num_partners must be from 1 to {choices:,}, the choices of {num_agents - 1} partners' "
            f"{group_size} completions, got {num_partners}"
        )
