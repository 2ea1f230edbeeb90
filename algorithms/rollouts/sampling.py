"""Sampling: the completions of a team in some states, by its own policies or by any other `Act`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain

from llm_decpomdp.algorithms.rollouts.lanes import ask_in_lanes
from llm_decpomdp.algorithms.rollouts.rollout import Completions, TextEnv
from llm_decpomdp.policy import (
    Completion,
    Policy,
    Team,
    policy_attribute,
    reads_history,
    shared_engine,
)
from llm_decpomdp.validation import unknown

MAX_ROWS = 256  # completions of one batch, unless a single prompt asks for more: bounds its memory

Prompts = Mapping[str, str]
"""The prompt of each agent."""


@dataclass
class Timer:
    """Seconds spent, by activity."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        """Add the time of a `with` block to `activity`."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begin
            self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds


@dataclass(frozen=True)
class Move:
    """The move of a team in one state."""

    prompts: dict[str, str]  # the prompt of each agent, as it stood when the agent answered
    completions: Completions  # the group of each agent, which is played
    drafts: tuple[Completions, ...] = ()
    """Earlier answers to these prompts, which are not played; their tokens count."""

    @property
    def size(self) -> int:
        """Number of completions of each agent."""
        return len(next(iter(self.completions.values())))


Act = Callable[[Team, Sequence[TextEnv], Sequence[Prompts], Timer], list[Move]]
"""Goes from states and their prompts to a move in each; adds the seconds of the agents to the timer."""


def sampling(group_size: int) -> Act:
    """Let every policy sample its groups at once, and count the seconds as `sampling`."""

    def act(
        team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], timer: Timer
    ) -> list[Move]:
        with timer("sampling"):
            samples = sample(team, envs, prompts, group_size)
        return [Move(dict(texts), groups) for texts, groups in zip(prompts, samples, strict=True)]

    return act


def sample(
    team: Team,
    envs: Sequence[TextEnv],
    prompts: Sequence[Prompts],
    group_size: int,
) -> list[Completions]:
    """Sample G completions for each state and agent; one batch for each policy or engine, if not too large.

    Servers are asked at the same time, and so are models on different devices. `envs` and `prompts` have the
    environment, and the prompts of the agents, in each of the states.

    Raises:
        ValueError: If a policy returns another number of completions.
    """
    samples: list[Completions] = [{} for _ in prompts]
    players = [
        {agent: playing_policy(team[agent], envs, state) for agent in texts}
        for state, texts in enumerate(prompts)
    ]

    def ask(policies: Sequence[Policy]) -> tuple[list[tuple[int, str]], list[list[Completion]]]:
        rows = [
            (state, agent)
            for state, texts in enumerate(prompts)
            for agent in texts
            if any(players[state][agent] is policy for policy in policies)
        ]
        size = max(1, MAX_ROWS // group_size)
        parts = [rows[first : first + size] for first in range(0, len(rows), size)]
        return rows, [
            g for part in parts for g in _generate(players, envs, prompts, part, group_size)
        ]

    by_agent = [of_state[agent] for agent in team for of_state in players if agent in of_state]
    for rows, groups in ask_in_lanes(ask, _batches(by_agent)):
        for (state, agent), completions in zip(rows, groups, strict=True):
            if len(completions) != group_size:
                raise ValueError(
                    f"the policy of {agent!r} returned {len(completions)} completions of a prompt "
                    f"where {group_size} were asked for"
                )
            samples[state][agent] = tuple(completions)
    return [
        {agent: completions[agent] for agent in texts}
        for texts, completions in zip(prompts, samples, strict=True)
    ]


def playing_policy(policy: Policy, envs: Sequence[TextEnv], state: int) -> Policy:
    """Return the policy that answers in one of some states: a pool stands for several."""
    member = policy_attribute(policy, "member")
    player: Policy = policy if member is None else member(envs[state])
    return player


def _batches(policies: Sequence[Policy]) -> list[list[Policy]]:
    """Return the distinct policies; those of one engine stand together."""
    batches: dict[int, list[Policy]] = {}
    for policy in {id(policy): policy for policy in policies}.values():
        key = shared_engine(policy) or policy
        batches.setdefault(id(key), []).append(policy)
    return list(batches.values())


@contextmanager
def reuse_prefixes(team: Team) -> Iterator[None]:
    """Let the engines of a team reuse computations of earlier turns, until the block ends."""
    with ExitStack() as stack:
        members = (policy_attribute(policy, "members") or (policy,) for policy in team.values())
        for policies in _batches(list(chain.from_iterable(members))):
            reuse = policy_attribute(shared_engine(policies[0]), "reuse_prefixes")
            if reuse is not None:
                stack.enter_context(reuse(any(map(reads_history, policies))))
        yield


def _generate(
    players: Sequence[Mapping[str, Policy]],
    envs: Sequence[TextEnv],
    prompts: Sequence[Prompts],
    rows: Sequence[tuple[int, str]],
    group_size: int,
) -> list[list[Completion]]:
    answering = [players[state][agent] for state, agent in rows]
    policy, texts = answering[0], [prompts[state][agent] for state, agent in rows]
    generate_with_envs = policy_attribute(policy, "generate_with_envs")
    if generate_with_envs is not None:
        agents = [agent for _, agent in rows]
        return list(generate_with_envs([envs[state] for state, _ in rows], agents, group_size))
    if (engine := shared_engine(policy)) is not None:
        return engine.generate(list(zip(answering, texts, strict=True)), group_size)
    return policy.generate(texts, group_size)


def distinct_policies(team: Team) -> dict[str, Policy]:
    """Return the team's policy objects, each named by the agents that share it, such as `aux_0+main_0`."""
    agents: dict[int, list[str]] = {}
    for agent, policy in team.items():
        agents.setdefault(id(policy), []).append(agent)
    return {"+".join(names): team[names[0]] for names in agents.values()}


def check_team(env: TextEnv, team: Team, group_size: int) -> None:
    """Raise a `KeyError` unless there is a policy for each agent, and a `ValueError` with nothing to sample."""
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1, got {group_size}")
    for agent in team:
        if agent not in env.possible_agents:
            raise KeyError(unknown("agent", agent, env.possible_agents))
    for agent in env.possible_agents:
        if agent not in team:
            raise KeyError(f"the team has no policy for agent {agent!r}; it has {sorted(team)}")
