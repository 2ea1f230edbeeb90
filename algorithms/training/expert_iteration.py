"""Expert iteration: a warm start on what the team itself has solved, in rounds of sampling and imitation.

In each round the team plays whole episodes of its training problems, and learns those that end in a pass by the
loss of `sft.py`: filtering is the E step and imitation the M step of maximizing log P(pass) (ReST-EM,
arXiv 2312.06585; expert iteration, arXiv 1705.08439). The completions of all agents that learn, on all turns of a
passing episode, are demonstrations, since all of them led there. Every round continues from the weights of the
round before, with a new AdamW.

Degenerate cases: if nothing passes there is nothing to learn, which is an error. If everything passes, the team
learns to repeat itself. Equal episodes count as one demonstration, so that likely ones do not drown rare ones.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.checks import Bounded, Cost, cost
from llm_decpomdp.algorithms.rollouts.collection import MAX_ROWS, collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import seed_policies
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.callbacks import defer_signals
from llm_decpomdp.algorithms.training.curriculum import NO_SOLVED
from llm_decpomdp.algorithms.training.sft import SupervisedTraining
from llm_decpomdp.algorithms.training.sft_data import Demonstration, SFTExample
from llm_decpomdp.algorithms.training.warm_start import GOLD, WarmStartOptions
from llm_decpomdp.policy import Completion, Dialogue, DialogueTurn, Team, reads_history, turns_after
from llm_decpomdp.seeding import stream

logger = logging.getLogger(__name__)

EPISODES = RolloutOptions(mode="episodes")
"""Samples of a problem are whole episodes."""


class PassedEpisodes(NamedTuple):
    """The passing episodes of a round of sampling."""

    demonstrations: list[Demonstration]  # one for each different passing episode
    episodes: int  # all of them
    passed: int  # equal ones counted
    problems: int  # with a passing episode
    best: float  # the highest reward of a last turn


def passes(
    rollouts: Sequence[Rollout], agents: Collection[str], min_reward: float | None = None
) -> PassedEpisodes:
    """Collect the passing episodes of some problems, one demonstration for equal ones.

    An episode passes if its last joint sample is `solved` or, with `min_reward`, has at least that reward. There
    is one rollout for each problem.

    Raises:
        ValueError: If there is no `min_reward`, and the infos have no `solved`.
    """
    demonstrations: list[Demonstration] = []
    episodes = passed = problems = 0
    best = -float("inf")
    for rollout in rollouts:
        different: dict[Any, Demonstration] = {}
        # A `Parent` is a named tuple, and equals the pairs that are looked up below.
        continued = {group.parent for group in rollout.groups}
        for index, group in enumerate(rollout.groups):
            for sample in range(len(group.joint)):
                if (index, sample) in continued:
                    continue
                episodes += 1
                reward, info = group.rewards[sample], group.infos[sample]
                best = max(best, reward)
                if min_reward is None and "solved" not in info:
                    raise ValueError(
                        f"{NO_SOLVED}: set warm_start.min_reward to the least reward that counts as a pass"
                    )
                if info["solved"] if min_reward is None else reward >= min_reward:
                    passed += 1
                    examples = _find_examples(rollout, index, sample, agents)
                    key = tuple((e.agent, e.prompt, _text(e)) for e in examples)
                    different.setdefault(key, examples)
        problems += bool(different)
        demonstrations += different.values()
    return PassedEpisodes(demonstrations, episodes, passed, problems, best)


class ExpertIteration(SupervisedTraining):
    """Rounds of sampling and imitation.

    The seed decides samples and the order of demonstrations; other arguments are those of `SupervisedTraining`.

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
        super().__init__(team, (), options, max_grad_norm=max_grad_norm, seed=seed)
        self.env, self.team, self.problems = env, team, list(problems)
        self.round = 0
        """Number of the round that is learned, from 1."""
        self.cost: Cost | None = None
        """Upper bound of the cost of all sampling; `None` if the environment does not tell its horizon."""
        if isinstance(env, Bounded):
            of_problem = cost(EPISODES, options.samples, len(env.possible_agents), env.num_turns)
            self.cost = of_problem.times(len(self.problems) * options.rounds)
        self._passes = PassedEpisodes([], 0, 0, 0, 0.0)

    @property
    def done(self) -> bool:
        """True if no step of any round is left."""
        return super().done and self.round >= self.options.rounds

    def announce(self) -> None:
        """Log the cost of all sampling before it begins."""
        logger.info(
            "warm start on passes: %d problems, %d episodes of each in each of %d rounds: at most %s",
            len(self.problems),
            self.options.samples,
            self.options.rounds,
            self.cost or "an unknown cost, as the environment does not tell its horizon",
        )

    def prepare(self, timer: Timer) -> None:
        """Sample the demonstrations of the next round, if the present one is over.

        Raises:
            ValueError: If no episode passes, or the environment does not tell which do.
        """
        if self.steps < self.total:
            return
        number = self.round + 1
        passing = self._sample(number, timer)
        encoded = self.encode(passing.demonstrations)
        with defer_signals():  # a round has begun, or it has not
            self.round, self._passes = number, passing
            self.begin_round(passing.demonstrations, encoded, self._order_seed(number))

    def _order_seed(self, number: int) -> int:
        return int(stream(self.seed, "order of passes", number).integers(2**32))

    def accumulate(self) -> dict[str, float]:
        """Compute the gradient of the next step, and return its row of `metrics.jsonl`."""
        row, passing = super().accumulate(), self._passes
        return {
            "step": row.pop("step"),
            "round": self.round,
            "sampled_episodes": passing.episodes,
            "pass_rate": passing.passed / passing.episodes,
            "solved_problems": passing.problems,
            **row,
        }

    def _sample(self, number: int, timer: Timer) -> PassedEpisodes:
        """Play the problems for a round, in all processes together, and keep what passed."""
        seed_policies(self.team, self.seed, "passes", number, index=processes.rank())
        samples, options = self.options.samples, self.options
        size, mine = max(1, MAX_ROWS // samples), processes.shard(self.problems)
        rollouts: list[Rollout] = []
        for first in range(0, len(mine), size):
            starts = mine[first : first + size]
            rollouts += collect_rollouts(
                self.env, self.team, starts, EPISODES, group_size=samples, timer=timer
            )
        passing = passes(processes.gather(rollouts), self.policy_names, options.min_reward)
        if not passing.demonstrations:
            remedies = ["raise warm_start.samples"]
            if options.min_reward is None:
                remedies.append("set warm_start.min_reward")
            else:
                remedies.append(f"lower min_reward={options.min_reward:g}")
            remedies.append(f"begin with {GOLD}")
            if number > 1:
                remedies.append(
                    "lower warm_start.learning_rate, as there were passes in the round before"
                )
            raise ValueError(
                f"round {number} of the warm start has nothing to imitate: none of {passing.episodes} episodes of "
                f"{len(self.problems)} problems passed, and the best ended with a reward of {passing.best:g}: "
                f"{', '.join(remedies)}, or drop the warm start"
            )
        logger.info(
            "warm start, round %d of %d: %d of %d episodes passed, in %d of %d problems; %d differ",
            number,
            options.rounds,
            passing.passed,
            passing.episodes,
            passing.problems,
            len(self.problems),
            len(passing.demonstrations),
        )
        return passing

    def state_dict(self) -> dict[str, Any]:
        """Return rounds, steps and, within a round, its demonstrations; the policies keep their own.

        A round without a complete step has not begun: its samples are drawn again, and are the same.
        """
        state = {"round": self.round, "before": self._first, "done": self.done}
        if self.done or not self._batches:
            return {**state, "before": self.steps}
        if self.steps == self._first:
            return {**state, "round": self.round - 1}
        examples = [list(map(_row, examples)) for examples in self._passes.demonstrations]
        counts = {k: v for k, v in self._passes._asdict().items() if k != "demonstrations"}
        return {**state, "lessons": examples, "counts": counts, "learning": super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value, after the policies' weights were loaded."""
        self.round, self.steps = state["round"], state["before"]
        self.begin_round((), (), self.seed)
        if "lessons" in state:
            chatting = [agent for agent, policy in self.team.items() if reads_history(policy)]
            examples = [_read_demonstration(rows, chatting) for rows in state["lessons"]]
            # Earlier versions wrote an empty list under `lessons`, too.
            counts = {key: value for key, value in state["counts"].items() if key != "lessons"}
            self._passes = PassedEpisodes(examples, **counts)
            self.begin_round(examples, self.encode(examples), self._order_seed(self.round))
            super().load_state_dict(state["learning"])


def _find_examples(
    rollout: Rollout, group: int, sample: int, agents: Collection[str]
) -> Demonstration:
    """Return the agents' prompts and completions on the way to a joint sample, the last turn first."""
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


def _text(example: SFTExample) -> str:
    completion = example.completion
    return completion.text if isinstance(completion, Completion) else completion


def _row(example: SFTExample) -> dict[str, Any]:
    """Return an example as plain values, without the history of its prompt: the examples before it have it."""
    return {**asdict(example), "prompt": str(example.prompt)}


def _read_demonstration(
    rows: Sequence[Mapping[str, Any]], with_history: Collection[str]
) -> Demonstration:
    """Return the demonstration of rows, the last turn first, with histories for some agents."""
    examples: list[SFTExample] = []
    histories: dict[str, tuple[DialogueTurn, ...]] = {}
    for row in reversed(rows):
        agent, completion = row["agent"], Completion(**row["completion"])
        turns = histories.get(agent)
        prompt = Dialogue(row["prompt"], turns) if turns else row["prompt"]
        if agent in with_history:
            histories[agent] = turns_after(prompt, completion)
        examples.append(SFTExample(agent, prompt, completion))
    return tuple(reversed(examples))
