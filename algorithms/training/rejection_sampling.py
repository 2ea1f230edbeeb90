"""The passes of a team: whole episodes that solved their problem, as lessons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.training.sft_data import Demonstration, SFTExample
from llm_decpomdp.policy import Completion

UNTOLD = (
    "the environment does not tell which problems are solved (there is no `solved` in its infos)"
)


class Passes(NamedTuple):
    """The result of a round's sampling."""

    lessons: list[Demonstration]
    """One for each different passing episode."""
    episodes: int
    passed: int
    """Passing episodes, equal ones counted."""
    problems: int
    """Problems with a passing episode."""
    best: float
    """The highest reward that an episode ended with."""

    @property
    def row(self) -> dict[str, float]:
        """The numbers of the round in `metrics.jsonl`."""
        return {
            "sampled_episodes": self.episodes,
            "pass_rate": self.passed / self.episodes,
            "solved_problems": self.problems,
        }


def passes(
    rollouts: Sequence[Rollout], agents: Collection[str], min_reward: float | None = None
) -> Passes:
    """Collect the passing episodes of some problems, a lesson for each that differs.

    An episode passes if its last joint sample has `solved` in its infos or, with `min_reward`, earned that much.

    Args:
        rollouts: Whole episodes, one rollout for each problem.
        agents: The agents that learn.
        min_reward: Least reward of the last turn.

    Raises:
        ValueError: If there is no `min_reward`, and the infos have no `solved`.
    """
    lessons: list[Demonstration] = []
    episodes = passed = problems = 0
    best = -float("inf")
    for rollout in rollouts:
        ends = list(_ends(rollout))
        different: dict[Any, Demonstration] = {}
        for index, sample in ends:
            last = rollout.groups[index]
            best = max(best, last.rewards[sample])
            if _passes(last.infos[sample], last.rewards[sample], min_reward):
                passed += 1
                lesson = _lesson(rollout, index, sample, agents)
                different.setdefault(_texts(lesson), lesson)
        episodes += len(ends)
        problems += bool(different)
        lessons += different.values()
    return Passes(lessons, episodes, passed, problems, best)


def pass_rate(rollout: Rollout) -> float:
    """Estimate how often an episode from a rollout's start ends with `solved`.

    A joint sample whose episode is over counts as it ended, and one that goes on as the group that follows it. In
    a chain one alone is handed on, and stands for all of its group that could have been: the estimate has no bias
    where that one is drawn at random.

    Raises:
        ValueError: If the infos have no `solved`.
    """
    following: dict[tuple[int, int], float] = {}
    rate = 0.0
    for index, group in reversed([*enumerate(rollout.groups)]):  # each comes after its parent
        known = [following[index, j] for j in range(len(group.joint)) if (index, j) in following]
        rates = []
        for j, info in enumerate(group.infos):
            if not known or group.ended[j]:
                rates.append(_solved(info))
            else:
                rates.append(following.get((index, j), fmean(known)))
        rate = fmean(rates)
        if group.parent is not None:
            following[group.parent] = rate
    return rate


def _solved(info: Mapping[str, float]) -> float:
    if "solved" not in info:
        raise ValueError(f"{UNTOLD}: a curriculum by pass rate cannot be had")
    return float(bool(info["solved"]))


def _passes(info: Mapping[str, float], reward: float, min_reward: float | None) -> bool:
    if min_reward is not None:
        return reward >= min_reward
    if "solved" not in info:
        raise ValueError(
            f"{UNTOLD}: set warm_start.min_reward to the least reward that counts as a pass"
        )
    return bool(info["solved"])


def _ends(rollout: Rollout) -> Iterator[tuple[int, int]]:
    """Yield the group and the joint sample that each episode of a rollout ended with."""
    going = {group.parent for group in rollout.groups}
    for index, group in enumerate(rollout.groups):
        yield from ((index, j) for j in range(len(group.joint)) if (index, j) not in going)


def _lesson(rollout: Rollout, group: int, sample: int, agents: Collection[str]) -> Demonstration:
    """Return the agents' prompts and completions on the way to a joint sample, and in it."""
    examples: list[SFTExample] = []
    place: tuple[int, int] | None = (group, sample)
    while place is not None:
        present = rollout.groups[place[0]]
        indices = present.joint[place[1]]
        examples += [
            SFTExample(agent, present.prompts[agent], completions[g])
            for (agent, completions), g in zip(present.completions.items(), indices, strict=True)
            if agent in agents
        ]
        place = present.parent
    return tuple(examples)


def _texts(lesson: Demonstration) -> tuple[tuple[str, str, str], ...]:
    """Return what two equal episodes have in common."""
    return tuple((example.agent, example.prompt, _text(example)) for example in lesson)


def _text(example: SFTExample) -> str:
    completion = example.completion
    return completion.text if isinstance(completion, Completion) else completion
