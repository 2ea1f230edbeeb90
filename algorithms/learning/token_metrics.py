"""Metrics over the tokens in the loss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning import distributed as processes

NAMES = ("entropy", "kl", "clip_fraction", "mismatch")
CORRECTION = ("ratio", "masked", "weight", "square")
"""Terms of a correction."""


class TokenMetrics:
    """Sums over the tokens of one pass, by agent and over all processes.

    Args:
        agents: The agents that learn.
        several: True if the pass is one of several with the same batch.
        corrects: True if groups come with the terms of a correction.
    """

    def __init__(
        self, agents: Collection[str], several: bool = False, corrects: bool = False
    ) -> None:
        self.agents = list(agents)
        self._sums: dict[str, dict[str, float]] = {agent: defaultdict(float) for agent in agents}
        self._several, self._corrects = several, corrects
        self._shares: list[float] = []

    def add(self, agent: str, loss: Tensor, mask: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Add a group: the weighted loss, the mask of its tokens, and their terms by `NAMES` or `CORRECTION`.

        Mask and terms are (G, T). A term is not a number where a token has none.
        """
        sums, counts = self._sums[agent], mask > 0
        sums["loss"] += float(loss)
        sums["tokens"] += float(counts.sum())
        for name, values in terms.items():
            terms_in_loss = values[counts].to(torch.float64)
            sums[name] += float(terms_in_loss.nansum())
            sums[f"tokens/{name}"] += float(terms_in_loss.isfinite().sum())

    def add_team(self, share: float | None) -> None:
        """Add the effective share of a group's joint samples, unless it is not known."""
        if share is not None:
            self._shares.append(share)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the pass.

        - `loss/<agent>`: the agent's part of the loss.
        - `entropy/<agent>`: mean of -log pi over the tokens in the loss, in nats a token: estimates the policy's
          entropy in the groups that are learned from, where `top_p` and `top_k` cut nothing off.
        - `kl/<agent>`: mean of `losses.kl_estimate`, in nats a token; 0 without a reference.
        - `clip_fraction/<agent>`: share of the tokens whose ratio left the clip range.
        - `mismatch/<agent>`: mean of |log pi - log pi of the sampler|, in nats a token: the two compute the
          same in other ways, and more coarsely in bfloat16. 0 where the sampler reports none.
        - `ratio/<agent>`: with a correction, mean of `correction.importance_ratio`.
        - `masked/<agent>`: with a correction, share of the tokens at which a bound of it binds.
        - `ess/<agent>`: with a correction, (sum w)^2 / (n sum w^2) of the weights of n tokens: their effective
          sample size as a share; 0 where all weights are.
        - `completion_tokens`: tokens in the loss, of all agents.
        - `effective_sample_size`: mean of `objectives.effective_share` over the groups of which it is known; not
          there if there is none, and in a pass that is the only one with its batch.
        """
        metrics, tokens = {}, 0.0
        for agent in self.agents:
            sums = self._sums[agent]
            tokens += processes.total(sums["tokens"])
            metrics[f"loss/{agent}"] = processes.total(sums["loss"])
            means = {name: _mean(sums, name) for name in NAMES}
            if self._corrects:
                of = {name: _mean(sums, name) for name in CORRECTION}
                means |= {name: of[name] for name in ("ratio", "masked")}
                means["ess"] = of["weight"] ** 2 / of["square"] if of["square"] else 0.0
            metrics |= {f"{name}/{agent}": mean for name, mean in means.items()}
        metrics["completion_tokens"] = tokens
        if self._several and (groups := processes.total(len(self._shares))):
            metrics["effective_sample_size"] = processes.total(sum(self._shares)) / groups
        return metrics


def _mean(sums: Mapping[str, float], name: str) -> float:
    """Return the mean of a term over the tokens of all processes that have it; 0 where none has."""
    count = max(processes.total(sums[f"tokens/{name}"]), 1.0)
    return processes.total(sums[name]) / count
