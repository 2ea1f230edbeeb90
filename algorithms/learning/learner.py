"""The learner: groups of completions become gradient steps of every trainable policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning import shards
from llm_decpomdp.algorithms.learning.advantages import (
    GroupAdvantages,
    ValueTargets,
    group_advantages,
    progress,
)
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.losses import (
    LossInputs,
    TokenMetrics,
    check_log_probs,
    check_outputs,
    mask_terms,
)
from llm_decpomdp.algorithms.learning.passes import (
    LossItem,
    check_passes,
    fill_passes,
    group_by_prompt,
    loss_items,
    split_by_prompt,
)
from llm_decpomdp.algorithms.rollouts.lanes import in_lanes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.policy import Completion, Team, TrainablePolicy, policy_attribute

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.critics.states import Features
    from llm_decpomdp.algorithms.learning.role_deviation import RoleDeviation


@dataclass(frozen=True)
class BatchStep:
    """One step with a batch: the divisor of its loss, and what its passes record."""

    starts: float
    """Number of starts in all processes, which the losses are divided by."""
    old_log_probs: dict[tuple[int, str], Tensor]
    """Log-probabilities before the first step with the batch, (G, T), by position of the group and agent."""
    log_ratios: Sequence[dict[str, Tensor]]
    """log(pi / pi_old) of the completions, (G,), by group and agent."""
    metrics: TokenMetrics
    """Sums over the tokens of the step."""


class Learner(BaseLearner):
    """Updates the trainable policies of a team by the advantages and the loss of an algorithm.

    Args:
        team: Agent to policy. Policies that cannot be trained, or have no parameter that requires a gradient, take
            part and do not change.
        algorithm: The algorithm.
        options: Loss, optimizer and schedule.
        features: Features of the texts that a critic reads; by default those of the policies' own models.

    Raises:
        TypeError: If the loss needs a reference and a policy keeps none, `overlong_buffer_len` is set and a policy
            does not report its token limit, or there is a critic and no policy gives features.
        ValueError: If the algorithm cannot train the team with these options, no policy can be trained, or there
            is a correction (`importance_sampling`) and a policy samples from a part of its distribution.
    """

    def __init__(
        self,
        team: Team,
        algorithm: Algorithm,
        options: LearnerOptions,
        features: Features | None = None,
    ) -> None:
        super().__init__(team, algorithm, options)
        options = self.options
        overlong = options.truncation.overlong_buffer_len
        self._limits: dict[str, int] = {}
        if overlong:
            from llm_decpomdp.algorithms.learning.completion_values import token_limit

            self._limits = {a: token_limit(a, p, overlong) for a, p in self._agents.items()}
        self._uses_reference = algorithm.needs_reference(options)
        if self._uses_reference:
            from llm_decpomdp.algorithms.learning.kl import keep_references

            by_option = bool(options.kl.coefficient)
            self.references = keep_references(
                self.policies,
                "kl.coefficient" if by_option else algorithm.name,
                "set kl.coefficient=0" if by_option else "use magrpo",
            )
        if options.importance_sampling.mode != "none":
            from llm_decpomdp.algorithms.learning import importance_sampling

            importance_sampling.require_whole_distribution(self._agents)
        self.critic = self.algorithm.make_critic(options, self._agents, features, processes.gather)
        self._summaries: list[Any] = []
        self.role_deviation: RoleDeviation | None = None
        """Running deviations of the agents' advantages, with `normalize_advantages: role`."""
        if options.normalize_advantages == "role":
            from llm_decpomdp.algorithms.learning.role_deviation import RoleDeviation

            self.role_deviation = RoleDeviation()
        if options.tokens_per_pass is not None:
            check_passes(self.policies.values(), options.tokens_per_pass, self.is_sharded)

    def accumulate(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Compute the gradient: the mean over starts of the weighted losses of their groups.

        With n `num_iterations`, the first n - 1 steps are taken here, and the gradient is that of the last. No
        weight changes otherwise. Groups without a learning signal are counted and skipped; with sharded weights,
        completions of other processes cost a pass (`shards.py`).

        Returns:
            The metrics of `TokenMetrics` and of the critic, `learning_rate`, `grad_norm/<policy>` (before
            clipping), `groups` and `groups_without_signal`.

        Raises:
            FloatingPointError: If a return, loss or gradient isn't finite; names the update and the starts.
            ValueError: If `importance_sampling` corrects, and a sampler recorded no log-probabilities.
        """
        self._clear()
        targets, critic_metrics = self.critic.assess(rollouts) if self.critic else (None, {})
        groups = self._advantages(rollouts, targets)
        self._summaries = processes.gather(self.algorithm.summarize(groups))
        role_metrics: Mapping[str, float] = {}
        if self.role_deviation:
            groups, role_metrics = self.role_deviation.scale(groups)
        # The divisor counts all starts, with or without a signal and whatever turns they reached: a divisor that
        # depended on the samples would bias the gradient.
        starts = processes.total(len(rollouts))
        active = [g for g in groups if g.weight and (self._uses_reference or g.has_signal)]
        passes = self._passes(loss_items(active, self._uses_reference))
        old_log_probs: dict[tuple[int, str], Tensor] = {}
        several = self.options.num_iterations > 1
        corrects = self.options.importance_sampling.mode != "none"
        for epoch in range(self.options.num_iterations):
            if epoch:
                self._step_optimizers()  # the last one is that of `step`
            step = BatchStep(
                starts,
                old_log_probs,
                log_ratios=[{} for _ in active],
                metrics=TokenMetrics(self._agents, several, corrects),
            )
            self._accumulate_passes(passes, step)
            if several:
                from llm_decpomdp.algorithms.learning.importance_sampling import (
                    joint_effective_sample_size,
                )

                for group, ratios in zip(active, step.log_ratios, strict=True):
                    size = joint_effective_sample_size(group.group, group.advantages, ratios)
                    step.metrics.add_joint(size)
            norms = self._sum_and_clip_gradients(rollouts)
        # Of the last step with the batch, as are `norms`.
        return {
            **step.metrics.metrics(),
            **{f"grad_norm/{name}": norm for name, norm in norms.items()},
            "learning_rate": self.options.learning_rate * self._factor(),
            "groups": processes.total(len(groups)),
            "groups_without_signal": processes.total(sum(not g.has_signal for g in groups)),
            **critic_metrics,
            **role_metrics,
        }

    def has_learning_signal(self, rollout: Rollout) -> bool:
        """Check whether a group of a rollout has an advantage other than 0 for an agent that learns."""
        return any(group.weight and group.has_signal for group in self._advantages([rollout], None))

    def _advantages(
        self, rollouts: Sequence[Rollout], targets: Sequence[ValueTargets] | None
    ) -> list[GroupAdvantages]:
        try:
            return list(
                group_advantages(
                    rollouts,
                    self._agents,
                    self.algorithm,
                    self.options,
                    progress(self.updates, self.options.total_updates),
                    targets,
                    self._limits,
                )
            )
        except FloatingPointError as error:
            raise FloatingPointError(f"update {self.updates + 1}: {error}") from None

    def _passes(self, items: Sequence[LossItem]) -> Sequence[list[LossItem]]:
        """Divide items into the passes of one step; the items of a pass have one policy."""
        if self.is_sharded:
            return [[item] for item in shards.align_processes(items, self._agents)]
        microbatches = group_by_prompt(items)
        if self.options.tokens_per_pass is None:
            return microbatches
        return fill_passes(microbatches, self._agents, self.options.tokens_per_pass)

    def _accumulate_passes(self, passes: Sequence[Sequence[LossItem]], step: BatchStep) -> None:
        """Add the gradients of all passes; policies on different devices learn at once."""
        sharded = self.is_sharded

        def run_pass(place: int) -> None:
            if sharded:
                shards.announce_pass(passes, place, self._agents)
            self._backward(passes[place], step)

        devices = [_device(self._agents[items[0].agent]) for items in passes]
        try:
            in_lanes(run_pass, range(len(passes)), devices)  # on one device: one after the other
        except FloatingPointError:
            self._clear()  # another device may have added to a gradient behind the error
            raise

    def _backward(self, items: Sequence[LossItem], step: BatchStep) -> None:
        """Add the gradient of one forward pass of an agent's policy, and record it."""
        losses = []
        for item, log_probs, mask, reference in self._log_probs(items):
            before = log_probs.detach()
            if item.counts:
                before = step.old_log_probs.setdefault((item.position, item.agent), before)
                log_ratio = mask_terms(log_probs.detach() - before, mask).sum(-1)
                step.log_ratios[item.position][item.agent] = log_ratio
            losses.append(self._loss(item, log_probs, before, reference, mask, step))
        loss = torch.stack(losses).sum()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]

    def _log_probs(
        self, items: Sequence[LossItem]
    ) -> Iterator[tuple[LossItem, Tensor, Tensor, Tensor | None]]:
        """Return each item of a pass with log-probabilities, mask and reference log-probabilities, (G, T) each."""
        policy, parts = self._agents[items[0].agent], split_by_prompt(items)
        prompts = [
            (part[0].prompt, [completion for item in part for completion in item.completions])
            for part in parts
        ]
        values_of = _call_for_prompts(policy, "log_probs", prompts)
        for values, (_, completions) in zip(values_of, prompts, strict=True):
            check_log_probs(items[0].agent, values, len(completions))
        references: list[tuple[Tensor, Tensor]] | None = None
        if self._uses_reference:
            references = _call_for_prompts(policy, "reference_log_probs", prompts)
        for place, part in enumerate(parts):
            sizes = [len(item.completions) for item in part]
            log_probs, mask = (torch.split(values, sizes) for values in values_of[place])
            reference: Sequence[Tensor | None] = [None] * len(part)
            if references is not None:
                reference = torch.split(references[place][0], sizes)
            yield from zip(part, log_probs, mask, reference, strict=True)

    def _loss(
        self,
        item: LossItem,
        log_probs: Tensor,
        before: Tensor,
        reference: Tensor | None,
        mask: Tensor,
        step: BatchStep,
    ) -> Tensor:
        """Return the weighted loss of one item, a scalar, and add its metrics."""
        sampled = _recorded_log_probs(item.completions, log_probs)
        if self.options.truncation.mode == "mask":
            whole = [float(not completion.truncated) for completion in item.completions]
            mask = mask * torch.tensor(whole, dtype=mask.dtype, device=mask.device).unsqueeze(1)
        outputs = self.algorithm.loss(
            LossInputs(
                agent=item.agent,
                group=item.group,
                log_probs=log_probs,
                old_log_probs=before,
                sampler_log_probs=sampled,
                reference_log_probs=reference,
                mask=mask,
                advantages=torch.as_tensor(item.group.advantages[item.agent]).to(log_probs),
                options=self.options,
            )
        )
        check_outputs(self.algorithm.name, outputs, log_probs.shape)
        loss = item.group.weight / step.starts * outputs.loss
        self._require_finite(float(loss.detach()), f"loss of {item.agent!r}", str(item.group.start))
        if item.counts:
            terms = {
                "entropy": -log_probs.detach(),
                "mismatch": (log_probs.detach() - sampled).abs(),
                **outputs.metrics,
            }
            if reference is not None:
                from llm_decpomdp.algorithms.learning.kl import kl_estimate

                terms["kl"] = kl_estimate(log_probs, reference)
            step.metrics.add(item.agent, loss.detach(), mask, terms)
        return loss

    def step(self) -> None:
        """Step along the accumulated gradient; policies without one do not change."""
        super().step()
        if self.critic:
            self.critic.learn()
        self.algorithm.update_state(self._summaries)
        self._summaries = []
        if self.role_deviation:
            self.role_deviation.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of `BaseLearner`, and that of `normalize_advantages: role`."""
        state = super().state_dict()
        if self.role_deviation:
            state["role_deviation"] = dict(self.role_deviation.squares)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the value of `state_dict`; errors as of `BaseLearner`."""
        super().load_state_dict(state)
        if self.role_deviation:
            self.role_deviation.squares = dict(state["role_deviation"])


def _device(policy: TrainablePolicy) -> str:
    return str(next(iter(policy.parameters())).device)


def _call_for_prompts(
    policy: TrainablePolicy, method: str, prompts: Sequence[tuple[str, Sequence[Completion]]]
) -> list[tuple[Tensor, Tensor]]:
    """Call a method of a policy for a prompt, or the one for several prompts."""
    if len(prompts) == 1:
        return [getattr(policy, method)(*prompts[0])]
    values: list[tuple[Tensor, Tensor]] = policy_attribute(policy, f"{method}_of_prompts")(prompts)
    return values


def _recorded_log_probs(completions: Sequence[Completion], like: Tensor) -> Tensor:
    """Return the sampler's log-probabilities, padded like `like`, (G, T); not a number if it recorded none."""
    # What was not recorded is no number, which the metrics leave out.
    log_probs = torch.full_like(like, torch.nan)
    for row, completion in zip(log_probs, completions, strict=True):
        row[: len(completion.log_probs)] = torch.tensor(completion.log_probs).to(row)
    return log_probs
