"""What all learners have in common: an optimizer for each policy, and steps along a gradient that is checked."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_decpomdp.agents.models.shards import in_shards
from llm_decpomdp.algorithms.critics.critic import Critic
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.optimizer import PolicyOptimizer, learning_rate_factor
from llm_decpomdp.algorithms.learning.trainable import trainable_policies, warn_of_delegates
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.policy import PretrainedPolicy, ReferencedPolicy, Team, TrainablePolicy

logger = logging.getLogger(__name__)


class BaseLearner(ABC):
    """Base of learners; a policy that agents share has one optimizer.

    Args:
        team: Agent to policy. Policies that cannot be trained, or have no parameter that requires a
            gradient, take part and stay as they are.
        algorithm: The declaration of the algorithm.
        options: How to step.

    Raises:
        ValueError: If the algorithm cannot train the team, or no policy can be trained.
    """

    critic: Critic | None = None
    """The critic, if there is one."""

    def __init__(self, team: Team, algorithm: Algorithm, options: LearnerOptions) -> None:
        algorithm.check(team, options)
        self.algorithm = algorithm
        self.options = algorithm.completed(options)
        self.policies = trainable_policies(team)
        if not self.policies:
            raise ValueError(f"no policy of the team can be trained; agents: {sorted(team)}")
        warn_of_delegates(team)
        self.updates = 0
        """Number of complete updates."""
        self.references: dict[str, str] = {}
        """The models that policies are kept near, in words, by policy."""
        self._agents: dict[str, TrainablePolicy] = {
            agent: policy
            for policy in self.policies.values()
            for agent in team
            if team[agent] is policy
        }
        self._optimizers = {
            name: PolicyOptimizer(
                [p for p in policy.parameters() if p.requires_grad],
                options.learning_rate,
                options.weight_decay,
            )
            for name, policy in self.policies.items()
        }

    def _keep_reference(self, name: str, policy: ReferencedPolicy) -> None:
        """Make the present weights of a policy its reference, and say which model that is."""
        policy.keep_reference()
        words = "its weights at the start"
        if isinstance(policy, PretrainedPolicy):
            words = policy.reference_name
        self.references[name] = words
        logger.info(
            "the KL reference of %s is %s: changes by training since then, as in a warm start, count in the KL "
            "divergence",
            *(name, words),
        )

    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Learn from a batch: `accumulate`, then `step`."""
        metrics = self.accumulate(rollouts)
        self.step()
        return metrics

    @property
    def sharded(self) -> bool:
        """True if weights lie in shards: what gathers them is done by all processes at the same time."""
        return any(in_shards(policy.parameters()) for policy in self.policies.values())

    @abstractmethod
    def accumulate(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Compute the gradient, and all steps but the last with this batch; return metrics."""

    @abstractmethod
    def teaches(self, rollout: Rollout) -> bool:
        """Check whether an agent that learns has something to learn from a rollout."""

    def step(self) -> None:
        """Step along the accumulated gradient; policies without one, or with one of 0, stay as they are.

        A policy with a gradient steps along its mean over the newest updates (AdamW's momentum). So weights that
        this batch has no part in, such as embeddings of absent tokens, may move too.
        """
        self._step()
        self.updates += 1

    def _step(self) -> None:
        for optimizer in self._optimizers.values():
            optimizer.step(self._factor())

    def _factor(self) -> float:
        options = self.options
        return learning_rate_factor(
            self.updates, options.lr_schedule, options.warmup_updates, options.total_updates
        )

    def _clear(self) -> None:
        for optimizer in self._optimizers.values():
            optimizer.clear()

    def _grad_norms(self, rollouts: Sequence[Rollout]) -> Iterator[tuple[str, float]]:
        """Add up the gradients of all processes, shorten them, and yield the norms that they had.

        A gradient of 0 is dropped: AdamW would step along its momentum, and decay weights, though the batch has
        nothing to teach.
        """
        for name, optimizer in self._optimizers.items():
            processes.sum_gradients(optimizer.parameters)
            norm = optimizer.clip(self.options.max_grad_norm)
            starts = ", ".join(str(rollout.start) for rollout in rollouts)
            self._require_finite(norm, f"gradient of {name!r}", starts)
            if norm == 0:
                optimizer.clear()
            yield name, norm

    def _require_finite(self, value: float, what: str, starts: str) -> None:
        if not math.isfinite(value):
            self._clear()
            several = self.options.updates_per_batch > 1
            raise FloatingPointError(
                f"update {self.updates + 1}: the {what} is {value} for {starts}; "
                f"{'weights may have changed' if several else 'no weight was changed'}. "
                "If the rewards are finite, lower learning_rate or set max_grad_norm"
            )

    def reread_weights(self) -> None:
        """Go on from the policies' weights as they are now, after something else has changed them."""
        for optimizer in self._optimizers.values():
            optimizer.reread()

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizers' state and the number of updates; the policies keep their own.

        With weights in shards all processes call this, and the first alone gets the optimizers' tensors.
        """
        first = processes.rank() == 0
        optimizers = {name: opt.state_dict(keep=first) for name, opt in self._optimizers.items()}
        return {"updates": self.updates, "optimizers": optimizers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value.

        Raises:
            ValueError: If the state is that of other policies.
        """
        if set(state["optimizers"]) != set(self._optimizers):
            raise ValueError(
                f"the state is of the policies {sorted(state['optimizers'])}, "
                f"the team has {sorted(self._optimizers)}"
            )
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.updates = state["updates"]
