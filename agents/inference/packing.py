"""Rows of prompts with their completions for one pass: tokens, positions, and who sees whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

ROW_TOKENS = 4096
"""Longest row, unless one completion alone is longer: attention with a dense mask costs the square of it."""

Rows = Sequence[Sequence[int]]
PromptRows = tuple[Sequence[int], Rows]
"""Token ids of a prompt, at least one, and of its completions, each at least one."""

Layout = tuple[tuple[int, tuple[int, ...]], ...]
"""For each prompt of a row its number of tokens, and those of its completions."""


def fill_rows(prompts: Sequence[PromptRows]) -> Iterator[list[PromptRows]]:
    """Fill rows of at most `ROW_TOKENS` tokens, in order; a prompt is repeated if its completions are divided."""
    row: list[PromptRows] = []
    size = 0
    for prompt, completions in prompts:
        for part in split_rows(completions, ROW_TOKENS - len(prompt)):
            length = len(prompt) + sum(map(len, part))
            if row and size + length > ROW_TOKENS:
                yield row
                row, size = [], 0
            row.append((prompt, part))
            size += length
    yield row


def split_rows(rows: Rows, room: int) -> Iterator[Rows]:
    """Split the rows, in order, into parts of at most `room` tokens or of one row."""
    part: list[Sequence[int]] = []
    size = 0
    for row in rows:
        if part and size + len(row) > room:
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row)
    yield part


def pack(row: Sequence[PromptRows], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return token ids and positions of a row, both (1, L)."""
    ids: list[int] = []
    positions: list[int] = []
    for prompt, completions in row:
        start = len(prompt)
        ids += prompt
        positions += range(start)
        for completion in completions:
            ids += completion[:-1]
            positions += range(start, start + len(completion) - 1)
    return torch.tensor([ids], device=device), torch.tensor([positions], device=device)


def dense_mask(layout: Layout, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return the mask that is added to all scores of a row, (1, 1, L, L)."""
    hidden = ~visible_tokens(layout, device)
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
    return mask.masked_fill_(hidden, torch.finfo(dtype).min)[None, None]


def encode_layout(layout: Layout) -> Tensor:
    """Return a layout in the place of a mask, (1, 1, 1, numbers)."""
    # transformers passes masks of 4 dimensions on as they are.
    numbers = [n for prompt, lengths in layout for n in (prompt, len(lengths), *lengths)]
    return torch.tensor(numbers)[None, None, None]


def visible_tokens(layout: Layout, device: torch.device) -> Tensor:
    """Return whether each token sees each other one, (L, L)."""
    prompts, completions = [], []
    number = 0
    for index, (prompt, lengths) in enumerate(layout):
        prompts += [index] * (prompt + sum(lengths))
        completions += [-1] * prompt
        for length in lengths:
            completions += [number] * length
            number += 1
    prompt_of, completion_of = torch.tensor([prompts, completions], device=device)
    same_text = completion_of.unsqueeze(1) == completion_of
    same_prompt = prompt_of.unsqueeze(1) == prompt_of
    visible: Tensor = (same_prompt & (same_text | (completion_of == -1))).tril()
    return visible
