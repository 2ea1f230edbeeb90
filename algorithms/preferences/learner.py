"""The learner from preferences: pairs of joint samples become gradient steps of every trainable policy.

With Delta_i(y) = log pi_i(y|h_i) - log ref_i(y|h_i), summed over the tokens and the end of y, and d_ip =
Delta_i(w_ip) - Delta_i(l_ip) of agent i in pair p, the margin of the pair and the loss are

    m_p = beta sum_i d_ip        L_p = -log sigmoid(m_p) - alpha sum_i log pi_i(w_ip|h_i)

(DPO, arXiv 2305.18290, eq. 7, for the product of the agents' policies; alpha as in arXiv 2404.19733, summed over
tokens.) The agents enter by their sum only, so the gradient of agent i is that of its own log-probabilities with a
constant weight for each completion:

    dL_p / d log pi_i(w_ip) = -beta sigmoid(-m_p) - alpha        dL_p / d log pi_i(l_ip) = +beta sigmoid(-m_p)

The margins of all agents are computed before any policy changes. The graphs of two agents are never held at the
same time. If an agent's completions are equal in both samples, its terms cancel, including that of alpha.

Degenerate cases: if no agent differs, m_p = 0. A margin far below 0 has the weight beta, one far above has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.learning.kl import keep_references
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.losses import mask_terms
from llm_decpomdp.algorithms.preferences.algorithm import PreferenceAlgorithm
from llm_decpomdp.algorithms.preferences.options import CURRENT, HISTORY
from llm_decpomdp.algorithms.preferences.pairs import (
    History,
    PreferencePair,
    content,
    rollout_pairs,
)
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.policy import Completion, ReferencedPolicy, Team
from llm_decpomdp.seeding import stream


def pair_losses(margins: Tensor) -> Tensor:
    """-log sigmoid(m) of each pair, in nats, (P,)."""
    return softplus(-margins)


def completion_weights(
    signs: Tensor, margins: Tensor, weights: Tensor, beta: float, alpha: float
) -> Tensor:
    """Return the derivative of sum_p weights_p L_p by the log-probability of each completion of an agent, (C,).

    The signs are (C, P), as in `AgentCompletions`; margins and weights are (P,).
    """
    pull = weights * beta * torch.sigmoid(-margins)
    return -(signs @ pull) - alpha * ((signs > 0).to(weights) @ weights)


@dataclass
class AgentCompletions:
    """The distinct completions of an agent for one prompt, and the pairs that contain them."""

    agent: str
    prompt: str
    completions: list[Completion]  # C completions
    pairs: list[int]  # positions of P pairs in which the agent's completions differ
    signs: Tensor
    """(C, P): 1 if the completion is the winner of the pair, -1 if it is the loser, else 0."""
    reference: Tensor  # log-probabilities of the completions under the reference, (C,)


class PreferenceLearner(BaseLearner):
    """Updates the trainable policies of a team by pairs of joint samples of the same group.

    Args:
        team: Agent to policy. Policies that cannot be trained do not change and cancel in every margin.
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
        self.pair_options = pairs = algorithm.pair_options
        self.has_opponent = pairs.opponent != CURRENT
        self._history = History(pairs.opponent_lag) if pairs.opponent == HISTORY else None
        self._batch: Sequence[Rollout] = ()  # that of the newest gradient
        self.references = keep_references(self.policies, algorithm.name, "use magrpo")

    def pairs(self, rollout: Rollout) -> list[list[PreferencePair]]:
        """Return the pairs of each group of a rollout in the current update."""
        # One stream for each start, so that its pairs are the same in any number of processes.
        rng = stream(self.seed, "pairs", self.updates, str(rollout.start))
        if self.pair_options.named_opponent is not None and rollout.opponent is None:
            raise ValueError(
                f"opponent={self.pair_options.opponent} has played nothing from {rollout.start}: give the trainer "
                "add_wrappers(source, ..., opponents=team), of llm_decpomdp.algorithms"
            )
        if self._history:
            rollout = replace(rollout, opponent=self._history.visit(rollout.start))
        try:
            return rollout_pairs(rollout, self._agents, self.pair_options, self.options, rng)
        except FloatingPointError as error:
            raise FloatingPointError(f"update {self.updates + 1}: {error}") from None

    def has_learning_signal(self, rollout: Rollout) -> bool:
        """Check whether a group of a rollout makes a pair."""
        return any(pair.weight for of_group in self.pairs(rollout) for pair in of_group)

    def accumulate(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Compute the gradient of the mean loss of the pairs.

        A pair is weighted by the share of the episodes that reach its group, so the loss has the same scale for
        trees of any size. With n `num_iterations`, the first n - 1 steps are taken here, and the gradient is
        that of the last. Returns the metrics of `docs/metrics.md`.

        Raises:
            FloatingPointError: If a return, loss or gradient isn't finite; names the update and the starts.
        """
        self._clear()
        groups = [of_group for rollout in rollouts for of_group in self.pairs(rollout)]
        pairs = [pair for of_group in groups for pair in of_group if pair.weight]
        total = processes.total(len(pairs))
        visits = processes.total(sum(pair.visits for pair in pairs))
        answers = [part for agent in self._agents for part in self._answers(agent, pairs)]
        for epoch in range(self.options.num_iterations):
            if epoch:
                self._step_optimizers()
            metrics = PairMetrics(self._agents, pairs, total)
            self._backward(pairs, answers, visits, metrics)
            norms = self._sum_and_clip_gradients(rollouts)
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
        """Step along the accumulated gradient, and add its batch to the history if there is one."""
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
        """Collect an agent's completions of the pairs in which they differ, by prompt."""
        by_prompt: dict[str, list[int]] = {}
        for index, pair in enumerate(pairs):
            if pair.differs(agent):
                by_prompt.setdefault(pair.prompts[agent], []).append(index)
        return [self._to_prompt(agent, prompt, pairs, of) for prompt, of in by_prompt.items()]

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
        """Add the gradient of all pairs: first the margins of the team, then one agent after the other."""
        options = self.pair_options
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
                part.signs, margins[part.pairs], mine, options.dpo_beta, options.nll_coefficient
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


class PairMetrics:
    """Sums over the pairs of one pass, over all processes; `total` is their number of pairs."""

    def __init__(
        self, agents: Collection[str], pairs: Sequence[PreferencePair], total: float
    ) -> None:
        self.agents = list(agents)
        self._pairs, self._total = pairs, total
        self._sums: dict[str, float] = defaultdict(float)

    def add_margins(self, margins: Tensor, losses: Tensor) -> None:
        """Add margins and losses, both (P,)."""
        self._sums["pair_loss"] += float(losses.sum())
        self._sums["pair_margin"] += float(margins.sum())
        self._sums["pair_accuracy"] += float((margins > 0).sum())

    def add_agent(
        self,
        agent: str,
        loss: float,
        signs: Tensor,
        log_probs: Tensor,
        reference: Tensor,
        tokens: Sequence[int],
    ) -> None:
        """Add completions of an agent to one prompt: signs (C, P), log-probabilities (C,), and their lengths."""
        lengths = log_probs.new_tensor(tokens)
        wins, losses = ((signs * side > 0).sum(1).to(log_probs) for side in (1, -1))  # (C,)
        parts = {
            "loss": loss,
            "pairs": signs.shape[1],
            "tokens": float((wins + losses) @ lengths),
            "winner_tokens": float(wins @ lengths),
            "winner_nll": -float(wins @ log_probs),
            "winner_log_ratio": float(wins @ (log_probs - reference)),
            "loser_log_ratio": float(losses @ (log_probs - reference)),
        }
        for name, value in parts.items():
            self._sums[f"{name}/{agent}"] += value

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the pass, from before its step; `docs/metrics.md` defines them.

        Means over no pairs are missing. All processes take part in each sum, also those without pairs.
        """
        total, sums = self._total, self._sums
        tokens = processes.total(sum(sums[f"tokens/{agent}"] for agent in self.agents))
        metrics = {"pairs": total, "completion_tokens": tokens}
        sums["pair_gap"] = sum(pair.gap for pair in self._pairs)
        means = {
            name: processes.total(sums[name])
            for name in ("pair_gap", "pair_loss", "pair_margin", "pair_accuracy")
        }
        metrics |= {name: value / total for name, value in means.items() if total}
        sides = [pair.opponent for pair in self._pairs]
        won, lost = (processes.total(sides.count(side)) for side in ("winner", "loser"))
        if won + lost:
            metrics |= {"compared_pairs": won + lost, "comparator_wins": won / (won + lost)}
        for agent in self.agents:
            loss, pairs, tokens, nll, wins, losses = (
                processes.total(sums[f"{name}/{agent}"])
                for name in (
                    *("loss", "pairs", "winner_tokens", "winner_nll"),
                    *("winner_log_ratio", "loser_log_ratio"),
                )
            )
            metrics |= {f"loss/{agent}": loss, f"equal_answers/{agent}": total - pairs}
            if pairs:
                metrics[f"winner_nll/{agent}"] = nll / tokens
                metrics[f"winner_log_ratio/{agent}"] = wins / pairs
                metrics[f"loser_log_ratio/{agent}"] = losses / pairs
        return metrics
