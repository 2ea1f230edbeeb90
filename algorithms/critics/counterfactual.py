"""The critic of answers: the value of a joint answer, and its value with another answer of one agent.

The counterfactual advantage of COMA (arXiv 1705.08926, eq. 4), with an agent's own G samples in place of all its
actions. With phi the features of the state and of all agents' answers, a_g the joint sample g, and (h, a_g) the
same with agent i's answer h:

    A_ig = Q(x, a_g) - (1/G) sum_h Q(x, (h, a_g)),    Q(x, a) = c(x) + w'phi(x, a)

c(x) cancels, so only w is learned, from differences within groups: w'(phi_g - mean phi) is regressed to y_g - mean
y, with y the returns of `critic.py`. A critic that distinguishes states but not answers would explain much of the
returns, and all its advantages would be 0. This critic then explains nothing, and its gate is closed: A_ig = y_g -
mean y, which is MAGRPO with a critic of later states. The advantage y - Q is never used: it goes to 0 for every
answer as Q becomes accurate.

The critic reads at most G (1 + N (G - 1)) texts for a group, of which G were played; equal texts are read once.

Degenerate cases: equal returns leave the gate closed and teach nothing. An agent whose answers are all equal has
advantages of 0 while Q is used. With one turn no values of later states are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from llm_decpomdp.algorithms.critics.critic import (
    Array,
    Critic,
    Key,
    Record,
    ValueTargets,
    less,
    require_views,
)
from llm_decpomdp.algorithms.critics.options import DEFAULT_INPUT
from llm_decpomdp.algorithms.critics.states import critic_text, history
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout

ANSWERS = "answers"  # name of the critic of answers beside that of states


class _Answers(NamedTuple):
    """The joint answers of a group as the critic reads them."""

    key: Key
    returns: Array  # y less its mean, (G,)
    played: Tensor  # features of the joint samples less their mean, (G, d)
    others: Mapping[str, Tensor]
    """Features of the joint samples less their mean over the answers of an agent, (G, d), for each."""


class CounterfactualCritic(Critic):
    """Values of states and of joint answers; arguments as of `Critic`, for the critic of the team."""

    def assess(self, rollouts: Sequence[Rollout]) -> tuple[list[ValueTargets], dict[str, float]]:
        """Return the advantages of each rollout's joint samples, and metrics.

        Raises:
            ValueError: If joint samples are not aligned, or the rollouts have no views.
        """
        require_views(rollouts)
        value_targets, metrics = super().assess(rollouts)
        answers, texts, cut_parts = self._read_answers(rollouts, value_targets)
        # One flat list for all rollouts, read in the same order by both loops below.
        groups = iter(answers)
        records = [
            [record for _ in rollout.groups for record in self._answer_records(next(groups))]
            for rollout in rollouts
        ]
        pending, explained = self._evaluate(rollouts, records)
        self._pending |= pending
        counts = {key: key in self._heads and self._is_open(key) for key in explained}
        groups = iter(answers)
        advantages = []
        for rollout in rollouts:
            of_turns = [self._advantages(next(groups), counts) for _ in rollout.groups]
            advantages.append({agent: [of[agent] for of in of_turns] for agent in self.agents})
        metrics["critic/cut_parts"] += sum(self._gather([cut_parts]))
        return advantages, {
            **metrics,
            **{f"turn_{turn + 1}/explained_differences": of for (_, turn), of in explained.items()},
            "critic/counterfactual": float(np.mean(list(counts.values()))),
            "critic/answer_texts": float(sum(self._gather([texts]))),
        }

    def _read_answers(
        self, rollouts: Sequence[Rollout], value_targets: Sequence[ValueTargets]
    ) -> tuple[list[_Answers], int, int]:
        """Return the joint answers of each group, and the numbers of texts and of shortened parts."""
        rows: dict[str, int] = {}
        tables = []
        cut_parts = 0
        for rollout, targets in zip(rollouts, value_targets, strict=True):
            for index, group in enumerate(rollout.groups):
                table, num_cut = self._table(rollout, index, rows)
                # One critic of the team gives all agents the same returns.
                returns = targets[self.agents[0]][index]
                tables.append((group, returns, table))
                cut_parts += num_cut
        if not rows:
            return [], 0, 0
        (features,) = self._features.values()
        values = features(list(rows)).cpu().double()
        answers = [_answers(group, returns, table, values) for group, returns, table in tables]
        return answers, len(rows), cut_parts

    def _table(
        self, rollout: Rollout, index: int, rows: dict[str, int]
    ) -> tuple[dict[str, list[list[int]]], int]:
        """Return, for each agent, the rows of the texts of each joint sample with each of its answers, (G, G)."""
        group = rollout.groups[index]
        size = len(group.joint)
        if any(set(sample) != {g} for g, sample in enumerate(group.joint)):
            raise ValueError(
                "a critic of answers needs aligned joint samples, because it estimates the others: sample with "
                "joint_mode='aligned'"
            )
        assert group.view is not None
        options, past = self.options, history(rollout, index)
        kind, limit = options.input or DEFAULT_INPUT, options.part_length
        tables = {agent: [[0] * size for _ in range(size)] for agent in self.agents}
        cut_parts = 0
        for agent, table in tables.items():
            for g, h in product(range(size), repeat=2):
                answers = {
                    name: completions[h if name == agent else g].text
                    for name, completions in group.completions.items()
                }
                text, num_cut = critic_text(kind, group.view, past, None, limit, answers)
                cut_parts += num_cut * (text not in rows)
                table[g][h] = rows.setdefault(text, len(rows))
        return tables, cut_parts

    def _answer_records(self, answers: _Answers) -> list[Record]:
        """Return the joint answers of a group from which a head learns."""
        head = self._heads.get(answers.key)
        features = answers.played.float()
        predictions = head.differences(features) if head else torch.zeros(len(features))
        pairs = zip(predictions.tolist(), answers.returns.tolist(), strict=True)
        return [Record(answers.key, row, *pair) for row, pair in zip(features, pairs, strict=True)]

    def _advantages(self, answers: _Answers, counts: Mapping[Key, bool]) -> dict[str, Array]:
        """Return the advantages of each agent, (G,)."""
        if not counts[answers.key]:
            return dict.fromkeys(self.agents, answers.returns)
        head = self._heads[answers.key]
        return {agent: head.differences(of).numpy() for agent, of in answers.others.items()}


def _answers(
    group: Group, returns: Array, table: Mapping[str, list[list[int]]], values: Tensor
) -> _Answers:
    # In float64, so that differences between equal answers are exactly 0.
    read = {agent: values[torch.tensor(rows)] for agent, rows in table.items()}  # (G, G, d)
    # The diagonal exchanges no answer, so each agent's table has the same there. `diagonal` gives (d, G).
    played = next(iter(read.values())).diagonal().T
    return _Answers(
        (ANSWERS, group.turn),
        less(returns, float(returns.mean())),
        played - played.mean(0),
        {agent: played - of.mean(1) for agent, of in read.items()},
    )
