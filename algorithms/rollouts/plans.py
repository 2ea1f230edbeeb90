"""Rollout plans: which completions are played together, and which joint samples go on to the next turn.

In a chain one joint sample of each turn goes on, so that an episode of T turns costs G * T joint samples. In a
tree every joint sample leads to a group of its own, so that its return can be estimated from what follows: J joint
samples a group (G if aligned, G^N if crossed) cost J + J^2 + ... + J^T.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from llm_decpomdp.algorithms.rollouts.environment import Outcome, TextEnv, begin, step
from llm_decpomdp.algorithms.rollouts.long_prompts import naming
from llm_decpomdp.algorithms.rollouts.rollout import (
    JOINT_MODES,
    Group,
    Joint,
    Parent,
    Rollout,
    Start,
    joint_samples,
)
from llm_decpomdp.algorithms.rollouts.sampling import (
    Act,
    Move,
    Stopwatch,
    check_team,
    sampling,
)
from llm_decpomdp.branching import record
from llm_decpomdp.options import Options, option
from llm_decpomdp.policy import Team
from llm_decpomdp.validation import unknown

PLANS = ("chain", "tree")
HANDOFFS = ("random", "best")


@dataclass(frozen=True)
class RolloutOptions(Options):
    """Rollouts from a start.

    Raises:
        ValueError: If a value is out of its range, or two do not fit together.
    """

    plan: str = option("chain", choices=PLANS)
    """`chain`: G joint samples a turn, of which one goes on. `tree`: all go on, at G^turns cost."""
    joint_mode: str = option("aligned", choices=JOINT_MODES)
    """In a tree, the completions that are played together: the g-th of all agents (`aligned`), or each with each
    (`cross`)."""
    handoff: str = option("random", choices=HANDOFFS)
    """In a chain, the joint sample that goes on to the next turn: `random` or `best`."""
    early_termination_threshold: float | None = None
    """Mean reward of a group from which on nothing follows it; `None` stops nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, plan in (("joint_mode", "tree"), ("handoff", "chain")):
            value = getattr(self, name)
            if self.plan != plan and value != getattr(RolloutOptions, name):
                raise ValueError(
                    f"{name}={value} means nothing in a {self.plan}: set plan={plan}, or drop it"
                )


def roll_out(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    options: RolloutOptions,
    *,
    group_size: int,
    rng: np.random.Generator,
    stopwatch: Stopwatch | None = None,
) -> list[Rollout]:
    """Grow a rollout from each start by the plan of the options; see `rollout_chains` and `rollout_trees`."""
    threshold = options.early_termination_threshold
    if options.plan == "tree":
        return rollout_trees(
            env,
            team,
            starts,
            group_size=group_size,
            joint_mode=options.joint_mode,
            early_termination_threshold=threshold,
            stopwatch=stopwatch,
        )
    return rollout_chains(
        env,
        team,
        starts,
        group_size=group_size,
        handoff=options.handoff,
        early_termination_threshold=threshold,
        rng=rng,
        stopwatch=stopwatch,
    )


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
    """Play one chain for each start, all of them in step; the g-th completions of all agents are played together.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent. Agents with the same policy object are sampled in one batch.
        starts: The first state of each chain.
        group_size: Joint samples of a turn (G), at least 1.
        handoff: Rule by which a joint sample goes on, among those whose episode isn't over: `best` takes the
            first of the highest reward, `random` draws one. All agents go on with the same one.
        early_termination_threshold: A chain stops where its group's mean reward reaches this; `None` stops none.
        act: The way to the agents' groups of completions; by default every policy samples them.
        rng: Draws the random handoffs.
        stopwatch: Adds up the seconds spent `sampling` (policies) and `stepping` (environment).

    Raises:
        KeyError: If an agent has no policy, or `handoff` is unknown.
        TypeError: If a prompt isn't a text.
        ValueError: If the agents' rewards differ, or some agents leave before the others.
    """
    check_team(env, team, group_size)
    if handoff not in HANDOFFS:
        raise KeyError(unknown("handoff", handoff, HANDOFFS))

    def choose(outcomes: Sequence[Outcome]) -> int:
        going = [g for g, outcome in enumerate(outcomes) if outcome.prompts]
        candidates = going or list(range(len(outcomes)))
        if handoff == "best":
            return max(candidates, key=lambda g: outcomes[g].reward)
        return candidates[int(rng.integers(len(candidates)))]

    joint = joint_samples("aligned", group_size, len(team))
    act = act or sampling(group_size)
    return _grow(env, team, starts, joint, act, choose, early_termination_threshold, stopwatch)


def rollout_trees(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    group_size: int,
    joint_mode: str = "aligned",
    early_termination_threshold: float | None = None,
    stopwatch: Stopwatch | None = None,
) -> list[Rollout]:
    """Grow one tree from each start, all of them turn by turn.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent. Agents with the same policy object are sampled in one batch.
        starts: The first state of each tree.
        group_size: Completions of each agent in a group (G), at least 1.
        joint_mode: `aligned` plays the g-th completions of all agents together, `cross` each with each.
        early_termination_threshold: A group whose mean reward reaches this ends its branch; `None` ends none.
        stopwatch: Adds up the seconds spent `sampling` (policies) and `stepping` (environment).

    Raises:
        KeyError: If an agent has no policy, or `joint_mode` is unknown; and others as of `rollout_chains`.
    """
    check_team(env, team, group_size)
    joint, act = joint_samples(joint_mode, group_size, len(team)), sampling(group_size)
    return _grow(env, team, starts, joint, act, None, early_termination_threshold, stopwatch)


def play_episodes(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    act: Act | None = None,
    at_a_time: int | None = None,
    stopwatch: Stopwatch | None = None,
) -> list[Rollout]:
    """Play one episode from each start, as evaluations do: a chain whose groups have one joint sample.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent.
        starts: Episode starts.
        act: The way to the agents' completions, one of each; by default every policy samples.
        at_a_time: Episodes that are played in step; all if none is given.
        stopwatch: Adds the seconds of `act`, and those spent `stepping`.

    Raises:
        KeyError: If an agent has no policy; and others as of `rollout_chains`.
    """
    rng = np.random.default_rng(0)  # never matters: a group of one has nothing to choose from
    size = at_a_time or max(1, len(starts))
    rollouts: list[Rollout] = []
    for first in range(0, len(starts), size):
        batch = starts[first : first + size]
        rollouts += rollout_chains(
            env, team, batch, group_size=1, act=act, rng=rng, stopwatch=stopwatch
        )
    return rollouts


def _grow(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    joint: Joint,
    act: Act,
    choose: Callable[[Sequence[Outcome]], int] | None,
    threshold: float | None,
    stopwatch: Stopwatch | None,
) -> list[Rollout]:
    """Grow a rollout from each start, turn by turn: the joint sample that `choose` takes goes on, or else all."""
    clock = stopwatch if stopwatch is not None else Stopwatch()
    growths = []
    states = []
    with clock("stepping"):
        for start in starts:
            first, prompts = begin(env, start)
            growths.append(_Growth(start, first))
            states.append(_State(growths[-1], None, first, prompts))
    while states := [state for state in states if state.prompts]:
        envs, texts = [state.env for state in states], [state.prompts for state in states]
        with naming(team, [state.growth.start for state in states], texts):
            moves = act(team, envs, texts, clock)
        with clock("stepping"):
            played = step(envs, [move.completions for move in moves], [joint] * len(states))
        states = [
            following
            for state, move, outcomes in zip(states, moves, played, strict=True)
            for following in state.grow(move, joint, outcomes, choose, threshold)
        ]
    return [
        Rollout(growth.start, tuple(growth.groups), record(growth.env) if choose else None)
        for growth in growths
    ]


@dataclass
class _Growth:
    """A rollout that grows."""

    start: Start
    env: TextEnv  # along the chosen samples
    groups: list[Group] = field(default_factory=list)


@dataclass
class _State:
    """A state that a group is sampled in."""

    growth: _Growth
    parent: Parent | None
    env: TextEnv
    prompts: dict[str, str]  # empty where the episode is over

    def grow(
        self,
        move: Move,
        joint: Joint,
        outcomes: Sequence[Outcome],
        choose: Callable[[Sequence[Outcome]], int] | None,
        threshold: float | None,
    ) -> list[_State]:
        """Add the group of a move to the rollout; return the states that it leads to."""
        growth, index = self.growth, len(self.growth.groups)
        chosen = choose(outcomes) if choose else None
        rewards = tuple(outcome.reward for outcome in outcomes)
        enough = threshold is not None and float(np.mean(rewards)) >= threshold
        growth.groups.append(
            Group(
                turn=0 if self.parent is None else growth.groups[self.parent.group].turn + 1,
                parent=self.parent,
                prompts=move.prompts,
                completions=move.completions,
                joint=joint,
                rewards=rewards,
                infos=tuple(outcome.info for outcome in outcomes),
                chosen=chosen,
                drafts=move.drafts,
                stopped_early=enough and any(outcome.prompts for outcome in outcomes),
            )
        )
        if chosen is not None:
            growth.env = outcomes[chosen].env
        return [
            _State(growth, Parent(index, sample), outcome.env, outcome.prompts)
            for sample, outcome in enumerate(outcomes)
            if not enough and chosen in (None, sample)
        ]
