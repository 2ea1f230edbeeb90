"""The base of all learners: the policies that can be trained, their optimizers, and checked gradient steps."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from typing_extensions import get_protocol_members

from llm_decpomdp.agents.models.weights import has_shards
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.optimizer import PolicyOptimizer, learning_rate_factor
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.policy import (
    ReferencedPolicy,
    Team,
    TrainablePolicy,
    distinct_policies,
    policy_attribute,
)

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.critics.critic import Critic

logger = logging.getLogger(__name__)


def trainable_policies(team: Team) -> dict[str, TrainablePolicy]:
    """Return the distinct policies with parameters that require gradients, named by their agents."""
    return {
        name: policy
        for name, policy in distinct_policies(team).items()
        if isinstance(policy, TrainablePolicy) and any(p.requires_grad for p in policy.parameters())
    }


def warn_of_delegates(team: Team) -> None:
    """Warn of policies with `parameters` whose classes are no `TrainablePolicy`, such as wrappers."""
    for agents, policy in distinct_policies(team).items():
        if hasattr(policy, "parameters") and not isinstance(policy, TrainablePolicy):
            members = get_protocol_members(TrainablePolicy)
            missing = sorted(name for name in members if not hasattr(type(policy), name))
            logger.warning(
                "the policy of %s is not trained: its class %s has no %s; members that it forwards by __getattr__ "
                "do not count",
                agents,
                type(policy).__name__,
                ", ".join(missing),
            )


class BaseLearner(ABC):
    """Base of learners; a policy that agents share has one optimizer.

    Args:
        team: Agent to policy. Policies that cannot be trained, or have no parameter that requires a gradient, take
            part and do not change.
        algorithm: The algorithm. The learner trains with a copy of it.
        options: Loss, optimizer and schedule.

    Raises:
        ValueError: If the algorithm cannot train the team, or no policy can be trained.
    """

    critic: Critic | None = None
    """The critic, if there is one."""
    has_opponent = False
    """Whether its pairs have one side from another team, or from an earlier visit of the start."""
    uses_sampling_probabilities = True
    """Whether the gradient depends on which policy has sampled, so that older samples need a correction."""

    def __init__(self, team: Team, algorithm: Algorithm, options: LearnerOptions) -> None:
        algorithm.check(team, options)
        # A copy, because two learners of one declaration must not share its state.
        self.algorithm = deepcopy(algorithm)
        self.options = algorithm.complete_options(options)
        self.policies = trainable_policies(team)
        # Optimizers copy weights, so all processes must have the same ones before any is built.
        for policy in self.policies.values():
            processes.broadcast_parameters(policy.parameters())
        if not self.policies:
            raise ValueError(f"no policy of the team can be trained; agents: {sorted(team)}")
        warn_of_delegates(team)
        self.updates = 0
        """Number of complete updates."""
        self.references: dict[str, str] = {}
        """Description of the reference model of each policy that has one."""
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
                options.fused_adamw,
            )
            for name, policy in self.policies.items()
        }

    def _keep_references(self, needed_by: str, remedy: str) -> None:
        """Make the current weights of each policy its reference, and log which model that is.

        `needed_by` and `remedy` are for the `TypeError` of a policy that keeps no reference.
        """
        for name, policy in self.policies.items():
            if not isinstance(policy, ReferencedPolicy):
                raise TypeError(
                    f"{needed_by} needs policies that keep a reference, and {name!r} is a "
                    f"{type(policy).__name__}; {remedy}"
                )
            policy.keep_reference()
            words = policy_attribute(policy, "reference_name") or "its weights at the start"
            self.references[name] = words
            logger.info(
                "the KL reference of %s is %s: changes by training since then, as in a warm start, count in the "
                "KL divergence",
                name,
                words,
            )

    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Learn from a batch: `accumulate`, then `step`."""
        metrics = self.accumulate(rollouts)
        self.step()
        return metrics

    @property
    def agents(self) -> list[str]:
        """The agents whose policies learn."""
        return list(self._agents)

    @property
    def is_sharded(self) -> bool:
        """True if weights are sharded: all processes then have to gather them at the same time."""
        return any(has_shards(policy.parameters()) for policy in self.policies.values())

    @abstractmethod
    def accumulate(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Compute the gradient, and take all steps but the last with this batch; return metrics."""

    @abstractmethod
    def has_learning_signal(self, rollout: Rollout) -> bool:
        """Check whether an agent that learns has something to learn from a rollout."""

    def step(self) -> None:
        """Step along the accumulated gradient; policies whose gradient is missing or 0 do not change.

        With AdamW's momentum, weights without a gradient in this batch may change too.
        """
        self._step_optimizers()
        self.updates += 1

    def _step_optimizers(self) -> None:
        for optimizer in self._optimizers.values():
            optimizer.step(self._factor())

    def _factor(self) -> float:
        options = self.options
        total = options.total_updates
        return learning_rate_factor(
            self.updates, options.lr_schedule, options.warmup_updates, total
        )

    def _clear(self) -> None:
        for optimizer in self._optimizers.values():
            optimizer.clear()

    def _sum_and_clip_gradients(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Add up the gradients of all processes, clip them, and return their norms before clipping."""
        norms = {}
        for name, optimizer in self._optimizers.items():
            processes.sum_gradients(optimizer.parameters)
            norm = optimizer.clip(self.options.max_grad_norm)
            starts = ", ".join(str(rollout.start) for rollout in rollouts)
            self._require_finite(norm, f"gradient of {name!r}", starts)
            if norm == 0:
                # AdamW would step along its momentum and decay weights, although the batch taught nothing.
                optimizer.clear()
            norms[name] = norm
        return norms

    def _require_finite(self, value: float, what: str, starts: str) -> None:
        if not math.isfinite(value):
            # A caller that catches the error and steps must not use a part of the gradient.
            self._clear()
            several = self.options.num_iterations > 1
            raise FloatingPointError(
                f"update {self.updates + 1}: the {what} is {value} for {starts}; "
                f"{'weights may have changed' if several else 'no weight was changed'}. "
                "If the rewards are finite, lower learning_rate or set max_grad_norm"
            )

    def reload_master_weights(self) -> None:
        """Continue from the policies' current weights, after something else has changed them."""
        for optimizer in self._optimizers.values():
            optimizer.reload()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of optimizers, critic and algorithm, and the number of updates.

        The policies keep their own state. With sharded weights all processes call this, and only the first gets
        the optimizers' tensors.
        """
        first = processes.rank() == 0
        optimizers = {name: opt.state_dict(keep=first) for name, opt in self._optimizers.items()}
        state: dict[str, Any] = {"updates": self.updates, "optimizers": optimizers}
        if self.critic:
            state["critic"] = self.critic.state_dict()
        if of_algorithm := self.algorithm.state_dict():
            state["algorithm"] = of_algorithm
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`; raise a `ValueError` if it is of other policies."""
        if set(state["optimizers"]) != set(self._optimizers):
            raise ValueError(
                f"the state is of the policies {sorted(state['optimizers'])}, "
                f"the team has {sorted(self._optimizers)}"
            )
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.updates = state["updates"]
        if self.critic:
            self.critic.load_state_dict(state["critic"])
        # Checkpoints of version 0.x have the state of `rae` under the key `running`.
        if of_algorithm := state.get("algorithm", state.get("running")):
            self.algorithm.load_state_dict(of_algorithm)
