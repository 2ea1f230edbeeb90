"""Metrics over the tokens in the loss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning import distributed as processes

NAMES = ("entropy", "kl", "clip_fraction", "mismatch")


class TokenMetrics:
    """Sums over the tokens of one pass, by agent and over all processes.

    Args:
        agents: The agents that learn.
        several: True if the pass is one of several with the same batch.
    """

    def __init__(self, agents: Collection[str], several: bool = False) -> None:
        self.agents = list(agents)
        self._sums: dict[str, dict[str, float]] = {agent: defaultdict(float) for agent in agents}
        self._several = several
        self._shares: list[float] = []

    def add(self, agent: str, loss: Tensor, mask: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Add a group: the weighted loss, the mask of its tokens, and their terms by `NAMES`, all (G, T).

        A term is not a number where a token has none.
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
        - `completion_tokens`: tokens in the loss, of all agents.
        - `effective_sample_size`: mean of `objectives.effective_share` over the groups of which it is known; not
          there if there is none, and in a pass that is the only one with its batch.
        """
        metrics, tokens = {}, 0.0
        for agent in self.agents:
            sums = self._sums[agent]
            tokens += processes.total(sums["tokens"])
            metrics[f"loss/{agent}"] = processes.total(sums["loss"])
            for name in NAMES:
                count = max(processes.total(sums[f"tokens/{name}"]), 1.0)
                metrics[f"{name}/{agent}"] = processes.total(sums[name]) / count
        metrics["completion_tokens"] = tokens
        if self._several and (groups := processes.total(len(self._shares))):
            metrics["effective_sample_size"] = processes.total(sum(self._shares)) / groups
        return metrics
