"""The critic of actor-critics: its value of the state before a turn is what returns are compared with.

With x the state before the turn, x'_j the one after joint sample j, and c the joint sample that goes on to a turn
whose target is y' (`targets.py`):

    A_j = y_j - V(x),    y_j = r_j + discount V(x'_j),    y_c = r_c + discount [V(x'_c) + lambda (y' - V(x'_c))]

V(x) does not depend on the actions, so that it is a baseline. Where G = 1 this is the advantage of GAE, the sum
over k of (discount lambda)^k delta_{t+k} (arXiv 1506.02438, eq. 16). Only joint samples that go on have a future;
the others end with V(x'_j), and so learn from the critic's guess. Nothing is whitened: a sample that is alone in
its turn weighs like any other.

While a critic explains nothing of a turn, V is the running mean of its targets: a constant, and so as unbiased.
Before it has seen any return of the turn, joint samples are compared with the others of the turn in the batch, by
their own rewards (as `marloo.py` does, with the batch for a group), and one without others learns nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from llm_decpomdp.algorithms.critics.critic import Critic, Key, Values, require_views
from llm_decpomdp.algorithms.critics.states import Place
from llm_decpomdp.algorithms.critics.targets import (
    Array,
    Outlook,
    lambda_targets,
    less,
    sample_returns,
)
from llm_decpomdp.algorithms.rollouts.rollout import Rollout


class BaselineCritic(Critic):
    """Values of states, and advantages over them.

    Arguments as of `Critic`.
    """

    reads_first = True

    def assess(self, rollouts: Sequence[Rollout]) -> tuple[list[Outlook], dict[str, float]]:
        """Return the advantages of each rollout's joint samples, and metrics as of `Critic.assess`.

        Raises:
            ValueError: If the rollouts have no views.
        """
        require_views(rollouts)
        return super().assess(rollouts)

    def _outlooks(
        self,
        states: Mapping[str, Values],
        rollouts: Sequence[Rollout],
        explained: Mapping[Key, float],
    ) -> list[Outlook]:
        outlooks: list[Outlook] = [{} for _ in rollouts]
        for name, read in states.items():
            returns = [
                self._returns(name, read, number, rollout, explained)
                for number, rollout in enumerate(rollouts)
            ]
            unseen = self._unseen(name, rollouts, returns)
            for number, (rollout, of_turns) in enumerate(zip(rollouts, returns, strict=True)):
                advantages = []
                for index, values in enumerate(of_turns):
                    key = (name, rollout.groups[index].turn)
                    if key in self._heads:
                        value = read.predictions[Place(number, index)]
                        baseline: float | Array = self._gated(key, value, explained, None)
                    else:
                        baseline = _mean_of_others(values, unseen[key[1]])
                    advantages.append(less(values, baseline))
                outlooks[number] |= dict.fromkeys(self._readers(name), advantages)
        return outlooks

    def _returns(
        self,
        name: str,
        states: Values,
        number: int,
        rollout: Rollout,
        explained: Mapping[Key, float],
    ) -> list[Array]:
        """Return y of each turn's joint samples, (J,): their rewards where no later state was seen before."""
        chain = self._chain(name, states, number, rollout, explained)
        discount, trace = self.discount, self.options.critic_lambda
        targets = lambda_targets(chain, discount, trace)
        return [
            values if (name, group.turn + 1) in self._heads else turn.rewards
            for group, turn, values in zip(
                rollout.groups,
                chain,
                sample_returns(chain, targets, discount, trace),
                strict=True,
            )
        ]

    def _unseen(
        self, name: str, rollouts: Sequence[Rollout], returns: Sequence[Sequence[Array]]
    ) -> dict[int, Array]:
        """Return all returns of the batch, in all processes, of each turn of which none was seen before."""
        found = [
            (group.turn, values)
            for rollout, of_turns in zip(rollouts, returns, strict=True)
            for group, values in zip(rollout.groups, of_turns, strict=True)
            if (name, group.turn) not in self._heads
        ]
        batch: dict[int, list[Array]] = {}
        for turn, values in self._gather(found):
            batch.setdefault(turn, []).append(values)
        return {turn: np.concatenate(parts) for turn, parts in batch.items()}


def _mean_of_others(values: Array, batch: Array) -> Array:
    """Return the mean of all values of the batch but each itself; itself where there is no other."""
    if len(batch) == 1:
        return values
    means: Array = (batch.sum() - values) / (len(batch) - 1)
    return means
