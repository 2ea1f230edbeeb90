"""The critic of actor-critics, whose value of the state before a turn is the baseline of its returns.

With x the state before the turn, x'_j the one after joint sample j, and c the joint sample that continues to a
turn with the target y' (`critic.py`):

    A_j = y_j - V(x),    y_j = r_j + discount V(x'_j),    y_c = r_c + discount [V(x'_c) + lambda (y' - V(x'_c))]

V(x) does not depend on the actions, so it is a valid baseline. With G = 1 this is the advantage of GAE, the sum
over k of (discount lambda)^k delta_{t+k} (arXiv 1506.02438, eq. 16). Only joint samples that continue have
observed future rewards; the others end with the estimate V(x'_j). Advantages are not whitened, so a sample that
is alone in its turn keeps its full weight.

While a critic explains nothing of a turn, V is the running mean of its targets: a constant, so equally unbiased.
Before the critic has seen any return of the turn, a joint sample is compared with the joint samples of the turn in
the batch that have another completion of the agent, by their own rewards (as in `marloo.py`, with the batch as the
group). If there are none, its advantage is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from llm_decpomdp.algorithms.critics.counterfactual import CounterfactualCritic
from llm_decpomdp.algorithms.critics.critic import (
    Array,
    Critic,
    Gather,
    Values,
    ValueTargets,
    lambda_targets,
    less,
    require_views,
    sample_returns,
)
from llm_decpomdp.algorithms.critics.head import Trunk, TrunkOptimizer
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.critics.states import Features, StatePosition
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout
from llm_decpomdp.policy import ReferencedPolicy, TrainablePolicy, policy_attribute


class BaselineCritic(Critic):
    """Values of states, and advantages over them; arguments as of `Critic`."""

    reads_first = True

    def assess(self, rollouts: Sequence[Rollout]) -> tuple[list[ValueTargets], dict[str, float]]:
        """Return the advantages of each rollout's joint samples, and metrics; views are needed."""
        require_views(rollouts)
        return super().assess(rollouts)

    def _targets(
        self, states: Mapping[str, Values], rollouts: Sequence[Rollout]
    ) -> list[ValueTargets]:
        value_targets: list[ValueTargets] = [{} for _ in rollouts]
        for name, read in states.items():
            returns = [self._returns(name, read, n, rollout) for n, rollout in enumerate(rollouts)]
            unseen = self._unseen(name, rollouts, returns)
            for number, (rollout, of_turns) in enumerate(zip(rollouts, returns, strict=True)):
                for agent in self._readers(name):
                    advantages = []
                    for index, (group, values) in enumerate(
                        zip(rollout.groups, of_turns, strict=True)
                    ):
                        if agent not in group.completions:  # it waits, so nothing is compared
                            advantages.append(values)
                            continue
                        key = (name, group.turn)
                        baseline: float | Array
                        if key in self._heads:
                            value = read.predictions[StatePosition(number, index)]
                            baseline = self._gate(key, value, None)
                        else:
                            baseline = _mean_of_others(values, unseen[group.turn], group, agent)
                        advantages.append(less(values, baseline))
                    value_targets[number][agent] = advantages
        return value_targets

    def _returns(self, name: str, states: Values, number: int, rollout: Rollout) -> list[Array]:
        """Return y of each turn's joint samples, (J,): their rewards if no later state was seen before."""
        chain = self._chain(name, states, number, rollout)
        discount, trace = self.discount, self.options.td_lambda
        targets = lambda_targets(chain, discount, trace)
        returns = sample_returns(chain, targets, discount, trace)
        return [
            values if (name, group.turn + 1) in self._heads else turn.rewards
            for group, turn, values in zip(rollout.groups, chain, returns, strict=True)
        ]

    def _unseen(
        self, name: str, rollouts: Sequence[Rollout], returns: Sequence[Sequence[Array]]
    ) -> dict[int, Array]:
        """Return all returns of the batch, of all processes, by turn, for turns of which none was seen before."""
        of_rollouts = [
            [
                (group.turn, values)
                for group, values in zip(rollout.groups, of_turns, strict=True)
                if (name, group.turn) not in self._heads
            ]
            for rollout, of_turns in zip(rollouts, returns, strict=True)
        ]
        batch: dict[int, list[Array]] = {}
        for turn, values in self._collect(rollouts, of_rollouts):
            batch.setdefault(turn, []).append(values)
        return {turn: np.concatenate(parts) for turn, parts in batch.items()}


def _mean_of_others(values: Array, batch: Array, group: Group, agent: str) -> Array:
    """Return, for each joint sample, the mean of those with another completion of the agent; else its own value.

    With `joint_mode=cross` and `common`, several joint samples of the group share that completion. A mean over
    them would depend on the completion and remove a part of its gradient. `batch` has all values of the turn.
    """
    answers = np.array(group.joint)[:, list(group.completions).index(agent)]
    same = (answers[:, None] == answers).astype(np.float64)  # (J, J)
    # 0 if every joint sample of the batch has the completion; the value then is its own baseline.
    number = len(batch) - same.sum(1)
    means: Array = (batch.sum() - same @ values) / np.maximum(number, 1)
    return np.where(number > 0, means, values)


ROLES: Mapping[str, type[Critic]] = {
    "future": Critic,
    "baseline": BaselineCritic,
    "counterfactual": CounterfactualCritic,
}
"""Critic by the use of its values: later rewards only, a baseline too, or the agent's other answers too."""


def build_critic(
    options: CriticOptions,
    agents: Mapping[str, TrainablePolicy],
    features: Features | None,
    *,
    role: str,
    discount: float,
    gather: Gather,
) -> Critic:
    """Build the critic of the options, with a role of `ROLES`; other arguments are those of `Critic`.

    Without `features` the model of each agent reads for its own critic, and the first model that can for the
    critic of the team.

    Raises:
        TypeError: If no policy gives features.
        ValueError: If the trunk is to be trained, and no model takes an adapter, or features are given.
    """
    readers = {"team": list(agents.values())}
    if options.scope == "own":
        readers = {agent: [policy] for agent, policy in agents.items()}
    reading: dict[str, Features]
    if options.trunk == "lora":
        if features is not None:
            raise ValueError(
                "critic.trunk=lora trains an adapter of a policy's model, and features are given: set "
                "critic.trunk=frozen, or leave them out"
            )
        rate = options.learning_rate
        reading = {
            name: TrunkOptimizer(_trunk(policies, seed), rate)
            for seed, (name, policies) in enumerate(readers.items())
        }
    else:
        reading = {name: features or _features(policies) for name, policies in readers.items()}
    return ROLES[role](options, reading, agents, discount=discount, gather=gather)


def _features(policies: list[TrainablePolicy]) -> Features:
    """Return the features of the first model that gives some, with its current weights."""
    for policy in policies:
        if isinstance(policy, ReferencedPolicy) and policy_attribute(policy, "features"):
            # Features that change with the policy would mislead the heads.
            policy.keep_reference()
            features: Features = policy_attribute(policy, "features")
            return features
    kinds = ", ".join(sorted({type(policy).__name__ for policy in policies}))
    raise TypeError(
        f"a critic reads with the hidden states of a model, and {kinds} has no features(): set critic=none, or "
        "give the Learner a function from texts to features"
    )


def _trunk(policies: list[TrainablePolicy], seed: int) -> Trunk:
    """Return a new adapter on the first model that stays frozen below adapters."""
    for policy in policies:
        new_trunk = policy_attribute(policy, "new_trunk")
        trunk: Trunk | None = new_trunk(seed) if new_trunk is not None else None
        if trunk is not None:
            return trunk
    raise ValueError(
        "critic.trunk=lora adds an adapter to a model that is frozen below adapters, and no policy has such a "
        "model: full weights would change what the critic reads. Train adapters (lora), or set critic.trunk=frozen"
    )
