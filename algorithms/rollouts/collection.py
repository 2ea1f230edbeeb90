"""Collection of rollouts: which joint samples continue to the next turn, and how many completions follow.

Letters: N agents, G completions of each, J joint samples of a group, K choices of partners, T turns.

| mode       | what continues                                       | return of a joint sample    | joint samples |
|------------|------------------------------------------------------|-----------------------------|---------------|
| `chain`    | one joint sample of each turn, to a group of G       | its reward                  | J T           |
| `tree`     | every joint sample, to a group of G of its own       | reward + mean of its subtree| J + ... + J^T |
| `episodes` | every joint sample, to one completion of each agent  | that of its whole episode   | G T           |

Under `episodes`, G whole episodes share a start. The completions of a turn are compared across all of them,
although their prompts differ from the second turn on. The baseline stays unbiased, because the other episodes do
not depend on a completion, but it has a higher variance.

If some joint samples end early, later turns keep their weight in the expected gradient: see `visit_weights`
(`learning/advantages.py`) and, for `episodes`, `pool_advantages` (`learning/episodes.py`).

`aligned` joint samples are the g-th completions of all agents; `joint.py` has other ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from llm_decpomdp.algorithms.rollouts.checks import check_team, name_long_prompts
from llm_decpomdp.algorithms.rollouts.lanes import (
    find_lanes,
    in_lanes,
    playing_policy,
    reuse_prefixes,
)
from llm_decpomdp.algorithms.rollouts.rollout import (
    Completions,
    Group,
    Joint,
    Parent,
    Rollout,
    Start,
    StepOutcome,
    TextEnv,
    Timer,
    reset_branch,
    step_branches,
)
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.branching import record
from llm_decpomdp.policy import (
    Completion,
    Policy,
    Team,
    policy_attribute,
    reads_history,
    shared_engine,
)
from llm_decpomdp.testing.rules import short

MAX_ROWS = 256  # completions of one batch, unless a single prompt asks for more: bounds its memory

Prompts = Mapping[str, str]
"""The prompt of each agent."""

Choose = Callable[[Sequence[StepOutcome]], int]
"""Selects the joint sample that continues."""


def collect_rollouts(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    options: RolloutOptions | None = None,
    *,
    group_size: int,
    rng: np.random.Generator | None = None,
    act: Act | None = None,
    timer: Timer | None = None,
    views: bool = False,
) -> list[Rollout]:
    """Collect one rollout from each start, turn by turn, all of them in step.

    Args:
        env: Any text environment; it is reset, and played in branches of it.
        team: A policy for each agent. Agents with the same policy object are sampled in one batch.
        starts: The first state of each rollout.
        options: The mode, the joint samples of a group, the joint sample that continues, and early termination. By
            default one of G aligned joint samples continues, at random.
        group_size: Completions of each agent in a group (G), at least 1; with `mode="episodes"`, episodes.
        rng: Draws the joint samples that continue at random, and the partners of `joint_mode="common"`.
        act: Samples the agents' groups of completions; by default every policy samples G of them.
        timer: Adds up the seconds spent `sampling` (policies) and `stepping` (environment).
        views: Record each state for a critic.

    Raises:
        KeyError: If an agent has no policy.
        TypeError: If a prompt isn't a text, or a policy has no `generate` and `act`.
        ValueError: If `rng` is needed and missing, the agents' rewards differ, there are not enough choices of
            partners, or groups of a chain are sampled without views where agents take turns.
    """
    check_team(env, team, group_size)
    options = options or RolloutOptions()
    options.check_turn_order(env, group_size, has_critic=views)
    timer = timer if timer is not None else Timer()
    collection = _make_collection(options, group_size, team, rng, act, views)
    states = []
    with timer("stepping"):
        for start in starts:
            first, prompts = reset_branch(env, start)
            states.append(_State(_RolloutInProgress(start, first), None, first, prompts))
    rollouts = [state.rollout for state in states]
    with reuse_prefixes(team):
        while states := [state for state in states if state.prompts]:
            envs, texts = [state.env for state in states], [state.prompts for state in states]
            with name_long_prompts(team, [state.rollout.start for state in states], texts):
                moves = collection.act(team, envs, texts, timer)
            # Partners are drawn for one group after the other, so that equal seeds give equal joint samples.
            pairs = [collection.pair(move) for move in moves]
            with timer("stepping"):
                played = step_branches(
                    envs, [move.completions for move in moves], [joint for joint, _ in pairs]
                )
            states = [
                child
                for state, move, pair, outcomes in zip(states, moves, pairs, played, strict=True)
                for child in collection.add_group(state, move, pair, outcomes)
            ]
    return [
        Rollout(
            rollout.start,
            tuple(rollout.groups),
            record(rollout.env) if collection.choose else None,
            pooled=collection.pooled,
            dialogues=collection.dialogues,
        )
        for rollout in rollouts
    ]


@dataclass
class _RolloutInProgress:
    """A rollout whose episodes are not over."""

    start: Start
    env: TextEnv  # the branch along the chosen samples
    groups: list[Group] = field(default_factory=list)


@dataclass
class _State:
    """A state that a group is sampled in."""

    rollout: _RolloutInProgress
    parent: Parent | None
    env: TextEnv
    prompts: dict[str, str]  # empty if the episode is over


@dataclass(frozen=True)
class _Collection:
    """How groups are sampled, and what continues after them."""

    act: Act
    draw: Callable[[int], Pairing] | None  # joint samples of so many agents; `None`: aligned ones
    choose: Choose | None  # `None`: every joint sample continues
    threshold: float | None
    views: bool
    pooled: bool
    dialogues: tuple[str, ...]  # agents whose policies read histories

    def pair(self, move: Move) -> Pairing:
        """Return the joint samples of a move."""
        acting = len(move.completions)
        return align(move.size, acting) if self.draw is None else self.draw(acting)

    def add_group(
        self, state: _State, move: Move, pairs: Pairing, outcomes: Sequence[StepOutcome]
    ) -> list[_State]:
        """Add the group of a move to the rollout; return the states that it leads to."""
        rollout, index = state.rollout, len(state.rollout.groups)
        chosen = self.choose(outcomes) if self.choose else None
        rewards = tuple(outcome.reward for outcome in outcomes)
        enough = self.threshold is not None and float(np.mean(rewards)) >= self.threshold
        group = Group(
            turn=0 if state.parent is None else rollout.groups[state.parent.group].turn + 1,
            parent=state.parent,
            prompts=move.prompts,
            completions=move.completions,
            joint=pairs.joint,
            anchors=pairs.anchors,
            rewards=rewards,
            infos=tuple(outcome.info for outcome in outcomes),
            ended=tuple(not outcome.prompts for outcome in outcomes),
            own={
                agent: tuple(outcome.own.get(agent, 0.0) for outcome in outcomes)
                for agent in dict.fromkeys(chain(*(outcome.own for outcome in outcomes)))
            },
            chosen=chosen,
            drafts=move.drafts,
            stopped_early=enough and any(outcome.prompts for outcome in outcomes),
        )
        if self.views:
            from llm_decpomdp.algorithms.rollouts.views import add_views

            group = add_views(group, state.env, state.prompts, () if enough else outcomes)
        rollout.groups.append(group)
        if chosen is not None:
            rollout.env = outcomes[chosen].env
        states = [
            _State(rollout, Parent(index, sample), outcome.env, outcome.prompts)
            for sample, outcome in enumerate(outcomes)
            if not enough and chosen in (None, sample)
        ]
        if self.dialogues:
            from llm_decpomdp.algorithms.rollouts.histories import add_history

            for state in states:
                state.prompts = add_history(
                    state.prompts, rollout.groups, state.parent, self.dialogues
                )
        return states


def _make_collection(
    options: RolloutOptions,
    group_size: int,
    team: Team,
    rng: np.random.Generator | None,
    act: Act | None,
    views: bool,
) -> _Collection:
    dialogues = tuple(agent for agent, policy in team.items() if reads_history(policy))
    if options.mode == "episodes":
        sizes = chain([group_size], repeat(1))  # G episodes part in the first turn

        def sample_turn(
            team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], timer: Timer
        ) -> list[Move]:
            return sampling(next(sizes))(team, envs, prompts, timer)

        return _Collection(act or sample_turn, None, None, None, views, True, dialogues)
    draw = None
    if options.joint_mode != "aligned":
        from llm_decpomdp.algorithms.rollouts.joint import pairing

        draw = pairing(options.joint_mode, group_size, len(team), options.num_partners, rng)
    return _Collection(
        act or sampling(group_size),
        draw,
        None
        if options.mode == "tree"
        else _branch_selection(options.branch_selection, group_size, rng),
        options.early_termination_threshold,
        views,
        False,
        dialogues,
    )


def _branch_selection(rule: str, group_size: int, rng: np.random.Generator | None) -> Choose:
    """Return the rule by which one joint sample continues, among those whose episode isn't over."""
    if rng is None and rule == "random" and group_size > 1:
        raise ValueError("a joint sample is drawn that continues, which needs rng, a generator")

    def choose(outcomes: Sequence[StepOutcome]) -> int:
        # An episode that is over leads to no group. If all are over, the choice only marks the final episode.
        unfinished = [index for index, outcome in enumerate(outcomes) if outcome.prompts]
        candidates = unfinished or list(range(len(outcomes)))
        if rule == "best":
            return max(candidates, key=lambda index: outcomes[index].reward)
        return candidates[int(rng.integers(len(candidates)))] if rng is not None else candidates[0]

    return choose


class Pairing(NamedTuple):
    """Joint samples of a group, and what the values of completions are compared by."""

    joint: Joint  # the J joint samples, all different
    anchors: Joint = ()
    """K joint samples, under `common`: without its own completion, each is one choice of an agent's partners."""


def align(group_size: int, num_agents: int) -> Pairing:
    """Pair the g-th completions of all agents: G joint samples."""
    return Pairing(tuple((g,) * num_agents for g in range(group_size)))


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
            samples = sample_groups(team, envs, prompts, group_size)
        return [Move(dict(texts), groups) for texts, groups in zip(prompts, samples, strict=True)]

    return act


def sample_groups(
    team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], group_size: int
) -> list[Completions]:
    """Sample G completions for each state and agent; one batch for each policy or engine, if not too large.

    Servers are asked at the same time, and so are models on different devices. `envs` and `prompts` have the
    environment, and the prompts of the agents, in each of the states.

    Raises:
        TypeError: If a policy returns no completions.
        ValueError: If a policy returns another number of completions.
    """
    requests = [
        _Request(state, agent, playing_policy(team[agent], envs, state), text)
        for state, texts in enumerate(prompts)
        for agent, text in texts.items()
    ]
    size = max(1, MAX_ROWS // group_size)  # prompts of a batch

    def ask(batch: Sequence[_Request]) -> list[list[Completion]]:
        parts = (batch[first : first + size] for first in range(0, len(batch), size))
        return [group for part in parts for group in _sample(part, envs, group_size)]

    by_engine: dict[int, list[_Request]] = {}
    for request in requests:
        policy = request.policy
        by_engine.setdefault(id(shared_engine(policy) or policy), []).append(request)
    batches = [*by_engine.values()]
    # All agents first, as engines fill them in another order than that of the prompts.
    samples: list[Completions] = [dict.fromkeys(texts, ()) for texts in prompts]
    # Servers and devices answer at the same time; with one of them, the batches go in order.
    lanes = find_lanes([batch[0].policy for batch in batches])
    for batch, groups in zip(batches, in_lanes(ask, batches, lanes), strict=True):
        for request, completions in zip(batch, groups, strict=True):
            samples[request.state][request.agent] = tuple(completions)
    return samples


class _Request(NamedTuple):
    """A prompt, and the policy that answers it."""

    state: int  # index among the states
    agent: str
    policy: Policy
    prompt: str


def _sample(
    requests: Sequence[_Request], envs: Sequence[TextEnv], group_size: int
) -> list[list[Completion]]:
    """Return G completions of each request; raise an error if the policy returned something else."""
    samples = _generate(requests, envs, group_size) or ()
    groups = [[*group] if isinstance(group, list | tuple) else [group] for group in samples]
    agent = requests[0].agent
    for completion in chain.from_iterable(groups):
        if not isinstance(completion, Completion) or not isinstance(completion.text, str):
            raise TypeError(
                f"the policy of {agent!r} returned {short(completion)} as a completion: let generate() return "
                "objects of llm_decpomdp.policy.Completion, whose text is a str"
            )
    sizes = [*map(len, groups)]
    if sizes != [group_size] * len(requests):
        raise ValueError(
            f"the policy of {agent!r} returned {short(sizes)} completions of {len(requests)} prompts, where "
            f"{group_size} of each were asked for: let generate() return a list of lists"
        )
    return groups


def _generate(
    requests: Sequence[_Request], envs: Sequence[TextEnv], group_size: int
) -> list[list[Completion]]:
    """Return G completions of each request; all are of one policy, or of policies with one engine."""
    policy = requests[0].policy
    generate_with_envs = policy_attribute(policy, "generate_with_envs")
    if generate_with_envs is not None:
        states, agents = [envs[r.state] for r in requests], [r.agent for r in requests]
        return list(generate_with_envs(states, agents, group_size))
    if (engine := shared_engine(policy)) is not None:
        return engine.generate([(r.policy, r.prompt) for r in requests], group_size)
    return policy.generate([r.prompt for r in requests], group_size)
