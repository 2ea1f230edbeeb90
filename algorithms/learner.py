"""The learner: groups of completions become one gradient step of every trainable policy."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from llm_decpomdp.algorithms.baselines import Baseline, Returns, advantages
from llm_decpomdp.algorithms.losses import policy_gradient_loss
from llm_decpomdp.algorithms.rollout import Chain, GroupTurn, distinct_policies
from llm_decpomdp.policy import Team, TrainablePolicy

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Algorithm:
    """What tells one learning algorithm from another."""

    name: str
    baseline: Baseline
    """What the returns of a group, of shape (..., G), are compared with."""
    multi_agent: bool
    """Whether it is meant for teams of more than one agent."""


@dataclass(frozen=True)
class LearnerOptions:
    """How a policy steps along its gradient (AdamW).

    The discount is not among them: each turn is credited with its own reward, as its samples are
    the only ones that differ.
    """

    learning_rate: float
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    """Largest norm of a policy's gradient; a longer one is shortened. `None` leaves all alone."""
    turn_gradient_weights: tuple[float, ...] | None = None
    """Factor of each turn's loss, one for each turn of the horizon; `None` means 1 everywhere."""
    early_termination_weight: float = 1.0
    """Further factor of the last turn of a chain that stopped early."""
    normalize_advantages: bool = False
    """Divide advantages by the standard deviation of their group's returns.

    Tasks with small differences then weigh as much as those with large ones. Nothing is centred
    again, so baselines still differ by their shift."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "weight_decay", "early_termination_weight"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be above 0 or None, got {self.max_grad_norm!r}")
        for weight in self.turn_gradient_weights or ():
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(
                    f"turn_gradient_weights must be finite numbers of at least 0, "
                    f"got {self.turn_gradient_weights!r}"
                )

    def check_horizon(self, num_turns: int) -> None:
        """Raise a `ValueError` unless there is a weight for each of `num_turns` turns."""
        weights = self.turn_gradient_weights
        if weights is not None and len(weights) != num_turns:
            raise ValueError(
                f"turn_gradient_weights needs one weight for each of {num_turns} turns, "
                f"got {weights}"
            )

    def weight(self, chain: Chain, turn: int) -> float:
        """The factor of the loss of `chain`'s turn `turn`, counted from 0."""
        weights = self.turn_gradient_weights
        if weights is not None and len(weights) < len(chain.turns):
            self.check_horizon(len(chain.turns))
        weight = 1.0 if weights is None else weights[turn]
        stopped_here = chain.stopped_early and turn == len(chain.turns) - 1
        return weight * (self.early_termination_weight if stopped_here else 1.0)


def trainable_policies(team: Team) -> dict[str, TrainablePolicy]:
    """The distinct policies with parameters that want gradients, named by their agents."""
    return {
        name: policy
        for name, policy in distinct_policies(team).items()
        if isinstance(policy, TrainablePolicy) and any(p.requires_grad for p in policy.parameters())
    }


class Learner:
    """Updates the trainable policies of a team; a policy that agents share has one optimizer.

    Args:
        team: Agent to policy. Policies that cannot be trained, or have no parameter that wants a
            gradient, take part and stay as they are.
        algorithm: The declaration of the algorithm.
        options: How to step.

    Raises:
        ValueError: If a single-agent algorithm gets a team, or no policy can be trained.
    """

    def __init__(self, team: Team, algorithm: Algorithm, options: LearnerOptions) -> None:
        if len(team) > 1 and not algorithm.multi_agent:
            raise ValueError(
                f"{algorithm.name} trains one agent, and the team has {len(team)}: {sorted(team)}; "
                "use 'magrpo'"
            )
        self.algorithm = algorithm
        self.options = options
        self.policies = trainable_policies(team)
        if not self.policies:
            raise ValueError(f"no policy of the team can be trained; agents: {sorted(team)}")
        self.updates = 0
        """Number of complete updates."""
        self._agents: dict[str, TrainablePolicy] = {
            agent: policy
            for policy in self.policies.values()
            for agent in team
            if team[agent] is policy
        }
        self._optimizers = {name: self._optimizer(name) for name in self.policies}

    def _optimizer(self, name: str) -> torch.optim.AdamW:
        parameters = [p for p in self.policies[name].parameters() if p.requires_grad]
        if any(p.dtype in (torch.bfloat16, torch.float16) for p in parameters):
            logger.warning("%s trains 16-bit weights, which lose small updates; use float32", name)
        options = self.options
        return torch.optim.AdamW(
            parameters, lr=options.learning_rate, weight_decay=options.weight_decay
        )

    def update(self, chains: Sequence[Chain]) -> dict[str, float]:
        """One gradient step of every trainable policy: `accumulate`, then `step`."""
        metrics = self.accumulate(chains)
        self.step()
        return metrics

    def accumulate(self, chains: Sequence[Chain]) -> dict[str, float]:
        """Compute the gradient: the mean over all groups of weight times loss. No weight changes.

        Returns:
            `loss/<agent>`, `grad_norm/<policy>` (before any shortening), `groups`,
            `groups_without_signal` (all advantages 0; skipped) and `completion_tokens` (in the
            loss).

        Raises:
            FloatingPointError: If a reward, loss or gradient isn't finite; names the update and the
                starts.
        """
        self._clear()
        groups = sum(len(chain.turns) for chain in chains)
        losses = dict.fromkeys(self._agents, 0.0)
        silent = tokens = 0
        for chain in chains:
            for turn, group in enumerate(chain.turns):
                weight = self.options.weight(chain, turn) / groups
                signal = self._advantages(group, chain)
                if not signal.any():
                    silent += 1
                if weight == 0 or not signal.any():
                    continue
                for agent in self._agents:
                    losses[agent] += self._backward(agent, group, signal, weight, chain)
                    tokens += sum(len(c.tokens) for c in group.completions[agent])
        return {
            **{f"loss/{agent}": loss for agent, loss in losses.items()},
            **{f"grad_norm/{name}": norm for name, norm in self._grad_norms(chains)},
            "groups": groups,
            "groups_without_signal": silent,
            "completion_tokens": tokens,
        }

    def _advantages(self, group: GroupTurn, chain: Chain) -> Returns:
        returns = np.asarray(group.rewards)
        self._require_finite(float(returns.sum()), "sum of a group's rewards", [chain])
        normalize = self.options.normalize_advantages
        return advantages(returns, self.algorithm.baseline, normalize=normalize)

    def _backward(
        self, agent: str, group: GroupTurn, signal: Returns, weight: float, chain: Chain
    ) -> float:
        policy = self._agents[agent]
        log_probs, mask = policy.log_probs(group.prompts[agent], group.completions[agent])
        advantage = torch.as_tensor(signal, dtype=log_probs.dtype, device=log_probs.device)
        loss = weight * policy_gradient_loss(log_probs, mask, advantage)
        self._require_finite(float(loss.detach()), f"loss of {agent!r}", [chain])
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _grad_norms(self, chains: Sequence[Chain]) -> Iterator[tuple[str, float]]:
        limit = self.options.max_grad_norm or math.inf
        for name, policy in self.policies.items():
            parameters = [p for p in policy.parameters() if p.requires_grad]
            norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit))
            self._require_finite(norm, f"gradient of {name!r}", chains)
            yield name, norm

    def _require_finite(self, value: float, what: str, chains: Sequence[Chain]) -> None:
        if not math.isfinite(value):
            self._clear()
            starts = ", ".join(str(chain.start) for chain in chains)
            raise FloatingPointError(
                f"update {self.updates + 1}: the {what} is {value} for {starts}; no weight was "
                "changed. If the rewards are finite, lower learning_rate or set max_grad_norm"
            )

    def step(self) -> None:
        """Step along the accumulated gradient; policies without one stay as they are."""
        for optimizer in self._optimizers.values():
            optimizer.step()
        self._clear()
        self.updates += 1

    def _clear(self) -> None:
        for optimizer in self._optimizers.values():
            optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """The optimizers' state and the number of updates; the policies keep their own."""
        optimizers = {name: opt.state_dict() for name, opt in self._optimizers.items()}
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
