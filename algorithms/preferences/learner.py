"""The learner from preferences: pairs of joint samples become gradient steps of every trainable policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.losses import mask_terms
from llm_decpomdp.algorithms.learning.preference_options import HISTORY
from llm_decpomdp.algorithms.preferences.algorithm import PreferenceAlgorithm
from llm_decpomdp.algorithms.preferences.comparison import History
from llm_decpomdp.algorithms.preferences.loss import completion_weights, pair_losses
from llm_decpomdp.algorithms.preferences.pair_metrics import PairMetrics
from llm_decpomdp.algorithms.preferences.pairs import PreferencePair, content, rollout_pairs
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.policy import Completion, ReferencedPolicy, Team
from llm_decpomdp.seeding import stream


@dataclass
class AgentCompletions:
    """The distinct completions of an agent to one prompt, and the pairs that they are in."""

    agent: str
    prompt: str
    completions: list[Completion]
    """C of them."""
    pairs: list[int]
    """Positions of P pairs, in each of which the agent said two different things."""
    signs: Tensor
    """(C, P): 1 where the completion is the pair's winner, -1 where its loser, else 0."""
    reference: Tensor
    """Log-probabilities of the completions under the reference, (C,)."""


class PreferenceLearner(BaseLearner):
    """Updates the trainable policies of a team by pairs of joint samples of the same group (`loss.py`).

    Args:
        team: Agent to policy. Policies that cannot be trained take part and stay as they are: they are their own
            reference, and cancel in every margin.
        algorithm: The declaration of the algorithm.
        options: How to make pairs, and how to step.
        seed: Seed of `pair_selection=random`.

    Raises:
        TypeError: If a policy that can be trained keeps no reference.
        ValueError: If an option means nothing with pairs, or no policy can be trained.
    """

    uses_sampling_probabilities = False

    def __init__(
        self, team: Team, algorithm: PreferenceAlgorithm, options: LearnerOptions, seed: int = 0
    ) -> None:
        super().__init__(team, algorithm, options)
        self.seed = seed
        compares = self.options.comparator == HISTORY
        self._history = History(self.options.comparator_age) if compares else None
        self._batch: Sequence[Rollout] = ()  # by the newest gradient, of which no step was taken
        self._keep_references(algorithm.name, "use magrpo")

    def pairs(self, rollout: Rollout) -> list[list[PreferencePair]]:
        """Return the pairs of each group of a rollout in the present update."""
        rng = stream(self.seed, "pairs", self.updates, str(rollout.start))
        if self._history:
            rollout = replace(rollout, comparator=self._history.visit(rollout.start))
        try:
            return rollout_pairs(rollout, self._agents, self.options, rng)
        except FloatingPointError as error:
            raise FloatingPointError(f"update {self.updates + 1}: {error}") from None

    def has_learning_signal(self, rollout: Rollout) -> bool:
        """Check whether a group of a rollout makes a pair."""
        return any(pair.weight for of_group in self.pairs(rollout) for pair in of_group)

    def accumulate(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Compute the gradient: the mean over the pairs of the update of their losses.

        A pair counts in the mean by the share of the episodes that come to its group, so that the loss has the
        same scale for trees of any size.

        With n `updates_per_batch` the first n - 1 steps are taken here, and the gradient is that of the last. No
        weight changes otherwise.

        Returns:
            See `PairMetrics`, with `learning_rate`, `grad_norm/<policy>` (before any shortening), `groups` and
            `groups_without_signal`, those without a pair.

        Raises:
            FloatingPointError: If a return, loss or gradient isn't finite; names the update and the starts.
        """
        self._clear()
        groups = [of_group for rollout in rollouts for of_group in self.pairs(rollout)]
        pairs = [pair for of_group in groups for pair in of_group if pair.weight]
        total = processes.total(len(pairs))
        visits = processes.total(sum(pair.visits for pair in pairs))
        answers = [part for agent in self._agents for part in self._answers(agent, pairs)]
        for epoch in range(self.options.updates_per_batch):
            if epoch:
                self._step()
            metrics = PairMetrics(self._agents, pairs, total)
            self._backward(pairs, answers, visits, metrics)
            norms = dict(self._grad_norms(rollouts))
        self._batch = rollouts
        silent = sum(not any(pair.weight for pair in of_group) for of_group in groups)
        return {
            **metrics.metrics(),
            **{f"grad_norm/{name}": norm for name, norm in norms.items()},
            "learning_rate": self.options.learning_rate * self._factor(),
            "groups": processes.total(len(groups)),
            "groups_without_signal": processes.total(silent),
        }

    def step(self) -> None:
        """Step along the accumulated gradient, and remember what it was of, if later updates compare with it."""
        super().step()
        if self._history:
            # Sorted, so that the history does not depend on the number of processes.
            batch = sorted(processes.gather(self._batch), key=lambda rollout: rollout.place)
            self._history.add(batch, self.options.discount)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of `BaseLearner`, and the history if there is one."""
        history = {"history": self._history.state_dict()} if self._history else {}
        return {**super().state_dict(), **history}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value; errors as of `BaseLearner`."""
        super().load_state_dict(state)
        if self._history:
            self._history.load_state_dict(state["history"])

    def _answers(self, agent: str, pairs: Sequence[PreferencePair]) -> list[AgentCompletions]:
        """Collect what an agent that learns said in the pairs in which it said two different things, by prompt."""
        by_prompt: dict[str, list[int]] = {}
        for index, pair in enumerate(pairs):
            if pair.differs(agent):
                by_prompt.setdefault(pair.prompts[agent], []).append(index)
        return [
            self._to_prompt(agent, prompt, pairs, of_prompt)
            for prompt, of_prompt in by_prompt.items()
        ]

    def _to_prompt(
        self, agent: str, prompt: str, pairs: Sequence[PreferencePair], of_prompt: list[int]
    ) -> AgentCompletions:
        distinct: dict[object, Completion] = {}
        for index in of_prompt:
            for side in (pairs[index].winner, pairs[index].loser):
                distinct.setdefault(content(side[agent]), side[agent])
        position = {key: row for row, key in enumerate(distinct)}
        signs = torch.zeros(len(distinct), len(of_prompt), dtype=torch.float64)
        for column, index in enumerate(of_prompt):
            signs[position[content(pairs[index].winner[agent])], column] = 1.0
            signs[position[content(pairs[index].loser[agent])], column] = -1.0
        policy, completions = self._agents[agent], list(distinct.values())
        assert isinstance(policy, ReferencedPolicy), policy
        reference = _sums(*policy.reference_log_probs(prompt, completions))
        return AgentCompletions(agent, prompt, completions, of_prompt, signs, reference)

    def _backward(
        self,
        pairs: Sequence[PreferencePair],
        answers: Sequence[AgentCompletions],
        visits: float,
        metrics: PairMetrics,
    ) -> None:
        """Add the gradient of all pairs: first the margins of the whole team, then one agent after the other."""
        options = self.options
        weights = torch.tensor([pair.weight / visits for pair in pairs], dtype=torch.float64)
        # A pass without gradients first: a margin needs all agents, and only one agent's graph is held at a time.
        with torch.no_grad():
            before = [self._log_probs(part) for part in answers]
        margins = torch.zeros(len(pairs), dtype=torch.float64)
        for part, log_probs in zip(answers, before, strict=True):
            margins[part.pairs] += options.dpo_beta * (part.signs.T @ (log_probs - part.reference))
        losses = pair_losses(margins)
        self._require_finite(float(losses.sum()), "loss", _starts(pairs))
        metrics.add_margins(margins, losses)
        for part, log_probs in zip(answers, before, strict=True):
            mine = weights[part.pairs]
            factors = completion_weights(
                *(part.signs, margins[part.pairs], mine, options.dpo_beta, options.nll_coefficient)
            )
            loss = (factors * self._log_probs(part)).sum()
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            nll = -(part.signs > 0).to(mine).T @ log_probs  # (P,)
            value = mine @ (losses[part.pairs] + options.nll_coefficient * nll)
            tokens = [len(completion.tokens) for completion in part.completions]
            metrics.add_agent(
                part.agent, float(value), part.signs, log_probs, part.reference, tokens
            )

    def _log_probs(self, part: AgentCompletions) -> Tensor:
        """Return the log-probabilities of whole completions, (C,)."""
        return _sums(*self._agents[part.agent].log_probs(part.prompt, part.completions))


def _sums(log_probs: Tensor, mask: Tensor) -> Tensor:
    """Sum the log-probabilities of each completion's tokens, (C,), in float64 on the CPU."""
    # float64, because margins are small differences between sums over hundreds of tokens.
    return mask_terms(log_probs, mask).to(torch.float64).sum(-1).cpu()


def _starts(pairs: Sequence[PreferencePair]) -> str:
    return ", ".join(dict.fromkeys(str(pair.start) for pair in pairs))
