"""Division of an update into passes, each one forward and backward pass, and the metrics of their tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.losses import LossItem
from llm_decpomdp.policy import TrainablePolicy, policy_attribute, to_messages

TOKEN_METRICS = ("entropy", "kl", "clip_fraction", "mismatch")  # always written, for each agent
CORRECTION_TERMS = ("ratio", "masked", "weight", "square")  # of importance weights


def group_by_prompt(items: Sequence[LossItem]) -> list[list[LossItem]]:
    """Return microbatches: items with one agent and one prompt, which one forward pass can compute.

    In whole episodes, groups of one completion often share their prompt. A pass of an agent's policy has at most
    as many characters as that of its largest group, with the prompt before each completion.
    """
    # Merging must not need more memory than the largest group by itself.
    limits: dict[str, int] = {}
    for item in items:
        limits[item.agent] = max(limits.get(item.agent, 0), _padded_characters([item]))
    microbatches: list[list[LossItem]] = []
    open_ones: dict[tuple[str, str], list[LossItem]] = {}
    for item in items:
        key = item.agent, item.prompt
        microbatch = open_ones.get(key)
        if microbatch is None or _padded_characters([*microbatch, item]) > limits[item.agent]:
            microbatch = open_ones[key] = []
            microbatches.append(microbatch)
        microbatch.append(item)
    return microbatches


def fill_passes(
    microbatches: Sequence[list[LossItem]], agents: Mapping[str, TrainablePolicy], tokens: int
) -> list[list[LossItem]]:
    """Merge microbatches of one policy, in order, into passes of at most `tokens` tokens, or of one microbatch.

    Policies without `log_probs_of_prompts` compute one prompt in a pass.
    """
    passes: list[list[LossItem]] = []
    # Of each policy: its open pass, and the tokens in it.
    last: dict[int, tuple[list[LossItem], int]] = {}
    for microbatch in microbatches:
        policy = agents[microbatch[0].agent]
        count = policy_attribute(policy, "count_tokens")
        if count is None or policy_attribute(policy, "log_probs_of_prompts") is None:
            passes.append(microbatch)
            continue
        completions = [completion for item in microbatch for completion in item.completions]
        size = count(microbatch[0].prompt, completions)
        items, total = last.get(id(policy), ([], tokens))
        if total + size > tokens:
            items, total = [], 0
            passes.append(items)
        items += microbatch
        last[id(policy)] = items, total + size
    return passes


def _padded_characters(items: Sequence[LossItem]) -> int:
    """Return the number of characters of items with one prompt in a padded batch."""
    texts = [completion.text for item in items for completion in item.completions]
    context = sum(len(message["content"]) for message in to_messages(items[0].prompt))
    return len(texts) * (context + max(map(len, texts)))


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
