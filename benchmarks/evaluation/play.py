"""How a team plays the episodes of an evaluation: one joint completion a turn, many episodes in step.

How the agents of a state come to their completions is a way to act: all at once, as in training, or another one
from `llm_decpomdp.benchmarks.evaluation.baselines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from llm_decpomdp.agents.remote.endpoint import Endpoint
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.joint import aligned
from llm_decpomdp.algorithms.rollouts.long_prompts import naming
from llm_decpomdp.algorithms.rollouts.rollout import (
    Group,
    Parent,
    Rollout,
    Start,
    Stopwatch,
    begin,
    check_team,
    sample,
    step,
)
from llm_decpomdp.algorithms.training.metrics import episode_row
from llm_decpomdp.branching import record
from llm_decpomdp.policy import Completion, EnginePolicy, Team

Prompts = Mapping[str, str]
"""What each agent is asked."""


@dataclass(frozen=True)
class Move:
    """What a team did in one state."""

    prompts: dict[str, str]
    """What each agent was asked in the end."""
    completions: dict[str, Completion]
    """What is played."""
    drafts: tuple[dict[str, Completion], ...] = ()
    """What was said before, and costs tokens."""


_ONE_AT_A_TIME = Lock()  # for policies of this process, which are not made for threads

Act = Callable[[Team, Sequence[TextEnv], Sequence[Prompts], Stopwatch], list[Move]]
"""From states and their prompts to a move in each; adds the seconds of each agent to the stopwatch."""


def at_once(
    team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], stopwatch: Stopwatch
) -> list[Move]:
    """All agents answer at the same time, and see nothing of one another.

    Agents that are sampled in one batch have their seconds in common, under a name such as `aux_0+main_0`.
    """
    found: list[dict[str, Completion]] = [{} for _ in prompts]
    for agents in sampled_together(team):
        alone = nullcontext() if isinstance(team[agents[0]], Endpoint) else _ONE_AT_A_TIME
        asked = [{agent: texts[agent] for agent in agents} for texts in prompts]
        with alone, stopwatch("+".join(agents)):
            answers = sample({agent: team[agent] for agent in agents}, envs, asked, 1)
        for completions, groups in zip(found, answers, strict=True):
            completions |= {agent: one for agent, (one,) in groups.items()}
    return [
        Move(dict(texts), {agent: completions[agent] for agent in texts})
        for texts, completions in zip(prompts, found, strict=True)
    ]


def sampled_together(team: Team) -> list[list[str]]:
    """The agents whose policies are one object or have one engine."""
    groups: dict[int, list[str]] = {}
    for agent, policy in team.items():
        key = policy.engine if isinstance(policy, EnginePolicy) else policy
        groups.setdefault(id(key), []).append(agent)
    return list(groups.values())


@dataclass
class _Game:
    start: Start
    env: TextEnv
    prompts: dict[str, str]  # empty once the episode is over
    groups: list[Group] = field(default_factory=list)
    tokens: list[dict[str, int | None]] = field(default_factory=list)
    prompt_tokens: list[dict[str, int | None]] = field(default_factory=list)

    def row(self, number: int) -> dict[str, Any]:
        row = episode_row(Rollout(self.start, tuple(self.groups), record(self.env)), 0, "eval")
        counted = {"tokens": self.tokens, "prompt_tokens": self.prompt_tokens}
        return {**row, "sample": number, **counted}


def play_episodes(
    env: TextEnv,
    team: Team,
    act: Act,
    starts: Sequence[Start],
    number: int,
    stopwatch: Stopwatch,
) -> list[dict[str, Any]]:
    """One episode from each start, all in step.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent.
        act: How its agents come to their completions.
        starts: How the episodes begin.
        number: Which sample of its start each episode is; it is written down.
        stopwatch: Where to add the seconds of the agents, and of the `environment`.

    Returns:
        A row of `episodes.jsonl` for each start, with `sample`; in `tokens` those that each agent sampled in each
        turn, and in `prompt_tokens` those that it was asked with (`None` where nobody knows).

    Raises:
        KeyError: If an agent has no policy.
        TypeError: If a prompt isn't a text.
        ValueError: If the agents' rewards differ, or some agents leave before the others.
    """
    check_team(env, team, 1)
    with stopwatch("environment"):
        games = [_Game(start, *begin(env, start)) for start in starts]
    joint = aligned(1, len(team))
    while live := [game for game in games if game.prompts]:
        envs = [game.env for game in live]
        prompts = [game.prompts for game in live]
        with naming(team, [game.start for game in live], prompts):
            moves = act(team, envs, prompts, stopwatch)
        groups: list[dict[str, tuple[Completion, ...]]] = [
            {agent: (one,) for agent, one in move.completions.items()} for move in moves
        ]
        with stopwatch("environment"):
            played = step(envs, groups, [joint] * len(live))
        for game, move, completions, (outcome,) in zip(live, moves, groups, played, strict=True):
            turn = len(game.groups)
            game.groups.append(
                Group(
                    turn=turn,
                    parent=Parent(turn - 1, 0) if turn else None,
                    prompts=move.prompts,
                    completions=completions,
                    joint=joint,
                    rewards=(outcome.reward,),
                    infos=(outcome.info,),
                    chosen=0,
                )
            )
            said = {agent: _said(move, agent) for agent in move.completions}
            game.tokens.append({a: _sum(one.num_tokens for one in said[a]) for a in said})
            game.prompt_tokens.append({a: _sum(one.prompt_tokens for one in said[a]) for a in said})
            game.env, game.prompts = outcome.env, outcome.prompts
    return [game.row(number) for game in games]


def _said(move: Move, agent: str) -> list[Completion]:
    """All that an agent has said in a move."""
    return [move.completions[agent], *(draft[agent] for draft in move.drafts)]


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum; `None` if one of the counts is not known."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))


def rollout_of(row: Mapping[str, Any]) -> Rollout:
    """The rollout of a row of `episodes.jsonl`, without tokens and log-probabilities."""
    groups = []
    for group in row["groups"]:
        reasons = group["finish_reasons"]
        completions = {
            agent: tuple(
                Completion(text, finish_reason=reason)
                for text, reason in zip(texts, reasons[agent], strict=True)
            )
            for agent, texts in group["completions"].items()
        }
        groups.append(
            Group(
                turn=group["turn"],
                parent=Parent(**group["parent"]) if group["parent"] else None,
                prompts=group["prompts"],
                completions=completions,
                joint=tuple(map(tuple, group["joint"])),
                rewards=tuple(group["rewards"]),
                infos=tuple(group["infos"]),
                chosen=group["chosen"],
            )
        )
    return Rollout(Start(**row["start"]), tuple(groups), row["final"])
