"""Features of texts: the mean last hidden state of a model, for critics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.packed_log_probs import without_peft
from llm_decpomdp.agents.models.agreement import context_length

WINDOW = 1024
"""Largest number of tokens that go through the model at once."""

BATCH = 16
"""Number of windows in a batch."""


def hidden_means(model: Any, rows: Sequence[Sequence[int]], span: float) -> Tensor:
    """Return the mean of the last hidden states over the tokens of each row.

    Args:
        model: A causal language model of transformers, with or without adapters.
        rows: Token ids of each text; those longer than a window go through the model in several.
        span: Number of tokens that its attention sees.

    Returns:
        (B, d), float32; zeros for an empty row.
    """
    config = model.config.get_text_config()
    size = int(min(WINDOW, context_length(model) or WINDOW, span))
    windows = [
        (index, row[first : first + size])
        for index, row in enumerate(rows)
        for first in range(0, len(row), size)
    ]
    windows.sort(key=lambda window: len(window[1]))
    sums = torch.zeros(len(rows), config.hidden_size, device=model.device)
    for first in range(0, len(windows), BATCH):
        indices, parts = zip(*windows[first : first + BATCH], strict=True)
        sums.index_add_(0, torch.tensor(indices, device=sums.device), _hidden_sums(model, parts))
    lengths = torch.tensor([max(1, len(row)) for row in rows], device=sums.device)
    return sums / lengths.unsqueeze(1)


def _hidden_sums(model: Any, rows: Sequence[Sequence[int]]) -> Tensor:
    """Return the sum of the last hidden states of each row, (B, d)."""
    lengths = torch.tensor([len(row) for row in rows], device=model.device)
    width = int(lengths.max())
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows]).to(lengths.device)
    mask = torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)
    backbone = without_peft(model).base_model
    output = backbone(input_ids=ids, attention_mask=mask.long(), use_cache=False)
    hidden: Tensor = output.last_hidden_state.float()
    return hidden.masked_fill(~mask.unsqueeze(2), 0.0).sum(1)
