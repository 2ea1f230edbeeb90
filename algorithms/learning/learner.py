"""The learner: groups of completions become gradient steps of every trainable policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from llm_decpomdp.algorithms.critics.building import build_critic
from llm_decpomdp.algorithms.critics.states import Features
from llm_decpomdp.algorithms.critics.targets import Outlook
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.advantages import GroupAdvantages, group_advantages
from llm_decpomdp.algorithms.learning.aggregation import progress
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.learning.correction import corrected
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.losses import REDUCTIONS, kl_estimate, masked
from llm_decpomdp.algorithms.learning.microbatches import Turn, turns, with_equal_prompts
from llm_decpomdp.algorithms.learning.objectives import left_range, loss_terms, team_share
from llm_decpomdp.algorithms.learning.running import Role, RunningBaseline, Visit
from llm_decpomdp.algorithms.learning.token_metrics import TokenMetrics
from llm_decpomdp.algorithms.learning.trainable import (
    referenced,
    require_whole_distribution,
    token_limit,
)
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.policy import Completion, ReferencedPolicy, Team


class Scores(NamedTuple):
    """What an agent's policy says of its G completions."""

    log_probs: Tensor
    """(G, T), differentiable."""
    mask: Tensor
    """(G, T)."""
    reference: Tensor | None
    """(G, T): log-probabilities under the reference, where the divergence from it counts."""


class Learner(BaseLearner):
    """Updates the trainable policies of a team; a policy that agents share has one optimizer.

    Args:
        team: Agent to policy. Policies that cannot be trained, or have no parameter that requires a
            gradient, take part and stay as they are.
        algorithm: The declaration of the algorithm.
        options: How to step.
        features: Features of the texts that a critic reads; by default those of the policies' own models.

    Raises:
        TypeError: If `kl_coefficient` is set and a policy keeps no reference, `overlong_tokens` and one does not
            tell its token limit, or a critic and no policy gives features.
        ValueError: If a single-agent algorithm gets a team, no policy can be trained, advantages would be
            without bounds, the options name another critic than the algorithm's own, or a `correction` and a
            policy samples from a part of its distribution.
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
        overlong = options.overlong_tokens
        self._limits = {a: token_limit(a, p, overlong) for a, p in self._agents.items() if overlong}
        if options.kl_coefficient:
            for name, policy in self.policies.items():
                self._keep_reference(name, referenced(name, policy))
        if options.correction != "none":
            require_whole_distribution(self._agents)
        self.critic = build_critic(
            options,
            self._agents,
            features,
            role=algorithm.critic.role if algorithm.critic else "future",
            discount=options.discount,
            gather=processes.gather,
        )
        self._running = None if algorithm.decay is None else RunningBaseline(algorithm.decay)

    def accumulate(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Compute the gradient: the mean over starts of their groups' losses, added up with their weights.

        With n `updates_per_batch` the first n - 1 steps are taken here, and the gradient is that of the
        last. No weight changes otherwise. Groups without signal are counted and skipped; what others learn by
        weights in shards costs a pass (`turns`).

        Returns:
            See `TokenMetrics`, with `learning_rate` and `grad_norm/<policy>` (before any shortening).

        Raises:
            FloatingPointError: If a return, loss or gradient isn't finite; names the update and the
                starts.
            ValueError: If there is a `correction`, and a sampler told no log-probabilities.
        """
        self._clear()
        outlooks, critic_metrics = self.critic.assess(rollouts) if self.critic else (None, {})
        credits = self._advantages(rollouts, outlooks)
        if self._running:
            self._running.observe(processes.gather(list(_visits(credits))))
        # Neither groups without signal nor turns that a rollout lacks change the weight of other groups: a
        # divisor that depended on the samples would bias the gradient.
        starts = processes.total(len(rollouts))
        active = [c for c in credits if c.weight and (self._uses_kl or c.has_signal)]
        lessons = turns(active, self._agents, self._uses_kl)
        passes = [[turn] for turn in lessons] if self.sharded else with_equal_prompts(lessons)
        old: dict[tuple[int, str], Tensor] = {}
        several = self.options.updates_per_batch > 1
        corrects = self.options.correction != "none"
        for epoch in range(self.options.updates_per_batch):
            if epoch:
                self._step()
            token_metrics = TokenMetrics(self._agents, several, corrects)
            log_ratios: list[dict[str, Tensor]] = [{} for _ in active]
            for together in passes:
                self._backward(together, starts, old, token_metrics, log_ratios)
            if several:
                for credit, of_group in zip(active, log_ratios, strict=True):
                    token_metrics.add_team(team_share(credit.group, credit.advantages, of_group))
            norms = dict(self._grad_norms(rollouts))
        return {
            **token_metrics.metrics(),
            **{f"grad_norm/{name}": norm for name, norm in norms.items()},
            "learning_rate": self.options.learning_rate * self._factor(),
            "groups": processes.total(len(credits)),
            "groups_without_signal": processes.total(sum(not c.has_signal for c in credits)),
            **critic_metrics,
        }

    def teaches(self, rollout: Rollout) -> bool:
        """Check whether a group of a rollout has an advantage other than 0 for an agent that learns."""
        return any(
            credit.weight and credit.has_signal for credit in self._advantages([rollout], None)
        )

    @property
    def _uses_kl(self) -> bool:
        """True if the reference gives a gradient where advantages are 0."""
        return self.options.kl_coefficient > 0

    def _advantages(
        self, rollouts: Sequence[Rollout], outlooks: Sequence[Outlook] | None
    ) -> list[GroupAdvantages]:
        baseline = self.algorithm.baseline
        try:
            done = progress(self.updates, self.options.total_updates)
            return list(
                group_advantages(
                    *(rollouts, self._agents, baseline, self.options, done, outlooks, self._limits),
                    running=self._running,
                )
            )
        except FloatingPointError as error:
            raise FloatingPointError(f"update {self.updates + 1}: {error}") from None

    def _backward(
        self,
        together: Sequence[Turn],
        starts: float,
        old: dict[tuple[int, str], Tensor],
        token_metrics: TokenMetrics,
        log_ratios: Sequence[dict[str, Tensor]],
    ) -> None:
        """Add the gradient of what one agent learns by one pass of its policy.

        Turns that count are counted in `token_metrics`. Their log-probabilities before the first step go into
        `old`, and log(pi / pi_old) of their completions, (G,), into `log_ratios`.
        """
        losses = [
            self._loss(turn, scores, starts, old, token_metrics, log_ratios)
            for turn, scores in zip(together, self._scores(together), strict=True)
        ]
        loss = torch.stack(losses).sum()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]

    def _scores(self, together: Sequence[Turn]) -> Iterator[Scores]:
        """Return what one pass of an agent's policy says of each turn; all have the same prompt."""
        agent, prompt = together[0].agent, together[0].prompt
        policy, sizes = self._agents[agent], [len(turn.completions) for turn in together]
        completions = [completion for turn in together for completion in turn.completions]
        log_probs, mask = policy.log_probs(prompt, completions)
        references: Sequence[Tensor | None] = [None] * len(together)
        if self.options.kl_coefficient:
            assert isinstance(policy, ReferencedPolicy), policy
            references = torch.split(policy.reference_log_probs(prompt, completions)[0], sizes)
        return map(Scores, torch.split(log_probs, sizes), torch.split(mask, sizes), references)

    def _loss(
        self,
        turn: Turn,
        scores: Scores,
        starts: float,
        old: dict[tuple[int, str], Tensor],
        token_metrics: TokenMetrics,
        log_ratios: Sequence[dict[str, Tensor]],
    ) -> Tensor:
        """Return the loss of one turn; arguments as of `_backward`."""
        options, credit, agent = self.options, turn.credit, turn.agent
        completions, (log_probs, mask, reference) = turn.completions, scores
        before = log_probs.detach()
        if turn.counts:
            before = old.setdefault((turn.place, agent), before)
            log_ratio = masked(log_probs.detach() - before, mask).sum(-1)
            log_ratios[turn.place][agent] = log_ratio
        sampled = _sampled(completions, log_probs)
        weight: Tensor | None = None
        correction: Mapping[str, Tensor] = {}
        if (
            options.correction != "none"
        ):  # of the policy before the first step, whatever the objective does
            weight, correction = corrected(options, completions, before, sampled, mask)
        if options.truncated == "mask":
            whole = [float(not completion.truncated) for completion in completions]
            mask = mask * torch.tensor(whole, dtype=mask.dtype, device=mask.device).unsqueeze(1)
        advantages = torch.as_tensor(credit.advantages[agent]).to(log_probs)
        metrics = {
            "entropy": -log_probs.detach(),
            "clip_fraction": left_range(options, log_probs, before, mask),
            "mismatch": (log_probs.detach() - sampled).abs(),
            **correction,
        }
        if reference is not None:
            metrics["kl"] = kl_estimate(log_probs, reference)
        terms = loss_terms(options, log_probs, before, advantages, mask, reference)
        if weight is not None:
            terms = weight * terms
        reduce = REDUCTIONS[options.loss]
        fixed = options.loss == "fixed_length"
        tokens = options.fixed_length if fixed else credit.tokens.get(agent)
        loss = credit.weight / starts * reduce(terms, mask, tokens)
        self._require_finite(float(loss.detach()), f"loss of {agent!r}", str(credit.start))
        if turn.counts:
            token_metrics.add(agent, loss.detach(), mask, metrics)
        return loss

    def step(self) -> None:
        """Step along the accumulated gradient; policies without one stay as they are."""
        super().step()
        if self.critic:
            self.critic.learn()
        if self._running:
            self._running.learn()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of optimizers, critic and running baselines, and the number of updates.

        The policies keep their own.
        """
        critic = {"critic": self.critic.state_dict()} if self.critic else {}
        running = {"running": self._running.state_dict()} if self._running else {}
        return {**super().state_dict(), **critic, **running}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value.

        Raises:
            ValueError: If the state is that of other policies.
        """
        super().load_state_dict(state)
        if self.critic:
            self.critic.load_state_dict(state["critic"])
        if self._running:
            self._running.load_state_dict(state["running"])


def _visits(credits: Sequence[GroupAdvantages]) -> Iterator[Visit]:
    """Yield the values of each agent's completions by role."""
    for credit in credits:
        for agent, values in credit.values.items():
            yield Visit(Role(agent, credit.group.turn, credit.start), values.tolist())


def _sampled(completions: Sequence[Completion], like: Tensor) -> Tensor:
    """Return the sampler's log-probabilities, padded as `like`, (G, T); not a number where it reports none."""
    log_probs = torch.full_like(like, torch.nan)
    for row, completion in zip(log_probs, completions, strict=True):
        row[: len(completion.log_probs)] = torch.tensor(completion.log_probs).to(row)
    return log_probs
