"""Chains: the rollout plan in which one joint sample of each turn goes on.

The g-th completions of all agents form the g-th joint sample. One of them goes on to the next turn,
so that an episode of T turns costs G * T joint samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from llm_decpomdp.algorithms.rollouts.act import Act, Move, sampling
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.joint import aligned
from llm_decpomdp.algorithms.rollouts.long_prompts import naming
from llm_decpomdp.algorithms.rollouts.rollout import (
    Group,
    Outcome,
    Parent,
    Rollout,
    Start,
    Stopwatch,
    begin,
    check_team,
    step,
)
from llm_decpomdp.branching import record
from llm_decpomdp.policy import Team
from llm_decpomdp.validation import unknown

HANDOFFS = ("random", "best")


def rollout_chains(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    group_size: int,
    handoff: str = "random",
    early_termination_threshold: float | None = None,
    act: Act | None = None,
    rng: np.random.Generator,
    stopwatch: Stopwatch | None = None,
) -> list[Rollout]:
    """Play one chain for each start, all of them in step.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent. Agents with the same policy object are sampled in one batch.
        starts: The first state of each chain.
        group_size: Joint samples of a turn (G), at least 1.
        handoff: Rule by which a joint sample goes on, among those whose episode isn't over: `best` takes the
            first of the highest reward, `random` draws one. All agents go on with the same one.
        early_termination_threshold: A chain stops where its group's mean reward reaches this value;
            `None` never stops one.
        act: The way to the agents' groups of completions; by default every policy samples them.
        rng: Draws the random handoffs.
        stopwatch: Adds up the seconds spent `sampling` (policies) and `stepping`
            (environment).

    Raises:
        KeyError: If an agent has no policy, or `handoff` is unknown.
        TypeError: If a prompt isn't a text.
        ValueError: If the agents' rewards differ, or some agents leave before the others.
    """
    check_team(env, team, group_size)
    if handoff not in HANDOFFS:
        raise KeyError(unknown("handoff", handoff, HANDOFFS))
    clock = stopwatch if stopwatch is not None else Stopwatch()
    act = act or sampling(group_size)
    with clock("stepping"):
        chains = [_Chain(start, *begin(env, start)) for start in starts]
    joint = aligned(group_size, len(team))
    while live := [chain for chain in chains if chain.prompts]:
        envs, prompts = [chain.env for chain in live], [chain.prompts for chain in live]
        with naming(team, [chain.start for chain in live], prompts):
            moves = act(team, envs, prompts, clock)
        with clock("stepping"):
            played = step(envs, [move.completions for move in moves], [joint] * len(live))
        for chain, move, outcomes in zip(live, moves, played, strict=True):
            chosen = _choose(outcomes, handoff, rng)
            chain.advance(move, outcomes, chosen, early_termination_threshold)
    return [chain.record() for chain in chains]


@dataclass
class _Chain:
    start: Start
    env: TextEnv
    prompts: dict[str, str]  # empty once the chain is over
    groups: list[Group] = field(default_factory=list)

    def advance(
        self,
        move: Move,
        outcomes: Sequence[Outcome],
        chosen: int,
        threshold: float | None,
    ) -> None:
        turn = len(self.groups)
        previous = self.groups[-1].chosen if self.groups else None
        rewards = tuple(outcome.reward for outcome in outcomes)
        goes_on = bool(outcomes[chosen].prompts)
        enough = threshold is not None and float(np.mean(rewards)) >= threshold
        group = Group(
            turn=turn,
            parent=None if previous is None else Parent(turn - 1, previous),
            prompts=move.prompts,
            completions=move.completions,
            joint=aligned(len(outcomes), len(move.completions)),
            rewards=rewards,
            infos=tuple(outcome.info for outcome in outcomes),
            chosen=chosen,
            drafts=move.drafts,
            stopped_early=goes_on and enough,
        )
        self.groups.append(group)
        self.env = outcomes[chosen].env
        self.prompts = {} if group.stopped_early else outcomes[chosen].prompts

    def record(self) -> Rollout:
        return Rollout(self.start, tuple(self.groups), record(self.env))


def _choose(outcomes: Sequence[Outcome], handoff: str, rng: np.random.Generator) -> int:
    going = [g for g, outcome in enumerate(outcomes) if outcome.prompts]
    candidates = going or list(range(len(outcomes)))
    if handoff == "best":
        return max(candidates, key=lambda g: outcomes[g].reward)
    return candidates[int(rng.integers(len(candidates)))]
