"""The learner: groups of completions become gradient steps of every trainable policy."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import get_protocol_members

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.advantages import Lesson, lessons
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.baselines import none
from llm_decpomdp.algorithms.learning.losses import (
    REDUCTIONS,
    clipped_surrogate,
    kl_divergence,
    kl_estimate,
    policy_gradient,
)
from llm_decpomdp.algorithms.learning.optimizer import PolicyOptimizer, learning_rate_factor
from llm_decpomdp.algorithms.learning.options import LearnerOptions
from llm_decpomdp.algorithms.learning.token_metrics import Tally
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, distinct_policies
from llm_decpomdp.policy import Completion, ReferencedPolicy, Team, TrainablePolicy

logger = logging.getLogger(__name__)

TRAINABLE = get_protocol_members(TrainablePolicy)
"""What a trainable policy has."""


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
        TypeError: If the divergence from a reference is wanted and a policy keeps none.
        ValueError: If a single-agent algorithm gets a team, no policy can be trained, or advantages would
            be without bounds.
    """

    def __init__(self, team: Team, algorithm: Algorithm, options: LearnerOptions) -> None:
        if len(team) > 1 and not algorithm.multi_agent:
            raise ValueError(
                f"{algorithm.name} trains one agent, and the team has {len(team)}: {sorted(team)}; "
                "use 'magrpo'"
            )
        if (
            algorithm.baseline is none
            and options.normalize_advantages
            and not options.max_grad_norm
        ):
            raise ValueError(
                f"{algorithm.name} compares returns with nothing, so normalize_advantages makes advantages of "
                "hundreds where they are nearly equal: set max_grad_norm, or normalize_advantages=False"
            )
        self.algorithm = algorithm
        self.options = options
        self.policies = trainable_policies(team)
        if not self.policies:
            raise ValueError(f"no policy of the team can be trained; agents: {sorted(team)}")
        _warn_of_delegates(team)
        self.updates = 0
        """Number of complete updates."""
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
        if options.kl_coefficient:
            for name, policy in self.policies.items():
                _referenced(name, policy).keep_reference()

    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Learn from a batch: `accumulate`, then `step`."""
        metrics = self.accumulate(rollouts)
        self.step()
        return metrics

    def accumulate(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Compute the gradient: the mean over starts of their groups' losses, added up with their weights.

        With n `updates_per_batch` the first n - 1 steps are taken here, and the gradient is that of the
        last. No weight changes otherwise. Groups without signal are counted and skipped.

        Returns:
            See `Tally`, with `learning_rate` and `grad_norm/<policy>` (before any shortening).

        Raises:
            FloatingPointError: If a return, loss or gradient isn't finite; names the update and the
                starts.
        """
        self._clear()
        found = self._lessons(rollouts)
        groups = processes.total(len(found))
        # Neither silent groups nor turns that a rollout lacks change what the other groups weigh: a divisor
        # that depended on the samples would bias the gradient.
        starts = processes.total(len(rollouts))
        loud = [lesson for lesson in found if lesson.weight and (self._pulled or not lesson.silent)]
        old: dict[tuple[int, str], Tensor] = {}
        for epoch in range(self.options.updates_per_batch):
            if epoch:
                self._step()
            tally = Tally(self._agents)
            for index, lesson in enumerate(loud):
                for agent, advantages in lesson.advantages.items():
                    if self._pulled or advantages.any():
                        self._backward(index, lesson, agent, starts, old, tally)
            norms = dict(self._grad_norms(rollouts))
        silent = processes.total(sum(lesson.silent for lesson in found))
        return {
            **tally.metrics(),
            **{f"grad_norm/{name}": norm for name, norm in norms.items()},
            "learning_rate": self.options.learning_rate * self._factor(),
            "groups": groups,
            "groups_without_signal": silent,
        }

    @property
    def _pulled(self) -> bool:
        """Whether the reference pulls on completions that teach nothing else."""
        return self.options.kl_coefficient > 0

    def _lessons(self, rollouts: Sequence[Rollout]) -> list[Lesson]:
        try:
            return list(lessons(rollouts, self._agents, self.algorithm.baseline, self.options))
        except FloatingPointError as error:
            raise FloatingPointError(f"update {self.updates + 1}: {error}") from None

    def _backward(
        self,
        index: int,
        lesson: Lesson,
        agent: str,
        starts: float,
        old: dict[tuple[int, str], Tensor],
        tally: Tally,
    ) -> None:
        """Add the gradient of one agent's loss, and count it."""
        options, policy = self.options, self._agents[agent]
        prompt, completions = lesson.group.prompts[agent], lesson.group.completions[agent]
        log_probs, mask = policy.log_probs(prompt, completions)  # (G, T)
        if options.truncated == "mask":
            kept = [float(not completion.truncated) for completion in completions]
            mask = mask * torch.tensor(kept, dtype=mask.dtype, device=mask.device).unsqueeze(1)
        before = old.setdefault((index, agent), log_probs.detach())
        advantages = torch.as_tensor(lesson.advantages[agent]).to(log_probs)
        if options.updates_per_batch == 1:
            terms = policy_gradient(log_probs, advantages)
        else:
            terms = clipped_surrogate(log_probs, before, advantages, options.clip_range)
        ratio = (log_probs.detach() - before).exp()
        told = {
            "entropy": -log_probs.detach(),
            "clip_fraction": (ratio - 1).abs() > options.clip_range,
            "mismatch": (log_probs.detach() - _sampled(completions, log_probs)).abs(),
        }
        if options.kl_coefficient:
            assert isinstance(policy, ReferencedPolicy), policy
            reference, _ = policy.reference_log_probs(prompt, completions)
            terms = terms + options.kl_coefficient * kl_divergence(log_probs, reference, mask)
            told["kl"] = kl_estimate(log_probs, reference)
        reduce = REDUCTIONS[options.loss]
        loss = lesson.weight / starts * reduce(terms, mask, options.fixed_length or 1)
        self._require_finite(float(loss.detach()), f"loss of {agent!r}", str(lesson.start))
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        tally.add(agent, loss.detach(), mask, told)

    def _grad_norms(self, rollouts: Sequence[Rollout]) -> Iterator[tuple[str, float]]:
        for name, optimizer in self._optimizers.items():
            processes.sum_gradients(optimizer.parameters)
            norm = optimizer.clip(self.options.max_grad_norm)
            starts = ", ".join(str(rollout.start) for rollout in rollouts)
            self._require_finite(norm, f"gradient of {name!r}", starts)
            yield name, norm

    def _require_finite(self, value: float, what: str, starts: str) -> None:
        if not math.isfinite(value):
            self._clear()
            changed = self.options.updates_per_batch > 1
            raise FloatingPointError(
                f"update {self.updates + 1}: the {what} is {value} for {starts}; "
                f"{'weights may have changed' if changed else 'no weight was changed'}. "
                "If the rewards are finite, lower learning_rate or set max_grad_norm"
            )

    def step(self) -> None:
        """Step along the accumulated gradient; policies without one stay as they are."""
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


def _sampled(completions: Sequence[Completion], like: Tensor) -> Tensor:
    """The sampler's log-probabilities, padded as `like`, (G, T); not a number where it told none."""
    known = torch.full_like(like, torch.nan)
    for row, completion in zip(known, completions, strict=True):
        row[: len(completion.log_probs)] = torch.tensor(completion.log_probs).to(row)
    return known


def _warn_of_delegates(team: Team) -> None:
    """Say which policies stay as they are because their classes do not have what they answer to."""
    for name, policy in distinct_policies(team).items():
        if hasattr(policy, "parameters") and not isinstance(policy, TrainablePolicy):
            missing = sorted(each for each in TRAINABLE if not hasattr(type(policy), each))
            logger.warning(
                "the policy of %s is not trained: its class %s has no %s; what it hands on by __getattr__ "
                "does not count",
                *(name, type(policy).__name__, ", ".join(missing)),
            )


def _referenced(name: str, policy: TrainablePolicy) -> ReferencedPolicy:
    if not isinstance(policy, ReferencedPolicy):
        raise TypeError(
            f"kl_coefficient needs policies that keep a reference, and {name!r} is a "
            f"{type(policy).__name__}; set kl_coefficient=0"
        )
    return policy
