"""A learner's passes with adapters, activations computed twice, fused kernels or compiled layers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor
from torch.utils.checkpoint import noop_context_fn
from transformers.modeling_layers import GradientCheckpointingLayer

from llm_decpomdp.agents.inference.compiled import CompiledLayers
from llm_decpomdp.agents.inference.fused import can_fuse_kernels, fused_adapters, fused_kernels
from llm_decpomdp.agents.inference.log_probs import (
    Contexts,
    PromptRows,
    Rows,
    log_probs_of_prompts,
    unwrap_peft,
)
from llm_decpomdp.agents.inference.lora_batch import adapter_layers
from llm_decpomdp.agents.inference.products import fused_products
from llm_decpomdp.agents.models.methods import disagreement, failure, probe_rows, scoring_failure
from llm_decpomdp.agents.models.weights import activate_adapter, active_adapter

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.engine import ModelEngine

logger = logging.getLogger(__name__)


class LearnerKernels:
    """Chooses what the passes of an engine compute with, when its policies learn.

    Arguments and errors are those of `ModelEngine`; `fuse` is `fused_kernels`.
    """

    def __init__(
        self, engine: ModelEngine, gradient_checkpointing: bool, fuse: bool, compile: bool
    ) -> None:
        # Not the engine, which owns this object: a reference back would keep a dropped model until a collection.
        self.model, self.compute_dtype = engine.model, engine.compute_dtype
        self.fuses = fuse
        """Whether kernels are fused; after the first use, whether the model agrees with them."""
        self._compiled = CompiledLayers(engine.model, fuse) if compile else None
        self.learns_compiled = compile
        """Whether compiled layers are used for learning; after the first use, whether the model agrees."""
        self.samples_compiled = compile
        """The same for sampling."""
        self._in_kernels = False  # whether the present pass is one of `_kernels`
        self.adapter_layers: list[Any] | None = None  # collected at the first pass
        if gradient_checkpointing:
            self._enable_checkpointing()

    def check(self, packs: bool, tokens: Sequence[int]) -> None:
        """Check before the first pass whether rows of tokens with other kernels agree with plain rows."""
        self.fuses, self.learns_compiled = self.fuses and packs, self.learns_compiled and packs
        if self.fuses:
            attention = unwrap_peft(self.model).config._attn_implementation
            reason = (
                f"attention {attention!r} is not `sdpa`, or the model does not use the attention interface of "
                "transformers"
            )
            if can_fuse_kernels(self.model):
                reason = self._failure(tokens, partial(fused_kernels, self.model), tiled=True)
            if reason:
                self.fuses = False
                logger.warning("model.fused_kernels has no effect with this model: %s", reason)
        if self.learns_compiled:
            reason = self._failure(tokens, self._kernels, self.fuses)
            if reason:
                self.learns_compiled = False
                _warn_of_compiling("learning", reason)

    def check_sampling(self, measure: Callable[[torch.dtype], float]) -> bool:
        """Check by the difference from a plain pass whether samples of compiled layers agree with it."""
        dtype = self.compute_dtype
        reason = failure(lambda: disagreement(dtype, measure), "a plain pass")
        if reason:
            self.samples_compiled = False
            _warn_of_compiling("sampling", reason)
        return not reason

    def _failure(
        self,
        tokens: Sequence[int],
        kernels: Callable[[], AbstractContextManager[None]],
        tiled: bool,
    ) -> str:
        """Return why packed rows of tokens with other kernels differ from plain rows; empty if they do not."""

        def score(model: Any, prompt: Sequence[int], rows: Rows, divisor: float) -> Tensor:
            # With a gradient, so that the code of learning is compiled, also that of its backward pass.
            with torch.enable_grad(), kernels():
                values = log_probs_of_prompts(model, [(prompt, rows)], divisor, tiled=tiled)
                trained = [weight for weight in model.parameters() if weight.requires_grad]
                if trained:
                    torch.autograd.grad(values.sum(), trained, allow_unused=True)
                return values.detach()

        prompt, rows = probe_rows(tokens)
        return scoring_failure(self.model, self.compute_dtype, score, prompt, rows) or ""

    def log_probs_of_prompts(self, prompts: Sequence[PromptRows], divisor: float) -> Tensor:
        """Return the log-probabilities of `inference/log_probs.py`, computed with the chosen kernels."""
        with self._kernels():
            return log_probs_of_prompts(
                self.model, prompts, divisor, self.head_contexts, self.fuses
            )

    def sampling(self) -> AbstractContextManager[Any]:
        """Sample with compiled layers, where the model agrees with them."""
        return self._compiled if self._compiled and self.samples_compiled else nullcontext()

    def _enable_checkpointing(self) -> None:
        config = self.model.config.get_text_config().to_dict()
        for name, value in config.items():
            if ("dropout" in name or name.endswith("pdrop")) and value:
                raise ValueError(
                    f"activations cannot be computed twice with dropout: {name} is {value}; "
                    "set it to 0 in the model's config"
                )
        self.model.activation_checkpointing_enable(
            {"use_reentrant": False, "preserve_rng_state": False, "context_fn": self.recomputing}
        )

    @contextmanager
    def _kernels(self) -> Iterator[None]:
        """Choose the kernels of a learner's pass."""
        before, self._in_kernels = self._in_kernels, True
        with ExitStack() as stack:
            stack.callback(setattr, self, "_in_kernels", before)
            if hasattr(self.model, "peft_config"):
                # Autocast rounds the weights of adapters to the format of their input, so it needs no cast.
                if self.compute_dtype != torch.float32:
                    stack.enter_context(self._input_casts_disabled())
            if self.fuses:
                stack.enter_context(fused_kernels(self.model))
            if self._compiled is not None and self.learns_compiled:
                if not self.fuses:
                    # The layers of peft depend on the name of the adapter.
                    stack.enter_context(fused_adapters(self.model))
                stack.enter_context(self._compiled)
            yield

    @contextmanager
    def _input_casts_disabled(self) -> Iterator[None]:
        """Let layers with adapters take their inputs as they are."""
        # `disable_input_dtype_casting` of peft walks through all modules each time, 16 ms with 28 layers.
        if self.adapter_layers is None:
            layers = adapter_layers(self.model)
            self.adapter_layers = [part for part in layers if isinstance(part, BaseTunerLayer)]
        layers = self.adapter_layers
        before = [layer.cast_input_dtype_enabled for layer in layers]
        try:
            for layer in layers:
                layer.cast_input_dtype_enabled = False
            yield
        finally:
            for layer, enabled in zip(layers, before, strict=True):
                layer.cast_input_dtype_enabled = enabled

    @property
    def head_contexts(self) -> Contexts:
        """The contexts of the first and second pass of the head: its adapter, and the products of the first."""
        head = unwrap_peft(self.model).get_output_embeddings()
        if adapter_layers(head):
            return self.recomputing
        return partial(_repeat_products, head) if self.fuses else noop_context_fn

    def recomputing(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """Return contexts of a layer's first pass and of its second, with the adapter and kernels of the first."""
        return nullcontext(), self._repeat(active_adapter(self.model), self._in_kernels)

    @contextmanager
    def _repeat(self, adapter: str | None, in_kernels: bool) -> Iterator[None]:
        activate_adapter(self.model, adapter)
        with self._kernels() if in_kernels else nullcontext():
            yield

    @contextmanager
    def checkpointing(self) -> Iterator[None]:
        """Compute activations twice, if that is enabled."""
        # Only layers in training mode compute activations twice; the modules in them stay in evaluation mode.
        kind = GradientCheckpointingLayer
        layers = [
            m for m in self.model.modules() if isinstance(m, kind) and m.gradient_checkpointing
        ]
        try:
            for layer in layers:
                layer.training = True
            yield
        finally:
            for layer in layers:
                layer.training = False


def _repeat_products(
    head: Any,
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    return nullcontext(), fused_products(head)


def _warn_of_compiling(work: str, reason: str) -> None:
    logger.warning(
        "model.compile has no effect on %s with this model: %s. Set model.compile=false, or repair the compiler "
        "if it is the cause",
        work,
        reason,
    )
