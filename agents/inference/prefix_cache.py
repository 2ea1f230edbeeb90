"""Keys and values of earlier prompts and answers, for prompts that begin with the same tokens.

With a history of the dialogue, an agent's next prompt begins with its earlier prompt and answer. Their keys and
values are kept here, so that only the rest of the next prompt is computed. An entry is a prompt with its answers;
the states of the prompt are kept once for all answers.

Letters: B prompts, P tokens of the longest prompt. The memory of an entry is a copy: the batch's own memory has
padding, and shrinks while rows end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

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
            self._entries[source] = self._entries.pop(source)
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
