"""The growth of rollouts from their starts, turn by turn and all in step: the loop that every plan shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from llm_decpomdp.algorithms.rollouts.environment import Outcome, TextEnv, reset_branch, step, view
from llm_decpomdp.algorithms.rollouts.joint import Pairing, aligned
from llm_decpomdp.algorithms.rollouts.long_prompts import naming
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.sampling import Act, Move, Timer
from llm_decpomdp.branching import record
from llm_decpomdp.policy import Team


def grow(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    pair: Callable[[], Pairing] | None,
    act: Act,
    choose: Callable[[Sequence[Outcome]], int] | None,
    threshold: float | None,
    timer: Timer | None,
    views: bool = False,
) -> list[Rollout]:
    """Grow a rollout from each start, turn by turn.

    The completions of a group are played as `pair` says, or else aligned; the joint sample that `choose` takes
    goes on, or else all.
    """
    timer = timer if timer is not None else Timer()
    growths = []
    states = []
    with timer("stepping"):
        for start in starts:
            first, prompts = reset_branch(env, start)
            growths.append(_RolloutInProgress(start, first, views))
            states.append(_State(growths[-1], None, first, prompts))
    while states := [state for state in states if state.prompts]:
        envs, texts = [state.env for state in states], [state.prompts for state in states]
        with naming(team, [state.growth.start for state in states], texts):
            moves = act(team, envs, texts, timer)
        pairs = [pair() if pair else aligned(move.size, len(team)) for move in moves]
        with timer("stepping"):
            played = step(envs, [move.completions for move in moves], [joint for joint, _ in pairs])
        states = [
            following
            for state, move, of_group, outcomes in zip(states, moves, pairs, played, strict=True)
            for following in state.grow(move, of_group, outcomes, choose, threshold)
        ]
    return [
        Rollout(growth.start, tuple(growth.groups), record(growth.env) if choose else None)
        for growth in growths
    ]


@dataclass
class _RolloutInProgress:
    """A rollout that grows."""

    start: Start
    env: TextEnv  # along the chosen samples
    views: bool
    groups: list[Group] = field(default_factory=list)


@dataclass
class _State:
    """A state that a group is sampled in."""

    growth: _RolloutInProgress
    parent: Parent | None
    env: TextEnv
    prompts: dict[str, str]  # empty where the episode is over

    def grow(
        self,
        move: Move,
        pairs: Pairing,
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
                joint=pairs.joint,
                anchors=pairs.anchors,
                rewards=rewards,
                infos=tuple(outcome.info for outcome in outcomes),
                ended=tuple(not outcome.prompts for outcome in outcomes),
                chosen=chosen,
                drafts=move.drafts,
                stopped_early=enough and any(outcome.prompts for outcome in outcomes),
                view=view(self.env, self.prompts) if growth.views else None,
                views=tuple(None if enough else outcome.view() for outcome in outcomes)
                if growth.views
                else (),
            )
        )
        if chosen is not None:
            growth.env = outcomes[chosen].env
        return [
            _State(growth, Parent(index, sample), outcome.env, outcome.prompts)
            for sample, outcome in enumerate(outcomes)
            if not enough and chosen in (None, sample)
        ]
