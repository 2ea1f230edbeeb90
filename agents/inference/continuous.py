"""Continuous batching: where rows end, the next prompts take their place.

Prompts of similar length are computed together, and the tokens with which all begin are computed once. In a batch
the last tokens of all rows stand in one column:

```
columns of the cache     p p p . r r r a a    prompt, gap and answer of the first row
                         . . p p p r r r a    a row that came later
```

Letters: N rows, W columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import torch

from llm_decpomdp.agents.inference.decoding import growing_cache, takes_prepared_masks, whole_head
from llm_decpomdp.agents.inference.prefill import (
    MAX_PADDING_RATIO,
    PASS_TOKENS,
    SetAdapters,
    forward_with,
)
from llm_decpomdp.agents.inference.sampler import (
    GrowingSteps,
    Prefilled,
    Prompt,
    SampledRow,
    SampledRows,
    ignore_adapters,
    sample,
)
from llm_decpomdp.agents.inference.tokenization import Decode

FREE = 4
"""Rows are added when one in so many is free: each time the keys and values of all rows are copied."""


@torch.no_grad()
def sample_continuously(
    model: Any,
    prompts: Sequence[Prompt],
    num_samples: int,
    end_ids: Sequence[int],
    set_adapters: SetAdapters = ignore_adapters,
    decode: Decode | None = None,
    *,
    size: int,
) -> list[SampledRow]:
    """Draw the rows of `sample` with at most `size` rows in a batch, or the samples of one prompt.

    The tokens of a row depend on its prompt and its random numbers, as in `sample`. Models with windows, or with
    other states than keys and values, are sampled by `sample`.

    Raises:
        FloatingPointError: If the model's logits are not finite.
    """
    if growing_cache(model) is None or not takes_prepared_masks(model):
        return sample(model, prompts, num_samples, end_ids, set_adapters, decode)
    rows = SampledRows(prompts, num_samples, end_ids, model.device, decode)
    rows.keep([])
    batch = _Batch(model, prompts, num_samples, rows, set_adapters)
    # The longest first: prompts of similar length stand together, and short ones fill the end.
    waiting = sorted(range(len(prompts)), key=lambda index: -len(prompts[index].ids))
    while waiting or rows.lines:
        free = (size - len(rows.lines)) // num_samples
        if waiting and (not rows.lines or (free * num_samples * FREE >= size and free)):
            group = batch.similar(waiting, max(1, free))
            waiting = waiting[len(group) :]
            batch.add(group)
            continue
        batch.step()
    return rows.finish()


class _Batch:
    """Rows of different ages, with their keys and values."""

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Prompt],
        num_samples: int,
        rows: SampledRows,
        set_adapters: SetAdapters,
    ) -> None:
        self._model, self._prompts, self._samples = model, prompts, num_samples
        self._rows, self._set_adapters = rows, set_adapters
        self._steps: GrowingSteps | None = None  # of all rows
        self._columns: list[int] = []  # of each line: its tokens, and the gap
        self._logits: Any = None
        self._prefix: Any = None
        self._shared = 0  # tokens of the prefix
        self._compute_prefix()

    def _compute_prefix(self) -> None:
        """Compute the tokens with which all prompts begin, but for the last one of each."""
        first, *others = self._prompts
        if not others or len({prompt.adapter for prompt in self._prompts}) > 1:
            return
        columns = zip(*(prompt.ids[:-1] for prompt in self._prompts), strict=False)
        self._shared = sum(1 for _ in takewhile(lambda column: len({*column}) == 1, columns))
        if self._shared:
            self._prefix = growing_cache(self._model)
            self._set_adapters([first.adapter])
            ids = torch.tensor([first.ids[: self._shared]], device=self._model.device)
            forward_with(self._model, self._prefix)(input_ids=ids)

    def similar(self, waiting: Sequence[int], most: int) -> list[int]:
        """Return the first waiting prompts whose lengths are similar, at most `most`; the first is the longest."""
        group: list[int] = []
        width, tokens = len(self._prompts[waiting[0]].ids) - self._shared, 0
        for index in waiting[:most]:
            tokens += len(self._prompts[index].ids) - self._shared
            columns = width * (len(group) + 1)
            if columns > MAX_PADDING_RATIO * tokens or (group and columns > PASS_TOKENS):
                break
            group.append(index)
        return group

    def add(self, group: Sequence[int]) -> None:
        """Compute prompts, and add the rows of their samples."""
        shared, device, samples = self._shared, self._model.device, self._samples
        prompts = [self._prompts[index] for index in group]
        lengths = [len(prompt.ids) for prompt in prompts]
        width = max(lengths)
        gaps = [width - length for length in lengths]  # behind the prefix, left of the rest
        ids = [[0] * gap + [*p.ids[shared:]] for gap, p in zip(gaps, prompts, strict=True)]
        places = torch.arange(width, device=device)
        gap_ends = shared + torch.tensor(gaps, device=device).unsqueeze(1)
        mask = (places < shared) | (places >= gap_ends)  # (prompts, W)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        cache: Any = growing_cache(self._model)
        if self._prefix is not None:
            for index, layer in enumerate(self._prefix.layers):
                states = (s.expand(len(group), -1, -1, -1) for s in layer.states())
                cache.update(*states, index)
        self._set_adapters([prompt.adapter for prompt in prompts])
        with whole_head(self._model):
            logits = forward_with(self._model, cache)(
                input_ids=torch.tensor(ids, device=device),
                attention_mask=mask.long(),
                position_ids=positions[:, shared:],
            ).logits[:, -1]
        lines = [line for line in range(len(group)) for _ in range(samples)]
        for layer in cache.layers:
            layer.append((), lines)
        logits, mask, positions = (tensor[lines] for tensor in (logits, mask, positions[:, -1:]))
        newcomers = Prefilled(
            self._model,
            cache,
            mask,
            positions,
            self._rows.limit,
            set_adapters=lambda: self._set_adapters(self._rows.adapters()),
            padded=True,
        )
        if self._steps is None:
            self._steps, self._logits = GrowingSteps(newcomers), logits
        else:
            self._steps.append(newcomers)
            self._logits = torch.cat([self._logits, logits])
        self._columns += [width] * len(positions)
        self._rows.keep(
            [*self._rows.lines, *(index * samples + k for index in group for k in range(samples))]
        )

    def step(self) -> None:
        """Draw a token of each row, drop the rows that ended, and compute the next logits."""
        assert self._steps is not None
        tokens = self._rows.add_tokens(self._logits)
        going = self._rows.drop_ended()
        if not going:
            self._steps, self._columns = None, []
            return
        if len(going) < len(tokens):
            tokens = tokens[going]
            self._columns = [self._columns[line] for line in going]
            self._steps.select(going, max(self._columns))
        self._columns = [columns + 1 for columns in self._columns]
        self._logits = self._steps(tokens)
