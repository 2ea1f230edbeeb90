"""The base of all learners: the policies that can be trained, their optimizers, and checked gradient steps.

The learner itself, `accumulate`, is in `learner.py`.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from typing_extensions import get_protocol_members

from llm_decpomdp.agents.models.weights import cut_as, has_shards, whole
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning import shards
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.policy import Team, TrainablePolicy, distinct_policies

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


def learning_rate_factor(update: int, schedule: str, warmup: int, total: int | None) -> float:
    """Return the factor of the learning rate after `update` complete updates.

    It rises linearly from 1/(warmup + 1) over the first `warmup` updates. Then it stays (`constant`), falls
    linearly to 0 (`linear`), or falls along half a cosine (`cosine`, arXiv 1608.03983), by the end of `total`
    updates.
    """
    if update < warmup:
        return (update + 1) / (warmup + 1)
    if schedule == "constant":
        return 1.0
    assert total is not None, schedule
    progress = min((update - warmup) / max(total - warmup, 1), 1.0)
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


class PolicyOptimizer:
    """AdamW for the parameters of a policy, with float32 copies of 16-bit parameters.

    `learning_rate` is that before the schedule. Only matrices decay, not vectors (biases, norms). `fused` takes
    the kernel of torch that reads and writes each weight once.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        learning_rate: float,
        weight_decay: float,
        fused: bool = False,
    ) -> None:
        self.parameters = list(parameters)
        # Most steps are too small to change a 16-bit number, and would be lost without a float32 copy.
        self.masters = [
            torch.nn.Parameter(weight.detach().float())
            if weight.dtype in (torch.bfloat16, torch.float16)
            else weight
            for weight in self.parameters
        ]
        self.learning_rate = learning_rate
        groups = [
            {"params": [m for m in self.masters if m.dim() > 1], "weight_decay": weight_decay},
            {"params": [m for m in self.masters if m.dim() <= 1], "weight_decay": 0.0},
        ]
        # `None` and not False for `fused`: False also turns off `foreach`, which steps many weights in one kernel.
        # AdamW refuses empty groups, such as the vectors of an adapter.
        self._adamw = torch.optim.AdamW(
            [g for g in groups if g["params"]], lr=learning_rate, fused=fused or None
        )

    def clip(self, limit: float | None) -> float:
        """Clip the gradient to the norm `limit`, and return its norm before, in the units of the loss."""
        # An infinite limit only measures the norm.
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, limit or math.inf)
        # Of shards the norm is a distributed tensor, too.
        return float(whole(norm))

    def step(self, factor: float = 1.0) -> None:
        """Step with `factor` times the learning rate; parameters without a gradient do not change."""
        for group in self._adamw.param_groups:
            # Set at each step, and not by torch's schedulers: a resumed run then needs no scheduler state.
            group["lr"] = self.learning_rate * factor
        for parameter, master in self._float_copies():
            master.grad = None if parameter.grad is None else parameter.grad.float()
        self._adamw.step()
        with torch.no_grad():
            for parameter, master in self._float_copies():
                parameter.copy_(master)
        self.clear()

    def clear(self) -> None:
        """Remove all gradients."""
        for tensor in (*self.parameters, *self.masters):
            tensor.grad = None

    @torch.no_grad()
    def reload(self) -> None:
        """Update the float32 copies, after something else has changed the parameters."""
        for parameter, master in self._float_copies():
            master.copy_(parameter)

    def _float_copies(self) -> Iterator[tuple[torch.nn.Parameter, torch.nn.Parameter]]:
        pairs = zip(self.parameters, self.masters, strict=True)
        return ((parameter, master) for parameter, master in pairs if parameter is not master)

    def state_dict(self, keep: bool = True) -> dict[str, Any]:
        """Return moments and float32 copies.

        With shards, all processes call this, and whole tensors are gathered on the CPU; `keep=False` drops them.
        """
        masters = [master.detach() for _, master in self._float_copies()]
        state = {"adamw": self._adamw.state_dict(), "masters": masters}
        return shards.gather_whole(state, keep) if has_shards(self.parameters) else state

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`."""
        adamw = state["adamw"]
        if has_shards(self.parameters):
            adamw = shards.cut_moments(adamw, self._adamw)
        fused = [group["fused"] for group in self._adamw.param_groups]
        self._adamw.load_state_dict(adamw)
        # torch takes the options of the state over; the kernel is one of this process.
        for group, value in zip(self._adamw.param_groups, fused, strict=True):
            group["fused"] = value
        for (_, master), weights in zip(self._float_copies(), state["masters"], strict=True):
            master.copy_(cut_as(weights, master))


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
        self._optimizers: dict[str, PolicyOptimizer] = {
            name: PolicyOptimizer(
                [p for p in policy.parameters() if p.requires_grad],
                options.learning_rate,
                options.weight_decay,
                options.fused_adamw,
            )
            for name, policy in self.policies.items()
        }

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
