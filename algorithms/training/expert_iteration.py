"""Expert iteration: a warm start on what the team itself has solved, in rounds of sampling and imitation.

In each round the team plays whole episodes of its training problems, and learns those that end in a pass by the
loss of `sft.py`: filtering is the E step and imitation the M step of maximising log P(pass) (ReST-EM,
arXiv 2312.06585; expert iteration, arXiv 1705.08439). The completions of all agents that learn, on all turns of a
passing episode, are lessons, since all of them led there. Every round goes on from the weights that the one before
has left, with an AdamW of its own.

Degenerate cases: where nothing passes there is nothing to learn, which is an error; where everything does, the
team learns to say again what it says. An episode that several samples repeat word for word is one lesson, so
that what is already likely does not drown what is rare.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import trainable_policies
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import seed_policies
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.cost import Bounded, Cost, cost
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.rollouts.sampling import MAX_ROWS, Timer
from llm_decpomdp.algorithms.training.callbacks import defer_signals
from llm_decpomdp.algorithms.training.curriculum import NO_SOLVED
from llm_decpomdp.algorithms.training.sft import SFTPhase, SupervisedTraining
from llm_decpomdp.algorithms.training.sft_data import Demonstration, SFTExample
from llm_decpomdp.algorithms.training.trainer_options import GOLD, WarmStartOptions
from llm_decpomdp.policy import Completion, Team
from llm_decpomdp.seeding import stream

logger = logging.getLogger(__name__)

EPISODES = RolloutOptions(plan="episodes")
"""Samples of a problem are whole episodes."""


class PassedEpisodes(NamedTuple):
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
) -> PassedEpisodes:
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
    return PassedEpisodes(lessons, episodes, passed, problems, best)


class ExpertIteration(SFTPhase):
    """Rounds of sampling and imitation.

    Args:
        env: The environment to train in; it is reset.
        team: A policy for each agent.
        problems: Starts of the problems that are sampled.
        options: With `source=passes`.
        max_grad_norm: As of `SupervisedTraining`.
        seed: Decides samples and the order of lessons.

    Raises:
        ValueError: If the episodes of a problem would be absurdly many.
    """

    def __init__(
        self,
        env: TextEnv,
        team: Team,
        problems: Sequence[Start],
        options: WarmStartOptions,
        *,
        max_grad_norm: float | None = None,
        seed: int = 0,
    ) -> None:
        self.env, self.team, self.problems = env, team, list(problems)
        self.options = options
        self.max_grad_norm, self.seed = max_grad_norm, seed
        self.round = 0
        """Number of the round that is learned, from 1."""
        self.cost = sampling_cost(env, options, len(self.problems))
        """Upper bound of the cost of all sampling; `None` where the environment does not tell its horizon."""
        learning = trainable_policies(team).values()
        self._agents = [
            agent for agent in team if any(team[agent] is policy for policy in learning)
        ]
        self._before = 0  # steps of earlier rounds
        self._passes: PassedEpisodes | None = None
        self._learning: SupervisedTraining | None = None

    @property
    def steps(self) -> int:
        """Number of complete steps of all rounds."""
        return self._before + (self._learning.steps if self._learning else 0)

    @property
    def total(self) -> int:
        """Number of all steps up to the end of the present round."""
        return self._before + (self._learning.total if self._learning else 0)

    @property
    def done(self) -> bool:
        """True if no step of any round is left."""
        learned = self._learning is not None and self._learning.done
        return learned and self.round >= self.options.rounds

    def announce(self) -> None:
        """Log the cost of all sampling before it begins."""
        options = self.options
        logger.info(
            "warm start on passes: %d problems, %d episodes of each in each of %d rounds: at most %s",
            *(len(self.problems), options.samples, options.rounds),
            self.cost or "an unknown cost, as the environment does not tell its horizon",
        )

    def prepare(self, timer: Timer) -> None:
        """Sample the lessons of the next round, if its turn has come.

        Raises:
            ValueError: If no episode passes, or the environment does not tell which do.
        """
        if self._learning is None or self._learning.done:
            number = self.round + 1
            result = self._sample(number, timer)
            learning = self._make_round(result, number)
            with defer_signals():  # a round has begun, or it has not
                self.round, self._before = number, self.steps
                self._passes, self._learning = result, learning

    def accumulate(self) -> dict[str, float]:
        """Compute the gradient of the next step, and return its row of `metrics.jsonl`.

        Raises:
            FloatingPointError: If the loss or a gradient isn't finite.
        """
        assert self._learning is not None and self._passes is not None, "prepare comes first"
        row = self._learning.accumulate()
        step = {"step": self._before + row.pop("step"), "round": self.round}
        return {**step, **self._passes.row, **row}

    def step(self) -> None:
        """Step along the gradient."""
        assert self._learning is not None
        self._learning.step()

    def _make_round(self, passes: PassedEpisodes, number: int) -> SupervisedTraining:
        order = stream(self.seed, "order of passes", number)
        return SupervisedTraining(
            self.team,
            passes.lessons,
            self.options,
            max_grad_norm=self.max_grad_norm,
            seed=int(order.integers(2**32)),
        )

    def _sample(self, number: int, timer: Timer) -> PassedEpisodes:
        """Play the problems for a round, in all processes together, and keep what passed."""
        seed_policies(self.team, self.seed, "passes", number, index=processes.rank())
        samples = self.options.samples
        size, mine = max(1, MAX_ROWS // samples), processes.shard(self.problems)
        rollouts: list[Rollout] = []
        for first in range(0, len(mine), size):
            part = mine[first : first + size]
            rollouts += collect_rollouts(
                self.env, self.team, part, EPISODES, group_size=samples, timer=timer
            )
        result = passes(processes.gather(rollouts), self._agents, self.options.min_reward)
        if not result.lessons:
            raise ValueError(self._nothing(number, result))
        logger.info(
            "warm start, round %d of %d: %d of %d episodes passed, in %d of %d problems; %d differ",
            *(number, self.options.rounds, result.passed, result.episodes, result.problems),
            *(len(self.problems), len(result.lessons)),
        )
        return result

    def _nothing(self, number: int, result: PassedEpisodes) -> str:
        """Say that nothing passed, and what to do."""
        threshold = self.options.min_reward
        remedies = [
            "raise warm_start.samples",
            "set warm_start.min_reward" if threshold is None else f"lower min_reward={threshold:g}",
            f"begin with {GOLD}",
        ]
        if number > 1:
            remedies.append(
                "lower warm_start.learning_rate, as there were passes in the round before"
            )
        return (
            f"round {number} of the warm start has nothing to imitate: none of {result.episodes} episodes of "
            f"{len(self.problems)} problems passed, and the best ended with a reward of {result.best:g}: "
            f"{', '.join(remedies)}, or drop the warm start"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return rounds, steps and, within a round, its lessons; the policies keep their own.

        A round without a complete step has not begun: its samples are drawn again, and are the same.
        """
        state: dict[str, Any] = {"round": self.round, "before": self._before, "done": self.done}
        if self._learning is None or self.done:
            return {**state, "before": self.steps}
        if not self._learning.steps:
            return {**state, "round": self.round - 1}
        assert self._passes is not None
        lessons = [[asdict(example) for example in lesson] for lesson in self._passes.lessons]
        counts = self._passes._replace(lessons=[])._asdict()
        return {
            **state,
            "lessons": lessons,
            "counts": counts,
            "learning": self._learning.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value, after the policies' weights were loaded."""
        self.round, self._before = state["round"], state["before"]
        self._passes = self._learning = None
        if state["done"]:
            self._learning = SupervisedTraining(self.team, (), self.options)  # with no step left
        elif "lessons" in state:
            lessons = [tuple(map(_example, lesson)) for lesson in state["lessons"]]
            self._passes = PassedEpisodes(**{**state["counts"], "lessons": lessons})
            self._learning = self._make_round(self._passes, self.round)
            self._learning.load_state_dict(state["learning"])


def sampling_cost(env: TextEnv, options: WarmStartOptions, problems: int) -> Cost | None:
    """Return an upper bound of the cost of sampling some problems in all rounds.

    Raises:
        ValueError: If the episodes of a problem would be absurdly many.
    """
    if not isinstance(env, Bounded):
        return None
    plan, agents = RolloutOptions(plan="episodes"), len(env.possible_agents)
    return cost(plan, options.samples, agents, env.num_turns).times(problems * options.rounds)


def _example(values: Mapping[str, Any]) -> SFTExample:
    """Return the example that `asdict` has taken apart."""
    return SFTExample(**{**values, "completion": Completion(**values["completion"])})


def _passes(info: Mapping[str, float], reward: float, min_reward: float | None) -> bool:
    if min_reward is not None:
        return reward >= min_reward
    if "solved" not in info:
        raise ValueError(
            f"{NO_SOLVED}: set warm_start.min_reward to the least reward that counts as a pass"
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
