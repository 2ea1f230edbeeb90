"""How a team plays the episodes of an evaluation: one joint completion a turn, many episodes in step.

How the agents of a state come to their completions is a way to act: all at once, as in training, or another one
from `llm_decpomdp.benchmarks.evaluation.baselines`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_decpomdp.algorithms.joint import aligned
from llm_decpomdp.algorithms.records import episode_row
from llm_decpomdp.algorithms.rollout import (
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
from llm_decpomdp.algorithms.text_env import Recorded, TextEnv
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
        asked = [{agent: texts[agent] for agent in agents} for texts in prompts]
        with stopwatch("+".join(agents)):
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

    def row(self, number: int) -> dict[str, Any]:
        final = self.env.snapshot().get("episode") if isinstance(self.env, Recorded) else None
        row = episode_row(Rollout(self.start, tuple(self.groups), final), 0, "eval")
        return {**row, "sample": number, "tokens": self.tokens}


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
        A row of `episodes.jsonl` for each start, with `sample`, and in `tokens` those of each turn and agent
        (`None` where the policy has no tokenizer).

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
        moves = act(team, envs, [game.prompts for game in live], stopwatch)
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
            game.tokens.append({agent: _tokens(move, agent) for agent in move.completions})
            game.env, game.prompts = outcome.env, outcome.prompts
    return [game.row(number) for game in games]


def _tokens(move: Move, agent: str) -> int | None:
    """What an agent sampled in a move; no completion of a policy with a tokenizer is without tokens."""
    said = [move.completions[agent], *(draft[agent] for draft in move.drafts)]
    return sum(len(one.tokens) for one in said) if all(one.tokens for one in said) else None


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
