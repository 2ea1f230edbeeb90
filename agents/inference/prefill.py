"""Passes of prompts through a model (prefill): each different prompt once, and what several begin with once.

Letters: B prompts, S samples of each, N = B * S rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.decoding import cache_argument, growing_cache, whole_head
from llm_decpomdp.agents.inference.prefix_cache import Entry, PrefixCache

if TYPE_CHECKING:
    from llm_decpomdp.agents.inference.sampler import Prompt

SetAdapters = Callable[[Sequence[str | None]], None]
"""Sets the adapter of each row for the next pass."""

PASS_TOKENS = 8192
"""Tokens of one pass, with padding, unless a single prompt has more. It bounds the memory of activations."""

SMALL_PASS_TOKENS = 1024
"""Tokens of a pass that is not divided to compute less padding."""

MAX_PADDING_RATIO = 1.15
"""Most tokens that are computed together, as a multiple of those that are no padding."""

MIN_SHARED_TOKENS = 32
"""Tokens of the shortest beginning that is computed for several prompts."""

MIN_SAVED_TOKENS = 1024
"""Fewest tokens that computing beginnings must save. Each level of beginnings is an additional pass."""


def forward_with(model: Any, cache: Any) -> Callable[..., Any]:
    """Return the pass of a model with a cache, which gives the logits of the last column alone."""
    return partial(model, **{cache_argument(model): cache}, use_cache=True, logits_to_keep=1)


def pad_left(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return token ids and mask, both (B, P); masked places hold 0 and are never read."""
    width = max(map(len, prompts))
    ids = [[0] * (width - len(prompt)) + list(prompt) for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def prefill(
    model: Any,
    prompts: Sequence[Prompt],
    num_samples: int,
    set_adapters: SetAdapters,
    prefixes: PrefixCache | None,
) -> tuple[Any, Tensor, list[Entry]]:
    """Compute the keys and values of prompts, and repeat them for their samples.

    The arguments are those of `sample`; the model has a growing cache.

    Returns:
        The cache of all rows, whose last tokens stand in one column; the logits behind them, (N, V); and with
        `prefixes` the entry of each prompt there.
    """
    keys = [(prompt.adapter, *prompt.ids) for prompt in prompts]
    different = dict(zip(keys, prompts, strict=True))
    store = PrefixCache(math.inf) if prefixes is None else prefixes
    if prefixes is None:
        _compute_beginnings(model, [*different.values()], set_adapters, store)
    caches: list[Any] = []
    logits: list[Tensor] = []
    places: dict[Any, int] = {}
    entries: list[Entry] = []
    for part in _split(different.values(), store):
        cache, last = _compute(model, part, set_adapters, store)
        entries += [] if prefixes is None else prefixes.add_prompts(cache, part)
        places |= {(p.adapter, *p.ids): place for place, p in enumerate(part, len(places))}
        caches.append(cache)
        logits.append(last)
    lines = [places[key] for key in keys for _ in range(num_samples)]
    first, *others = caches
    for index, layer in enumerate(first.layers):
        layer.append([other.layers[index] for other in others], lines)
    return first, torch.cat(logits)[lines], [entries[places[key]] for key in keys if entries]


def _compute_beginnings(
    model: Any, prompts: Sequence[Prompt], set_adapters: SetAdapters, store: PrefixCache
) -> None:
    """Add the beginnings that several prompts share, and before them those that these share."""
    beginnings = shared_beginnings(prompts)
    if not beginnings:
        return
    _compute_beginnings(model, beginnings, set_adapters, store)
    for part in _split(beginnings, store):
        cache, _ = _compute(model, part, set_adapters, store)
        store.add_prompts(cache, part)


def shared_beginnings(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return the longest beginning that each prompt shares with another one.

    There are fewer beginnings than prompts, and none if they would save less than a quarter of all tokens.
    """
    # In the order of their tokens, a prompt has the most in common with one of its neighbors.
    ranking = sorted(prompts, key=lambda prompt: (prompt.adapter or "", *prompt.ids))
    common = [
        _common_length(first.ids, second.ids) if first.adapter == second.adapter else 0
        for first, second in pairwise(ranking)
    ]
    lengths = [max(pair) for pair in pairwise([0, *common, 0])]
    beginnings = {
        (prompt.adapter, *prompt.ids[:length]): replace(prompt, ids=prompt.ids[:length])
        for prompt, length in zip(ranking, lengths, strict=True)
        if length >= MIN_SHARED_TOKENS
    }
    gain = sum(length for length in lengths if length >= MIN_SHARED_TOKENS)
    gain -= sum(len(beginning.ids) for beginning in beginnings.values())
    total = sum(len(prompt.ids) for prompt in prompts)
    return [*beginnings.values()] if gain >= max(MIN_SAVED_TOKENS, total / 4) else []


def _common_length(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(first), len(second)))


def _split(prompts: Iterable[Prompt], store: PrefixCache) -> Iterator[list[Prompt]]:
    """Divide prompts into those of one pass."""
    # Prompts with about as many tokens to compute stand together, since padding is computed too.
    remainders = [(len(prompt.ids) - store.find_length(prompt), prompt) for prompt in prompts]
    remainders.sort(key=lambda pair: -pair[0])
    part: list[Prompt] = []
    width = tokens = 0
    for length, prompt in remainders:
        tokens += length
        columns = width * (len(part) + 1)
        if part and columns > min(PASS_TOKENS, max(SMALL_PASS_TOKENS, MAX_PADDING_RATIO * tokens)):
            yield part
            part, width, tokens = [], 0, length
        part.append(prompt)
        width = width or length
    yield part


def _compute(
    model: Any, prompts: Sequence[Prompt], set_adapters: SetAdapters, store: PrefixCache
) -> tuple[Any, Tensor]:
    """Return the cache of prompts in one pass, and the logits behind them."""
    ids, mask = pad_left([prompt.ids for prompt in prompts], model.device)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache: Any = growing_cache(model)
    set_adapters([prompt.adapter for prompt in prompts])
    start = store.fill(cache, prompts)
    with whole_head(model):
        out = forward_with(model, cache)(
            input_ids=ids[:, start:], attention_mask=mask, position_ids=positions[:, start:]
        )
    return cache, out.logits[:, -1]
