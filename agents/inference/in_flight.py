"""Sampling that takes newer weights between two tokens: a completion continues under them.

Keys and values of the tokens so far are kept (PipelineRL, arXiv 2509.19128). Each token is drawn from the
distribution of the weights at its time, given these keys and values, and its log-probability is recorded then. So
the recorded values are those of the policy that sampled, which an importance weight needs.

Degenerate case: if no weights arrive, the tokens are those of `sample`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor
from typing_extensions import Protocol

from llm_decpomdp.agents.inference.options import Caching
from llm_decpomdp.agents.inference.sampler import (
    GrowingSteps,
    Prefilled,
    Prompt,
    SampledRow,
    sample,
)
from llm_decpomdp.agents.inference.static_cache import sample_static

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.engine import ModelEngine


class NewerWeights(Protocol):
    """Weights that arrive while a model samples; `use_newer_weights` gives them to an engine."""

    @property
    def version(self) -> int:
        """Version of the model's weights."""
        ...

    def arrived(self) -> bool:
        """Check whether there are other weights than the model's; called before each token."""
        ...

    def load(self) -> None:
        """Replace the model's weights by the newest ones, and `version` by theirs."""
        ...


def refused_options(caching: Caching) -> dict[str, Any]:
    """Return the options, by name, that need weights which stay, or another loop than that of `sample`."""
    names = ("static_cache", "continuous_batching", "prefix_cache")
    return {name: value for name in names if (value := getattr(caching, name))}


def use_newer_weights(engine: ModelEngine, newer: NewerWeights) -> None:
    """Let an engine take newer weights between two tokens of all further completions.

    Raises:
        ValueError: If the engine has options for keys and values that have no effect then (`refused_options`).
    """
    refused = refused_options(engine.caching)
    if refused:
        options = ", ".join(f"{name}={value}" for name, value in refused.items())
        raise ValueError(
            "a model that takes newer weights while it samples needs a cache that grows and one batch, and this "
            f"one has {options}: load it without {' and '.join(refused)}, or take in_flight=false (in Python, "
            "sample with ProcessRolloutWorkers)"
        )
    if engine.sampling_method is sample_static:  # the default of a GPU
        engine.sampling_method = sample
    engine.sample_in_flight = partial(sample_in_flight, engine, newer)


class InFlightSteps(GrowingSteps):
    """Passes of one new token for each line; `refresh` is called before each and may replace the weights."""

    def __init__(self, begin: Prefilled, refresh: Callable[[], None]) -> None:
        super().__init__(begin)
        self._refresh = refresh

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the logits (N, V) behind one more token of each line (N,)."""
        self._refresh()
        return super().__call__(tokens)


def sample_in_flight(
    engine: ModelEngine,
    newer: NewerWeights,
    method: Callable[..., list[SampledRow]],
    prompts: Sequence[Prompt],
    num_samples: int,
) -> list[SampledRow]:
    """Draw the completions of `sample` from weights that may change between two tokens, and record versions.

    Args:
        engine: Has the model.
        newer: Its newer weights.
        method: The engine's sampling method. With another one than `sample`, weights change only before it.
        prompts: B prompts.
        num_samples: S, at least 1.

    Returns:
        N = B * S rows, as of `sample`, with the version of each token.

    Raises:
        FloatingPointError: If the model's logits are not finite.
    """
    if newer.arrived():
        newer.load()
    versions = [newer.version]  # of the first token of every row, then of the second, and so on
    # Rounded and stacked weights are copies of the model's own. Both are left while these are replaced.
    context = ExitStack()
    enter = partial(engine.sampling_weights, prompts, engine.compute_dtype)
    set_adapters = context.enter_context(enter())

    def refresh() -> None:
        nonlocal set_adapters
        if newer.arrived():
            context.close()
            newer.load()
            set_adapters = context.enter_context(enter())
        versions.append(newer.version)

    def set_rows(names: Sequence[str | None]) -> None:
        set_adapters(names)

    if method is sample:
        method = partial(sample, steps=partial(InFlightSteps, refresh=refresh))
    decode = engine.text.decode_whole
    with context:
        rows = method(engine.model, prompts, num_samples, engine.end_ids, set_rows, decode)
    # Other methods never call `refresh`.
    versions += versions[-1:] * (max(len(row.tokens) for row in rows) - len(versions))
    return [replace(row, versions=tuple(versions[: len(row.tokens)])) for row in rows]
