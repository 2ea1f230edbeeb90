"""Passes of prompts through a model (prefill): each different prompt once, and what several begin with once.

`PrefixCache` keeps the keys and values of earlier prompts and answers. With a history of the dialogue, an agent's
next prompt begins with its earlier prompt and answer, so only the rest is computed. An entry is a prompt with its
answers; the states of the prompt are kept once for all answers. The memory of an entry is a copy: the batch's own
memory has padding, and shrinks while rows end.

Letters: B prompts, S samples of each, N = B * S rows, P tokens of the longest prompt, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from llm_decpomdp.agents.inference.decoding import cache_argument, growing_cache, whole_head

if TYPE_CHECKING:
    from llm_decpomdp.agents.inference.sampler import Prompt


Ids = np.ndarray[Any, np.dtype[np.int64]]
"""Token ids, one-dimensional."""


@dataclass(frozen=True)
class Segment:
    """Successive tokens of a row with their keys and values."""

    ids: Ids
    layers: Sequence[tuple[Tensor, Tensor]]
    """Keys and values of each layer, both (heads, tokens, size)."""

    @classmethod
    def copy(cls, cache: Any, line: int, ids: Sequence[int], end: int) -> Segment:
        """Copy the states of `ids` from a line of a batch, where they end before the column `end`."""
        part = slice(end - len(ids), end)
        layers = [
            (layer.keys[line, :, part].clone(), layer.values[line, :, part].clone())
            for layer in cache.layers
        ]
        return cls(np.array(ids, np.int64), layers)

    @property
    def size(self) -> int:
        """Bytes of its keys and values."""
        return sum(states.nbytes for layer in self.layers for states in layer)

    def common(self, ids: Ids) -> int:
        """Return the number of first tokens that are those of `ids`."""
        length = min(len(ids), len(self.ids))
        differ = np.flatnonzero(ids[:length] != self.ids[:length])
        return int(differ[0]) if len(differ) else length


@dataclass(eq=False)
class Entry:
    """A prompt, and its answers without their last tokens, which no pass has read."""

    adapter: str | None
    prompt: Segment
    answers: list[Segment] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all keys and values."""
        return sum(segment.size for segment in (self.prompt, *self.answers))


class Match(NamedTuple):
    """The longest known beginning of a prompt."""

    length: int = 0
    segments: tuple[Segment, ...] = ()


class PrefixCache:
    """Entries within a number of bytes; the ones that were used longest ago are dropped first.

    Padding lies left of each row, as without a cache, so masks, positions
    and sliding windows do not change.
    """

    def __init__(self, max_bytes: float) -> None:
        self._max_bytes = max_bytes
        self._entries: dict[Entry, None] = {}  # from the longest unused to the newest
        self._size = 0
        self._version: tuple[tuple[int, int], ...] = ()

    def use_weights(self, weights: Iterable[Tensor]) -> None:
        """Drop all entries if these are not the weights of the newest call."""
        # A change in place counts `_version` up, and weights that were replaced have another address.
        version = tuple((weight.data_ptr(), weight._version) for weight in weights)
        if version != self._version:
            self._entries.clear()
            self._size, self._version = 0, version

    def fill(self, cache: Any, prompts: Sequence[Prompt]) -> int:
        """Write known keys and values of the prompts into an empty cache.

        Returns:
            The number of columns, of P, that are known in all lines; a pass computes the others. It is below P,
            since the last token of each prompt has to be computed for its logits.
        """
        matches = [self._find(prompt) for prompt in prompts]
        lengths = [len(prompt.ids) for prompt in prompts]
        pairs = zip(lengths, matches, strict=True)
        # All lines compute as many columns as the one with the most unknown tokens: a pass is a rectangle.
        unknown = max(length - min(match.length, length - 1) for length, match in pairs)
        columns = max(lengths) - unknown
        if columns == 0:
            return 0
        pattern = next(match.segments[0] for match in matches if match.segments)
        for index, layer in enumerate(pattern.layers):
            states = [
                part.new_zeros(len(prompts), part.shape[0], columns, part.shape[2])
                for part in layer
            ]
            for line, (length, match) in enumerate(zip(lengths, matches, strict=True)):
                begin = max(lengths) - length
                for segment in match.segments:
                    count = max(0, min(len(segment.ids), columns - begin))
                    for target, part in zip(states, segment.layers[index], strict=True):
                        target[line, :, begin : begin + count] = part[:, :count]
                    begin += count
            cache.update(*states, index)
        return columns

    def find_length(self, prompt: Prompt) -> int:
        """Return the number of known tokens of a prompt; its last one is never known, for its logits."""
        return min(self._find(prompt).length, len(prompt.ids) - 1)

    def _find(self, prompt: Prompt) -> Match:
        ids, best, source = np.array(prompt.ids, np.int64), Match(), None
        for entry in self._entries:
            if entry.adapter != prompt.adapter:
                continue
            length = entry.prompt.common(ids)
            options = [Match(length, (entry.prompt,))] if length else []
            if length == len(entry.prompt.ids):
                rest = ids[length:]
                options += [
                    Match(length + a.common(rest), (entry.prompt, a)) for a in entry.answers
                ]
            longest = max(options, key=lambda match: match.length, default=best)
            if longest.length > best.length:
                best, source = longest, entry
        if source is not None:
            self._entries[source] = self._entries.pop(source)  # the newest now
        return best

    def add_prompts(self, cache: Any, prompts: Sequence[Prompt]) -> list[Entry]:
        """Keep the prompts of a batch, line by line."""
        width = max(len(prompt.ids) for prompt in prompts)
        entries = []
        for line, prompt in enumerate(prompts):
            entry = Entry(prompt.adapter, Segment.copy(cache, line, prompt.ids, width))
            self._entries[entry] = None
            entries.append(entry)
            self._grow(entry.size)
        return entries

    def add_answer(
        self, entry: Entry, cache: Any, line: int, tokens: Sequence[int], end: int
    ) -> None:
        """Keep the tokens of an answer that a pass has read, before the column `end` of a line."""
        if entry in self._entries and tokens:
            entry.answers.append(Segment.copy(cache, line, tokens, end))
            self._grow(entry.answers[-1].size)

    def _grow(self, size: int) -> None:
        self._size += size
        while self._size > self._max_bytes:
            oldest = next(iter(self._entries))
            del self._entries[oldest]
            self._size -= oldest.size


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
