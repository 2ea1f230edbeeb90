"""Sampling by the `generate` of transformers, for models with another kind of cache, such as recurrent ones."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteriaList,
)

from llm_decpomdp.agents.inference.log_probs import unwrap_peft

if TYPE_CHECKING:
    from llm_decpomdp.agents.inference.sampler import SampledRow, SampledRows

logger = logging.getLogger(__name__)


def sample_by_generate(
    model: Any, ids: Tensor, mask: Tensor, num_samples: int, rows: SampledRows
) -> list[SampledRow]:
    """Draw the same samples by the `generate` of transformers."""
    _warn_of_generate(model.config.model_type)
    ids, mask = (tensor.repeat_interleave(num_samples, 0) for tensor in (ids, mask))
    forcing = _ForceDrawnTokens(rows)
    blank: Any = GenerationConfig  # whose constructor has no types
    base = unwrap_peft(model)
    # The defaults of a model on the hub may hold penalties and processors that change the distribution.
    defaults, base.generation_config = base.generation_config, blank()
    try:
        model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=blank(do_sample=False, max_new_tokens=rows.limit),
            logits_processor=LogitsProcessorList([forcing]),
            stopping_criteria=StoppingCriteriaList([forcing.has_ended]),
        )
    finally:
        base.generation_config = defaults
    return rows.finish()


class _ForceDrawnTokens(LogitsProcessor):
    """Makes `generate` take the tokens of `SampledRows.add_tokens`; rows that ended go on with any token."""

    def __init__(self, rows: SampledRows) -> None:
        self._rows = rows
        self._live = rows.all()

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        tokens = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
        tokens[self._live] = self._rows.add_tokens(scores[self._live])
        self._live = self._live[self._rows.drop_ended()]
        return torch.full_like(scores, -torch.inf).scatter(1, tokens.unsqueeze(1), 0.0)

    def has_ended(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Tell `generate` to stop when no row is left."""
        return torch.full((len(input_ids),), not len(self._live), device=input_ids.device)


@lru_cache
def _warn_of_generate(kind: str) -> None:
    logger.warning(
        "a model of type %r remembers more than keys and values: it is sampled by generate() of "
        "transformers, which computes a prompt once for each of its samples",
        kind,
    )
