"""The guard against log-probabilities that depend on how they are computed.

Samplers keep a cache and pad prompts. Learners pack or pad completions. Some models then compute other
log-probabilities: they keep state outside the cache, do not mask padding, or scale positions by the length so far.
A plain pass has one row, and no cache, packing or padding. A method that disagrees with it is not used. If all
sampling methods disagree, the model is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.sampler import (
    Prompt,
    SampledRow,
    sample,
    sample_by_length,
    sample_without_cache,
)
from llm_decpomdp.agents.models.prompting import (
    LENGTH_DEPENDENT,
    context_length,
    model_name,
    rotary,
)
from llm_decpomdp.agents.models.weights import round_weights

LIMIT, LIMIT_ROUNDED = 1e-3, 0.05
"""Largest mean difference of log-probabilities from those of a plain pass, in nats a token at temperature 1: in
float32, and in half precision."""

ROWS = 4
"""Maximum number of completions of a policy that are compared."""

RECHECK = 2
"""Number of samples of each prompt in the check in float32, which excludes rounding as the cause."""

RECHECK_TOKENS = 16
"""Number of tokens of each of these samples."""


Draw = Callable[..., list[SampledRow]]
"""`sample`, or a slower function with its arguments."""

logger = logging.getLogger(__name__)


class MismatchError(ValueError):
    """A model's log-probabilities depend on how they are computed, so that no learner can trust its samples."""


def mismatch_limit(dtype: torch.dtype, divisor: float = 1.0) -> float:
    """Return the limit of a mean difference between log-probabilities, in nats a token.

    Args:
        dtype: The format of computing.
        divisor: The temperature, by which differences of logits are divided.
    """
    return (LIMIT if dtype == torch.float32 else LIMIT_ROUNDED) / divisor


def mean_difference(values: Tensor, others: Tensor) -> float:
    """Return the mean of the absolute differences of log-probabilities, in nats a token."""
    return float((values.float() - others.float()).abs().mean())


def disagreement(
    dtype: torch.dtype, measure: Callable[[torch.dtype], float], divisor: float = 1.0
) -> float | None:
    """Measure the mean difference of log-probabilities; `None` if it is within the limit.

    In half precision, rounding alone can reach the limit. A difference above it is measured again in float32,
    where rounding is far below the limit.

    Args:
        dtype: The format of computing.
        measure: Returns the mean difference when computed in a format.
        divisor: As of `mismatch_limit`.
    """
    difference = measure(dtype)
    if difference <= mismatch_limit(dtype, divisor):
        return None
    if dtype != torch.float32:
        try:
            difference = measure(torch.float32)
        except torch.OutOfMemoryError:
            logger.warning(
                "log-probabilities differ by %.3g nats a token from those of a plain pass. There is too little "
                "memory to check in float32 whether rounding is the cause: watch the metric mismatch",
                difference,
            )
            return None
    return None if difference <= mismatch_limit(torch.float32, divisor) else difference


def computing(model: Any, dtype: torch.dtype) -> AbstractContextManager[Any]:
    """Let a model compute as a learner does: under autocast in bfloat16, else with float32 weights."""
    if dtype == torch.bfloat16:
        return torch.autocast(model.device.type, torch.bfloat16)
    rounded = any(weight.dtype != torch.float32 for weight in model.parameters())
    return round_weights(model, torch.float32) if rounded else nullcontext()


class SamplingGuard:
    """Samples in the fastest way that agrees with a plain pass over the first samples of each policy.

    Args:
        model: The model, for names and causes.
        dtype: The format of computing.
        draw: Samples in a given way and format of computing: `draw(way, prompts, num_samples, dtype)`.
        score: Returns the log-probabilities of rows by plain passes: `score(prompt, rows, dtype)`.
    """

    def __init__(
        self,
        model: Any,
        dtype: torch.dtype,
        draw: Callable[[Draw, Sequence[Prompt], int, torch.dtype], list[SampledRow]],
        score: Callable[[Prompt, Sequence[SampledRow], torch.dtype], Tensor],
    ) -> None:
        self._model, self._dtype = model, dtype
        self._draw, self._score = draw, score
        self._way: Draw = sample
        self._proven: set[tuple[str | None, bool]] = set()

    def sample(self, prompts: Sequence[Prompt], num_samples: int) -> list[SampledRow]:
        """Draw completions of all prompts: those of the first one, then those of the second, and so on.

        Raises:
            MismatchError: If samples do not agree with a plain pass, however they are drawn.
        """
        prompts = [prompt.draw_numbers(num_samples) for prompt in prompts]
        while True:
            rows = self._draw(self._way, prompts, num_samples, self._dtype)
            fault = self._find_fault(prompts, rows, num_samples)
            if fault is None:
                return rows
            self._slow_down(*fault)

    def _find_fault(
        self, prompts: Sequence[Prompt], rows: Sequence[SampledRow], num_samples: int
    ) -> tuple[float, bool] | None:
        """Return the first difference above the limit, and whether the prompt was padded; `None` without one."""
        width = max(len(prompt.ids) for prompt in prompts)
        for adapter in dict.fromkeys(prompt.adapter for prompt in prompts):
            places = [at for at, prompt in enumerate(prompts) if prompt.adapter == adapter]
            place = min(places, key=lambda at: len(prompts[at].ids))
            prompt, padded = prompts[place], self._way is sample and len(prompts[place].ids) < width
            if (adapter, padded) in self._proven:
                continue
            own = rows[place * num_samples : (place + 1) * num_samples]
            longest = sorted(own, key=lambda row: -len(row.tokens))[:ROWS]
            difference = self._compare(prompt, longest, max(prompts, key=lambda p: len(p.ids)))
            if difference is not None:
                return difference, padded
            # The first token does not use the cache.
            if len(longest[0].tokens) > 1 or prompt.sampling.max_new_tokens == 1:
                self._proven.add((adapter, padded))
        return None

    def _compare(self, prompt: Prompt, rows: Sequence[SampledRow], longest: Prompt) -> float | None:
        """Return the difference of some samples from a plain pass, if it is above the limit."""

        def measure(dtype: torch.dtype) -> float:
            compared = rows if dtype == self._dtype else self._draw_again(prompt, longest, dtype)
            sampled = torch.tensor([value for row in compared for value in row.log_probs])
            return mean_difference(self._score(prompt, compared, dtype).cpu(), sampled)

        return disagreement(self._dtype, measure, prompt.sampling.divisor)

    def _draw_again(self, prompt: Prompt, longest: Prompt, dtype: torch.dtype) -> list[SampledRow]:
        """Draw a few samples of a prompt, padded as it was, in another format of computing."""
        tokens = min(RECHECK_TOKENS, prompt.sampling.max_new_tokens)
        sampling = replace(prompt.sampling, max_new_tokens=tokens, stop=None)
        generator = torch.Generator().manual_seed(0)
        few = [
            Prompt(of.ids, sampling, generator, of.adapter)
            for of in ([prompt] if longest is prompt else [prompt, longest])
        ]
        return self._draw(self._way, few, RECHECK, dtype)[:RECHECK]

    def _slow_down(self, difference: float, padded: bool) -> None:
        """Sample in the next slower way; raise a `MismatchError` if there is none."""
        words = f"its samples differ by {difference:.3g} nats a token from a plain pass over the same tokens"
        if self._way is sample_without_cache:
            raise MismatchError(
                f"the model {model_name(self._model)} cannot be sampled: {words}, even without a cache and "
                f"padding (limit {mismatch_limit(self._dtype):g}). {likely_cause(self._model)}"
            )
        self._proven.clear()
        if padded:
            self._way = sample_by_length
            logger.warning(
                "the model %s is sampled in batches of prompts of equal length: in other batches %s, probably "
                "because its recurrent layers do not mask padding",
                model_name(self._model),
                words,
            )
        else:
            self._way = sample_without_cache
            logger.warning(
                "the model %s is sampled without a cache, which is slow: each token takes a pass over all earlier "
                "tokens. With a cache %s. %s",
                model_name(self._model),
                words,
                likely_cause(self._model),
            )


def likely_cause(model: Any) -> str:
    """Return the likely cause of a disagreement, in a sentence with the remedy."""
    kinds = sorted({rope["rope_type"] for rope in rotary(model)} & {*LENGTH_DEPENDENT})
    if kinds:
        return (
            f"Its rotary positions change with the length of the whole sequence (rope_type={kinds[0]!r}): lower "
            f"max_prompt_tokens or max_new_tokens, so that both fit into {context_length(model)} tokens"
        )
    return (
        "Probably the model keeps state between passes, or is random in evaluation mode: take another model, or "
        "another version of transformers"
    )
