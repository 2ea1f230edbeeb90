"""What the learner reports of the completions that it learns from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import torch
from torch import Tensor

from llm_decpomdp.algorithms import processes


class Tally:
    """Sums over the tokens of one pass, by agent and over all processes.

    Args:
        agents: Those that learn.
    """

    def __init__(self, agents: Collection[str]) -> None:
        self.agents = list(agents)
        self._sums: dict[str, dict[str, float]] = {agent: defaultdict(float) for agent in agents}

    def add(
        self,
        agent: str,
        loss: Tensor,
        mask: Tensor,
        log_probs: Tensor,
        clipped: Tensor,
        divergence: Tensor,
    ) -> None:
        """Count a group: the weighted loss, and what belongs to its tokens, all of shape (G, T)."""
        sums, counts = self._sums[agent], mask > 0
        sums["loss"] += float(loss)
        sums["tokens"] += float(counts.sum())
        for name, values in (("surprise", -log_probs), ("clipped", clipped), ("kl", divergence)):
            sums[name] += float(values[counts].to(torch.float64).sum())

    def metrics(self) -> dict[str, float]:
        """The metrics of the pass.

        - `loss/<agent>`: the agent's part of the loss.
        - `entropy/<agent>`: mean of -log pi over the tokens in the loss, in nats a token: estimates the policy's
          entropy in the groups that are learned from, where `top_p` and `top_k` cut nothing off.
        - `kl/<agent>`: mean of `losses.kl_estimate`, in nats a token; 0 without a reference.
        - `clip_fraction/<agent>`: share of the tokens whose ratio left the clip range.
        - `completion_tokens`: tokens in the loss, of all agents.
        """
        found, tokens = {}, 0.0
        for agent in self.agents:
            sums = {
                name: processes.total(self._sums[agent][name])
                for name in ("loss", "tokens", "surprise", "kl", "clipped")
            }
            count = max(sums["tokens"], 1.0)
            tokens += sums["tokens"]
            found[f"loss/{agent}"] = sums["loss"]
            found[f"entropy/{agent}"] = sums["surprise"] / count
            found[f"kl/{agent}"] = sums["kl"] / count
            found[f"clip_fraction/{agent}"] = sums["clipped"] / count
        return {**found, "completion_tokens": tokens}
