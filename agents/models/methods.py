"""Choice of the sampling and scoring methods of a model: the fastest ones that agree with a plain pass.

Sampling uses a cache and pads prompts. Learning packs or pads completions. Some models then compute other
log-probabilities: they keep state outside the cache, do not mask padding, or scale positions by the length so far.
A plain pass has one row, and no cache, packing or padding.

An engine calls `choose_sampling_method` before it samples a policy for the first time, and `choose_scoring_method`
before its first scores. A method that disagrees with a plain pass is not used. If all sampling methods disagree,
the model is refused.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.compiled import describe_failure
from llm_decpomdp.agents.inference.log_probs import (
    Rows,
    packed_log_probs,
    padded_log_probs,
    plain_log_probs,
    unwrap_peft,
)
from llm_decpomdp.agents.inference.prefill import PrefixCache, SetAdapters
from llm_decpomdp.agents.inference.sampler import (
    Prompt,
    SampledRow,
    SampledRows,
    ignore_adapters,
    sample,
)
from llm_decpomdp.agents.inference.static_cache import sample_static
from llm_decpomdp.agents.inference.tokenization import Decode
from llm_decpomdp.agents.models.prompting import (
    LENGTH_DEPENDENT,
    context_length,
    model_name,
    rotary,
)
from llm_decpomdp.agents.models.weights import has_shards, round_weights

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.engine import ModelEngine

LIMIT, LIMIT_ROUNDED = 1e-3, 0.05
"""Largest mean difference of log-probabilities from those of a plain pass, in nats a token at temperature 1: in
float32, and in half precision."""

SAMPLES, TOKENS = 2, 24
"""Number of samples of each prompt in a check, and their largest number of tokens."""

NO_END = (-1,)  # never sampled: the first token alone would not use the cache

PACKABLE_ATTENTION = ("sdpa", "eager")
"""Implementations of attention that take a mask for each pair of tokens."""

SamplingMethod = Callable[..., list[SampledRow]]
"""`sample`, or a slower function with its arguments."""

ScoringMethod = Callable[[Any, Sequence[int], Rows, float], Tensor]
"""`padded_log_probs` or `plain_log_probs`."""

logger = logging.getLogger(__name__)


class MismatchError(ValueError):
    """A model's log-probabilities depend on how they are computed, so that no learner can trust its samples."""


def choose_sampling_method(
    engine: ModelEngine, prompts: Sequence[Prompt], start: SamplingMethod
) -> SamplingMethod:
    """Return the fastest sampling method that agrees with a plain pass for the first prompt of each adapter.

    The samples of the check have a separate random stream and are dropped. Compiled layers that fail or disagree
    are not used for sampling any more.

    Raises:
        MismatchError: If no method agrees.
    """
    probes, kernels = _probes(prompts), engine.kernels
    if kernels is not None and kernels.samples_compiled and start is sample_static:
        if kernels.check_sampling(partial(_sampling_difference, engine, start, probes)):
            return start
    first: float | None = None
    for method in METHODS[METHODS.index(start) :]:
        measure = partial(_sampling_difference, engine, method, probes)
        difference = disagreement(engine.compute_dtype, measure)
        first = first or difference
        if difference is None:
            if first is not None:
                _warn_of_sampling(engine.model, method, first)
            return method
    raise MismatchError(
        f"the model {model_name(engine.model)} cannot be sampled: its samples differ by {difference:.3g} nats a "
        "token from a plain pass over the same tokens, even without a cache and padding (limit "
        f"{mismatch_limit(engine.compute_dtype):g}). {_likely_cause(engine.model)}"
    )


def continues_prefixes(engine: ModelEngine, prompts: Sequence[Prompt]) -> bool:
    """Check whether a prompt whose first half is in a cache is continued as a plain pass would."""
    measure = partial(_sampling_difference, engine, _sample_halves, _probes(prompts))
    difference = disagreement(engine.compute_dtype, measure)
    if difference is not None:
        logger.warning(
            "the model %s computes the whole prompt in every turn: samples from the keys and values of an earlier "
            "turn differ by %.3g nats a token from a plain pass",
            model_name(engine.model),
            difference,
        )
    return difference is None


def _sample_halves(
    model: Any, prompts: Sequence[Prompt], num_samples: int, *rest: Any
) -> list[SampledRow]:
    """Draw the rows of `sample` from the keys and values of each prompt's first half."""
    continued: SamplingMethod = partial(sample, prefixes=PrefixCache(math.inf))
    halves = [replace(prompt, ids=prompt.ids[: len(prompt.ids) // 2 or 1]) for prompt in prompts]
    continued(model, halves, 1, *rest)
    return continued(model, prompts, num_samples, *rest)


def _warn_of_sampling(model: Any, method: SamplingMethod, difference: float) -> None:
    if method is sample:
        how = "without a static cache: with one"
        cause = "Set model.static_cache=false"
    elif method is sample_by_length:
        how = "in batches of prompts of equal length: in other batches"
        cause = "Probably its recurrent layers do not mask padding"
    else:
        how = "without a cache, which is slow: each token takes a pass over all earlier tokens. With a cache"
        cause = _likely_cause(model)
    logger.warning(
        "the model %s is sampled %s its samples differ by %.3g nats a token from a plain pass over the same "
        "tokens. %s",
        model_name(model),
        how,
        difference,
        cause,
    )


def _probes(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return the first prompt of each adapter, and its second half, which the batch pads."""
    probes = []
    # Reversed, so that the first prompt of an adapter stays.
    for prompt in {prompt.adapter: prompt for prompt in reversed(prompts)}.values():
        ids = list(prompt.ids) * (1 if len(prompt.ids) > 1 else 2)
        tokens = min(TOKENS, prompt.sampling.max_new_tokens)
        sampling = replace(prompt.sampling, max_new_tokens=tokens, stop=None)
        generator = torch.Generator().manual_seed(0)
        for part in (ids, ids[len(ids) // 2 :]):
            probes.append(Prompt(part, sampling, generator, prompt.adapter))
    return probes


@torch.no_grad()
def _sampling_difference(
    engine: ModelEngine, method: SamplingMethod, probes: Sequence[Prompt], dtype: torch.dtype
) -> float:
    """Return the largest mean difference of a prompt's samples from a plain pass, in nats at temperature 1."""
    rows = engine.run_method(method, probes, SAMPLES, dtype, NO_END)
    differences = []
    for index, prompt in enumerate(probes):
        samples, divisor = rows[index * SAMPLES : (index + 1) * SAMPLES], prompt.sampling.divisor
        engine.activate(prompt.adapter)
        with computing(engine.model, dtype):
            tokens = [row.tokens for row in samples]
            plain = plain_log_probs(engine.model, prompt.ids, tokens, divisor)
        sampled = torch.tensor([value for row in samples for value in row.log_probs])
        differences.append(divisor * mean_difference(plain.cpu(), sampled))
    return float(torch.tensor(differences).max())  # NaN if one of them is NaN, unlike max()


def choose_scoring_method(
    model: Any, dtype: torch.dtype, tokens: Sequence[int], packed: ScoringMethod = packed_log_probs
) -> tuple[bool, ScoringMethod]:
    """Return whether rows of tokens can be packed, by `packed`, and the method for those that are not."""
    prompt, rows = probe_rows(tokens)
    attention = unwrap_peft(model).config._attn_implementation
    reason: str | None = f"attention {attention!r} does not accept a mask over pairs of tokens"
    if attention in PACKABLE_ATTENTION:
        reason = scoring_failure(model, dtype, packed, prompt, rows)
    if reason is None:
        return True, padded_log_probs
    warn_of_padding(reason)
    difference = _scoring_difference(model, dtype, padded_log_probs, prompt, rows)
    if difference is None:
        return False, padded_log_probs
    logger.warning(
        "this model learns from completions one by one: padding changes their log-probabilities by %.3g nats a "
        "token",
        difference,
    )
    return False, plain_log_probs


def probe_rows(tokens: Sequence[int]) -> tuple[Sequence[int], Rows]:
    """Return a short prompt and two completions of tokens."""
    probe = [*tokens, *tokens, *tokens][:24]
    return probe[::3], [probe[1::3], probe[2::3][:5]]


def scoring_failure(
    model: Any, dtype: torch.dtype, method: ScoringMethod, prompt: Sequence[int], rows: Rows
) -> str | None:
    """Return why a method does not give the log-probabilities of plain rows; `None` if it does."""
    return failure(lambda: _scoring_difference(model, dtype, method, prompt, rows), "plain rows")


def failure(measure: Callable[[], float | None], expected: str) -> str | None:
    """Return the error or the difference that a measurement finds, in words; `None` if there is neither."""
    try:
        difference = measure()
    except torch.OutOfMemoryError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return describe_failure(error)
    if difference is None:
        return None
    return f"log-probabilities differ by {difference:.3g} nats a token from those of {expected}"


@torch.no_grad()
def _scoring_difference(
    model: Any, dtype: torch.dtype, method: ScoringMethod, prompt: Sequence[int], rows: Rows
) -> float | None:
    """Return the difference of log-probabilities from those of plain rows, if it is above the limit."""
    sharded = has_shards(model.parameters())

    def measure(format: torch.dtype) -> float:
        if sharded and format != dtype:
            raise FixedFormatError("weights in shards have one format")
        with computing(model, format):
            plain = plain_log_probs(model, prompt, rows, 1.0)
            return mean_difference(method(model, prompt, rows, 1.0), plain)

    # Trained weights are float32 in any format of computing, so that rounding can be excluded at once. Shards are
    # rounded where they are gathered.
    exact = model.dtype == torch.float32 and not sharded
    return disagreement(torch.float32 if exact else dtype, measure)


def warn_of_padding(reason: str) -> None:
    """Log the reason for padded rows."""
    logger.warning(
        "this model learns from padded rows, with the prompt computed once for each completion: %s",
        reason,
    )


def computing(model: Any, dtype: torch.dtype) -> AbstractContextManager[Any]:
    """Let a model compute as a learner does: under autocast in bfloat16, else with float32 weights."""
    if dtype == torch.bfloat16:
        return torch.autocast(model.device.type, torch.bfloat16)
    rounded = any(weight.dtype != torch.float32 for weight in model.parameters())
    return round_weights(model, torch.float32) if rounded else nullcontext()


# Limits


def mismatch_limit(dtype: torch.dtype) -> float:
    """Return the limit of a mean difference between log-probabilities, in nats a token at temperature 1."""
    return LIMIT if dtype == torch.float32 else LIMIT_ROUNDED


class FixedFormatError(Exception):
    """Raised by a model that computes in one number format only."""


def mean_difference(values: Tensor, others: Tensor) -> float:
    """Return the mean of the absolute differences of log-probabilities, in nats a token."""
    return float((values.float() - others.float()).abs().mean())


def disagreement(dtype: torch.dtype, measure: Callable[[torch.dtype], float]) -> float | None:
    """Measure the mean difference of log-probabilities; `None` if it is within the limit.

    In half precision, rounding alone can reach the limit. A difference above it is measured again in float32,
    where rounding is far below the limit.

    Args:
        dtype: The format of computing.
        measure: Returns the mean difference when computed in a format; raises a `FixedFormatError` if it cannot.
    """
    difference = measure(dtype)
    if difference <= mismatch_limit(dtype):
        return None
    if dtype != torch.float32:
        try:
            difference = measure(torch.float32)
        except (torch.OutOfMemoryError, FixedFormatError) as error:
            logger.warning(
                "log-probabilities differ by %.3g nats a token from those of a plain pass. Float32 would show "
                "whether rounding is the cause, and cannot be computed here (%s): watch the metric mismatch",
                difference,
                error,
            )
            return None
    return None if difference <= mismatch_limit(torch.float32) else difference


def _likely_cause(model: Any) -> str:
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


# Slower sampling methods


def sample_by_length(
    model: Any, prompts: Sequence[Prompt], num_samples: int, *arguments: Any
) -> list[SampledRow]:
    """Draw the rows of `sample` in a batch for each length of prompts: nothing is padded."""
    groups: dict[int, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(len(prompt.ids), []).append(prompt)
    rows = {
        length: iter(sample(model, group, num_samples, *arguments))
        for length, group in sorted(groups.items())
    }
    return [next(rows[len(prompt.ids)]) for prompt in prompts for _ in range(num_samples)]


@torch.no_grad()
def sample_without_cache(
    model: Any,
    prompts: Sequence[Prompt],
    num_samples: int,
    end_ids: Sequence[int],
    set_adapters: SetAdapters = ignore_adapters,
    decode: Decode | None = None,
) -> list[SampledRow]:
    """Draw the rows of `sample` prompt by prompt, by a pass over all tokens for each new one."""
    finished: list[SampledRow] = []
    for prompt in prompts:
        rows = SampledRows([prompt], num_samples, end_ids, model.device, decode)
        ids = torch.tensor([prompt.ids] * num_samples, device=model.device)  # (S, P)
        while len(ids):
            set_adapters(rows.adapters())
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1]
            tokens = rows.add_tokens(logits)
            ids = torch.cat([ids, tokens.unsqueeze(1)], 1)[rows.drop_ended()]
        finished += rows.finish()
    return finished


METHODS: tuple[SamplingMethod, ...] = (
    sample_static,
    sample,
    sample_by_length,
    sample_without_cache,
)
"""Sampling methods; those that are tried behind another one take a model that does not agree with it."""
