"""One model in memory, with which one or several policies sample and learn.

Policies with different adapters share the frozen base model and are sampled in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.continuous import sample_continuously
from llm_decpomdp.agents.inference.decoding import attention_span, decoding
from llm_decpomdp.agents.inference.log_probs import (
    PromptRows,
    log_probs_of_prompts,
    padded_log_probs,
)
from llm_decpomdp.agents.inference.lora_batch import batched_adapters, can_batch_adapters
from llm_decpomdp.agents.inference.options import Caching
from llm_decpomdp.agents.inference.prefill import PrefixCache, SetAdapters
from llm_decpomdp.agents.inference.sampler import (
    Prompt,
    Remote,
    SampledRow,
    ignore_adapters,
    sample,
)
from llm_decpomdp.agents.inference.static_cache import sample_static, uses_static_cache
from llm_decpomdp.agents.inference.tokenization import TokenDecoder, stop_length
from llm_decpomdp.agents.models.features import hidden_means
from llm_decpomdp.agents.models.methods import (
    SamplingMethod,
    ScoringMethod,
    choose_sampling_method,
    choose_scoring_method,
    continues_prefixes,
    warn_of_padding,
)
from llm_decpomdp.agents.models.prompting import end_id, end_ids
from llm_decpomdp.agents.models.weights import (
    activate_adapter,
    active_adapter,
    requires_grad_restored,
    resolve_compute_dtype,
    round_weights,
    weights_as,
)
from llm_decpomdp.policy import SKIPPED, Completion

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.kernels import LearnerKernels


def avoid_attention_plans(device: torch.device) -> None:
    """Let torch not compute attention by cuDNN in this process, if the device is a GPU."""
    # For each new number of tokens cuDNN makes a plan, which took up to 2.5 s on an H100; nearly every update has
    # such a number, and its learning took 0.6 s. For all threads, since two policies may learn at the same time.
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)


class ModelEngine:
    """Samples tokens from a causal language model, and computes the log-probabilities of tokens.

    Args:
        model: A transformers model with a head for the next token, or a peft model around one.
        tokenizer: Its tokenizer.
        compute_dtype: `float32`, `bfloat16`, or `auto`: bfloat16 where the device is fast with it.
        gradient_checkpointing: Compute activations twice instead of keeping them: less memory, more time.
        caching: Options of keys and values; `None` for the defaults.
        fused_kernels: Learn with the kernels of `fused.py`, if the model agrees with them.
        compile: Compile the layers (`compiled.py`), for learning and for sampling with a static cache.

    Raises:
        ValueError: If `compute_dtype` is unknown, no token ends a completion, layers cannot be compiled, or the
            model has dropout, with which activations that are computed twice would differ.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        compute_dtype: str = "auto",
        gradient_checkpointing: bool = False,
        caching: Caching | None = None,
        fused_kernels: bool = False,
        compile: bool = False,
    ) -> None:
        # Dropout would make the learner's distribution differ from the sampler's.
        self.model = model.eval()
        avoid_attention_plans(model.device)
        self.compute_dtype = resolve_compute_dtype(compute_dtype, model.device)
        self.kernels: LearnerKernels | None = None
        """Kernels of a learner's passes; `None` without adapters, checkpointing, fused kernels and compilation."""
        # A caller may have enabled checkpointing in the model itself.
        recomputes = gradient_checkpointing or getattr(model, "is_activation_checkpointing", False)
        if recomputes or fused_kernels or compile or hasattr(model, "peft_config"):
            from llm_decpomdp.agents.models.kernels import LearnerKernels

            self.kernels = LearnerKernels(self, gradient_checkpointing, fused_kernels, compile)
        self.tokenizer = tokenizer
        self.text = TokenDecoder(tokenizer)
        self.end_ids = end_ids(model, tokenizer)
        """All tokens that end a completion."""
        self.end_id = end_id(tokenizer, self.end_ids)
        """The end token of completions that are not sampled: that of the chat template, or the tokenizer's."""
        self.caching = caching or Caching()
        self.sampling_method: SamplingMethod = (
            sample_static if uses_static_cache(model, self.caching) else sample
        )
        """The fastest method that agrees with the model, once the model was checked (`methods.py`)."""
        self._checked: set[str | None] = set()  # adapters whose samples agree with a plain pass
        self.prefix_cache = self.caching.prefix_cache
        """Gigabytes for keys and values of earlier turns; 0 if the model cannot continue from them."""
        self._prefixes: PrefixCache | None = None
        self._continued: set[str | None] = set()  # adapters whose samples from a prefix agree
        self._packs: bool | None = None  # unknown until the first use
        self._score_unpacked: ScoringMethod = padded_log_probs  # known with `_packs`
        self._span = attention_span(model.config)
        self._warned_of_span = False
        self.remote: Remote | None = None
        """The sampler that replaces the model here, if set."""
        self.sample_in_flight: Callable[..., list[SampledRow]] | None = None
        """Samples while newer weights replace the model's own, if set (`in_flight.use_newer_weights`)."""

    @property
    def is_remote(self) -> bool:
        """True if a sampler in another process replaces the model here."""
        return self.remote is not None

    def generate(
        self, requests: Sequence[tuple[Any, str]], num_samples: int = 1
    ) -> list[list[Completion]]:
        """Sample `num_samples` completions for each pair of a policy of this engine and its prompt.

        The completion of a prompt that its policy skips is `SKIPPED`.

        Raises:
            PromptTooLong: If a prompt is too long for its policy, which neither skips nor cuts it.
            MismatchError: If the model samples by other probabilities than those that a learner computes.
            ValueError: If `num_samples` is below 1, or a prompt is empty.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, got {num_samples}")
        prompts = [policy.request(text) for policy, text in requests]
        unskipped = [prompt for prompt in prompts if prompt is not None]
        rows = iter(self._sample_prompts(unskipped, num_samples) if unskipped else ())
        return [
            [
                SKIPPED if prompt is None else self._completion(next(rows), prompt)
                for _ in range(num_samples)
            ]
            for prompt in prompts
        ]

    def _sample_prompts(self, prompts: Sequence[Prompt], num_samples: int) -> list[SampledRow]:
        if self.remote is not None:
            return self._sample_remotely(self.remote, prompts, num_samples)
        adapters = list(dict.fromkeys(prompt.adapter for prompt in prompts))
        if len(adapters) > 1 and not can_batch_adapters(self.model):
            return self._sample_in_turn(adapters, prompts, num_samples)
        unchecked = [prompt for prompt in prompts if prompt.adapter not in self._checked]
        if unchecked:
            self.sampling_method = choose_sampling_method(self, unchecked, self.sampling_method)
            self._checked.update(adapters)
        # In the order of the prompts. The method may sort prompts that share a generator of random numbers.
        prompts = [prompt.draw_numbers(num_samples) for prompt in prompts]
        if self.sample_in_flight is not None:
            return self.sample_in_flight(self.sampling_method, prompts, num_samples)
        method = self._method(prompts)
        return self.run_method(method, prompts, num_samples, self.compute_dtype, self.end_ids)

    def _method(self, prompts: Sequence[Prompt]) -> SamplingMethod:
        """Return the method that agrees with the model, with the options of `Caching` that apply to it."""
        if self.sampling_method is not sample:
            return self.sampling_method
        if self._prefixes is not None and self._continues(prompts):
            self._prefixes.use_weights(self.model.parameters())
            return partial(sample, prefixes=self._prefixes)
        if self.caching.continuous_batching is not None:
            return partial(sample_continuously, size=self.caching.continuous_batching)
        return sample

    def _sample_remotely(
        self, remote: Remote, prompts: Sequence[Prompt], num_samples: int
    ) -> list[SampledRow]:
        """Sample by another process, in any thread: the model here may learn meanwhile."""
        rows = remote.sample(prompts, num_samples)
        stops = [prompt.sampling.stop for prompt in prompts for _ in range(num_samples)]
        return [*map(self._drop_suffix, rows, stops)]

    def _sample_in_turn(
        self, adapters: Sequence[str | None], prompts: Sequence[Prompt], num_samples: int
    ) -> list[SampledRow]:
        """Sample a batch for each adapter, and return the rows in the order of the prompts."""
        rows_of = {
            name: iter(self._sample_prompts([p for p in prompts if p.adapter == name], num_samples))
            for name in adapters
        }
        return [next(rows_of[prompt.adapter]) for prompt in prompts for _ in range(num_samples)]

    def _continues(self, prompts: Sequence[Prompt]) -> bool:
        """Check whether samples from a prefix agree with a plain pass, for adapters that were not checked."""
        unchecked = [prompt for prompt in prompts if prompt.adapter not in self._continued]
        if unchecked and not continues_prefixes(self, unchecked):
            self.prefix_cache, self._prefixes = 0.0, None
            return False
        self._continued.update(prompt.adapter for prompt in unchecked)
        return True

    @contextmanager
    def reuse_prefixes(self, dialogues: bool = True) -> Iterator[None]:
        """Reuse the keys and values of earlier prompts and answers until the block ends.

        A collection of rollouts is one block, so what is reused does not depend on earlier collections.

        Args:
            dialogues: Whether prompts have histories; with `prefix_cache=None`, nothing is reused without.
        """
        gigabytes = float(dialogues) if self.prefix_cache is None else self.prefix_cache
        if gigabytes:
            self._prefixes = PrefixCache(gigabytes * 2**30)
        try:
            yield
        finally:
            self._prefixes = None

    def run_method(
        self,
        method: SamplingMethod,
        prompts: Sequence[Prompt],
        num_samples: int,
        dtype: torch.dtype,
        end_ids: Sequence[int],
    ) -> list[SampledRow]:
        """Sample completions of all prompts by a method, with weights rounded to `dtype`."""
        with self.sampling_weights(prompts, dtype) as set_adapters:
            return method(
                self.model, prompts, num_samples, end_ids, set_adapters, self.text.decode_whole
            )

    @contextmanager
    def sampling_weights(
        self, prompts: Sequence[Prompt], dtype: torch.dtype
    ) -> Iterator[SetAdapters]:
        """Let the model compute with the adapters of prompts, and with weights rounded to `dtype`.

        The context gives the function that sets the adapter of each row. No weight may be written in it.
        """
        adapters = sorted({prompt.adapter for prompt in prompts if prompt.adapter is not None})
        if len(adapters) == 1:
            self.activate(*adapters)
        stack = bool(adapters) and can_batch_adapters(self.model)
        with (
            self._rounded(dtype),
            decoding(self.model),
            nullcontext() if self.kernels is None else self.kernels.sampling(),
            batched_adapters(self.model, adapters)
            if stack
            else nullcontext(ignore_adapters) as set_adapters,
        ):
            yield set_adapters

    def _rounded(self, dtype: torch.dtype) -> AbstractContextManager[None]:
        return round_weights(self.model, dtype)

    def _completion(self, row: SampledRow, prompt: Prompt) -> Completion:
        has_end = row.stopped and row.tokens[-1] in self.end_ids
        tokens = row.tokens[:-1] if has_end else row.tokens
        text = self.text.before_stop(prompt.prefill, tokens, prompt.sampling.stop or ())
        reason = "stop" if row.stopped else "length"
        return Completion(
            prompt.prefill + text,
            row.tokens,
            row.log_probs,
            reason,
            prompt.long,
            versions=row.versions,
        )

    def _drop_suffix(self, row: SampledRow, stops: Sequence[str] | None) -> SampledRow:
        # A server may have drawn a few tokens behind a stop string.
        length = stop_length(row.tokens, stops, self.text.decode_whole) if stops else None
        if length is None:
            return row
        return SampledRow(row.tokens[:length], row.log_probs[:length], True, row.versions[:length])

    def log_probs_of_prompts(self, prompts: Sequence[PromptRows], divisor: float) -> Tensor:
        """Return differentiable log-probabilities of all tokens of completions, one completion after the other.

        Args:
            prompts: Token ids of prompts, and of the completions of each.
            divisor: Divides the logits.

        Returns:
            (K,), float32, in nats.
        """
        packs = all(self._can_pack(prompt, rows) for prompt, rows in prompts)
        with self._computing(), self._checkpointing():
            if packs and self.kernels is not None:
                return self.kernels.log_probs_of_prompts(prompts, divisor)
            if packs:
                return log_probs_of_prompts(self.model, prompts, divisor)
            parts = (self._score_unpacked(self.model, *pair, divisor) for pair in prompts)
            return torch.cat([*parts])

    def _can_pack(self, prompt: Sequence[int], rows: Sequence[Sequence[int]]) -> bool:
        """Check whether rows can be packed, by the model and by their lengths."""
        if self._packs is None:
            tokens = (*prompt, *rows[0])
            self._packs, self._score_unpacked = choose_scoring_method(
                self.model, self.compute_dtype, tokens
            )
            if self.kernels is not None:
                self.kernels.check(self._packs, tokens)
        # Packed rows have no windows, so every layer must see whole rows.
        fits = len(prompt) + max(map(len, rows)) <= self._span
        if self._packs and not fits and not self._warned_of_span:
            self._warned_of_span = True
            warn_of_padding(
                f"some are longer than what its attention sees, {self._span:.0f} tokens; these alone"
            )
        return self._packs and fits

    def _computing(self) -> AbstractContextManager[Any]:
        """Compute in `compute_dtype`: under autocast in bfloat16."""
        enabled = self.compute_dtype == torch.bfloat16
        return torch.autocast(self.model.device.type, torch.bfloat16, enabled=enabled)

    def _checkpointing(self) -> AbstractContextManager[None]:
        """Compute activations twice, if that is enabled."""
        return nullcontext() if self.kernels is None else self.kernels.checkpointing()

    # Weights and adapters

    @property
    def adapter(self) -> str | None:
        """The active adapter, or none if the model has no adapters."""
        return active_adapter(self.model)

    def activate(self, adapter: str | None) -> None:
        """Compute with this adapter alone; `requires_grad` of all weights stays."""
        activate_adapter(self.model, adapter)

    def add_adapter(self, name: str, config: Any) -> None:
        """Add an adapter; the active adapter and `requires_grad` of all weights stay."""
        with requires_grad_restored(self.model):
            self.model.add_adapter(name, config)
        if self.kernels is not None:
            self.kernels.adapter_layers = None

    @contextmanager
    def disable_adapters(self) -> Iterator[None]:
        """Compute with the model below all adapters."""
        with requires_grad_restored(self.model), self.model.disable_adapter():
            yield

    def replace_weights(self, others: Mapping[str, Tensor]) -> AbstractContextManager[None]:
        """Compute with other weights, by name, in place of the model's own."""
        return weights_as(self.model, lambda name, weight: others.get(name, weight))

    def gather(self) -> None:
        """Collect sharded weights for `generate` (`sharded.py`); here they are complete."""

    def free(self) -> None:
        """Free the weights that `gather` has collected; here there are none."""

    def finish_sampling(self) -> None:
        """Wait until all processes have sampled with shards (`sharded.py`); here there are none."""

    def features(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the mean of the last hidden states over the tokens of each row, (B, d), float32."""
        learning = self._checkpointing() if torch.is_grad_enabled() else nullcontext()
        with self._computing(), learning:
            return hidden_means(self.model, rows, self._span)
