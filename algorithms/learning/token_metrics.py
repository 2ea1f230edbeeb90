"""Metrics of the tokens of an update."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning import distributed as processes

TOKEN_METRICS = ("entropy", "kl", "clip_fraction", "mismatch")  # always written, for each agent
CORRECTION_TERMS = ("ratio", "masked", "weight", "square")  # of importance weights


class TokenMetrics:
    """Sums over the tokens of one pass through a batch, by agent and over all processes.

    `several` tells whether the pass is one of several with the same batch, and `corrects` whether groups have the
    terms of importance weights.
    """

    def __init__(
        self, agents: Collection[str], several: bool = False, corrects: bool = False
    ) -> None:
        self.agents = list(agents)
        self._sums: dict[str, dict[str, Tensor]] = {agent: {} for agent in agents}
        self._several, self._corrects = several, corrects
        self._sizes: list[float] = []
        self._own_names: set[str] = set()

    def add(self, agent: str, loss: Tensor, mask: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Add a group: its weighted loss, the mask of its tokens, and the terms of metrics by name.

        Mask and terms are (G, T). A term is not a number where a token has none.
        """
        # Tokens are selected by their indices, which are read once: sums stay on the device until the end.
        places = (mask > 0).flatten().nonzero().squeeze(1)
        parts = {"loss": loss, "tokens": torch.tensor(float(len(places)))}
        self._own_names |= terms.keys() - {*TOKEN_METRICS, *CORRECTION_TERMS}
        for name, values in terms.items():
            # float64, because sums over 100,000 tokens lose digits in the format of the model.
            terms_in_loss = values.detach().flatten()[places].to(torch.float64)
            parts[name] = terms_in_loss.nansum()
            parts[f"tokens/{name}"] = terms_in_loss.isfinite().sum()
        sums = self._sums[agent]
        for name, part in parts.items():
            sums[name] = sums.get(name, 0.0) + part.double()

    def add_joint(self, size: float | None) -> None:
        """Add the effective sample size of a group's joint samples, unless it is not known."""
        if size is not None:
            self._sizes.append(size)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the pass, which `docs/metrics.md` defines; collective over processes."""
        metrics, tokens = {}, 0.0
        # Sums over processes are collective, so all processes need the same names, also those without groups.
        own_names = sorted(set(processes.gather(list(self._own_names))))
        for agent in self.agents:
            own = self._sums[agent]
            values = torch.stack([part.cpu() for part in own.values()]).tolist() if own else []
            sums = defaultdict(float, zip(own, values, strict=True))
            tokens += processes.total(sums["tokens"])
            metrics[f"loss/{agent}"] = processes.total(sums["loss"])
            means = {name: _mean(sums, name) for name in (*TOKEN_METRICS, *own_names)}
            if self._corrects:
                terms = {name: _mean(sums, name) for name in CORRECTION_TERMS}
                means |= {name: terms[name] for name in ("ratio", "masked")}
                means["ess"] = terms["weight"] ** 2 / terms["square"] if terms["square"] else 0.0
            metrics |= {f"{name}/{agent}": mean for name, mean in means.items()}
        metrics["completion_tokens"] = tokens
        if self._several and (groups := processes.total(len(self._sizes))):
            metrics["effective_sample_size"] = processes.total(sum(self._sizes)) / groups
        return metrics


def _mean(sums: Mapping[str, float], name: str) -> float:
    """Return the mean of a term over the tokens of all processes that have it; 0 without such tokens."""
    count = max(processes.total(sums[f"tokens/{name}"]), 1.0)
    return processes.total(sums[name]) / count
