"""A reward model that is fitted anew as the team changes (iterated RLHF, arXiv 2203.02155 §3; for teams MARLHF).

Answers of a team that learns drift away from those that its reward model was trained on, and scores of what nobody
compared say little. After every n updates the model is fitted to the newest pairs of what the team has said in the
run, of which the task's reward prefers one: of a group's J joint samples the best with the worst, the second best
with the second worst, and so on, as long as rewards differ. The fit is that of `reward_model.py`, from nothing;
scores are centred on the new pairs.

Degenerate cases: while there are fewer than `LEAST` pairs the model stays as it is. One that is fitted to two of
them is no better than chance, and its scores have no scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rewards.comparisons import Comparison, Sample
from llm_decpomdp.algorithms.rewards.options import RewardModelOptions
from llm_decpomdp.algorithms.rewards.reward_model import RewardModel, fit_reward_model
from llm_decpomdp.algorithms.rewards.scorer import RewardModelScorer
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout

MOST = 512
"""Number of the newest pairs that a model is fitted to; more if an update has more."""

LEAST = 16
"""Fewest pairs that a model is fitted to."""

PER_GROUP = 4
"""Most pairs of a group."""


class RewardModelUpdater:
    """Fits the reward model of a judge anew.

    Args:
        judge: The judge.
        every: Number of updates between fits.
        seed: Draws what is held out.
    """

    def __init__(self, judge: RewardModelScorer, every: int, seed: int) -> None:
        self.judge, self.every, self.seed = judge, every, seed
        self.comparisons: list[Comparison] = []

    def observe(self, update: int, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Add the pairs of an update, and fit the model if it is time to.

        Args:
            update: Counted from 1.
            rollouts: All of the update, in the first process.

        Returns:
            After a fit, `reward_model/pairs` and `reward_model/held_out_accuracy`, and else nothing.
        """
        pairs = processes.broadcast(
            [
                pair
                for rollout in rollouts
                for group in rollout.groups
                for pair in compared(str(rollout.start), group)
            ]
        )
        self.comparisons = [*self.comparisons, *pairs][-max(MOST, len(pairs)) :]
        if update % self.every or len(self.comparisons) < LEAST:
            return {}
        before = self.judge.model
        options = RewardModelOptions(part_length=before.part_length, seed=self.seed)
        model = fit_reward_model(self.comparisons, before.agents, self.judge.features, options)
        self.judge.model = processes.broadcast(model)
        return {
            "reward_model/pairs": model.report["pairs"],
            "reward_model/held_out_accuracy": model.report["accuracy"],
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the pairs and the model."""
        rows = [(task, tuple(winner), tuple(loser)) for task, winner, loser in self.comparisons]
        return {"comparisons": rows, "model": dict(vars(self.judge.model))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        self.comparisons = [
            Comparison(task, Sample(*winner), Sample(*loser))
            for task, winner, loser in state["comparisons"]
        ]
        self.judge.model = RewardModel(**state["model"])


def compared(task: str, group: Group) -> Iterator[Comparison]:
    """Yield the pairs of a group by the task's reward, at most `PER_GROUP`."""
    order = np.argsort(group.rewards, kind="stable").tolist()
    for worse, better in list(zip(order, reversed(order), strict=True))[
        : min(PER_GROUP, len(order) // 2)
    ]:
        if group.rewards[better] > group.rewards[worse]:
            yield Comparison(task, _sample(group, better), _sample(group, worse))


def _sample(group: Group, joint: int) -> Sample:
    texts = {
        agent: completions[index].text
        for (agent, completions), index in zip(
            group.completions.items(), group.joint[joint], strict=True
        )
    }
    return Sample(dict(group.prompts), texts)
