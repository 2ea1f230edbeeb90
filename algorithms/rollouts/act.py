"""A team's move in a state: the completions of its agents, and the way in which they come about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Completions, Stopwatch, sample
from llm_decpomdp.policy import Team

Prompts = Mapping[str, str]
"""The prompt of each agent."""


@dataclass(frozen=True)
class Move:
    """The move of a team in one state."""

    prompts: dict[str, str]
    """The prompt of each agent, as it stood when the agent answered."""
    completions: Completions
    """The group of each agent, which is played."""
    drafts: tuple[Completions, ...] = ()
    """Earlier answers to these prompts, which are not played; their tokens count."""


Act = Callable[[Team, Sequence[TextEnv], Sequence[Prompts], Stopwatch], list[Move]]
"""Goes from states and their prompts to a move in each; adds the seconds of the agents to the stopwatch."""


def sampling(group_size: int) -> Act:
    """Let every policy sample its groups at once, and count the seconds as `sampling`."""

    def act(
        team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], stopwatch: Stopwatch
    ) -> list[Move]:
        with stopwatch("sampling"):
            samples = sample(team, envs, prompts, group_size)
        return [Move(dict(texts), groups) for texts, groups in zip(prompts, samples, strict=True)]

    return act
