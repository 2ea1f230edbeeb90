"""A model with adapters, with the number format and the kernels of a learner's passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor
from torch.utils.checkpoint import noop_context_fn
from transformers.modeling_layers import GradientCheckpointingLayer

from llm_decpomdp.agents.inference.compiled import CompiledLayers
from llm_decpomdp.agents.inference.fused import fused_adapters, fused_kernels
from llm_decpomdp.agents.inference.log_probs import Contexts, unwrap_peft
from llm_decpomdp.agents.inference.lora_batch import adapter_layers
from llm_decpomdp.agents.inference.products import fused_products
from llm_decpomdp.agents.models.weights import resolve_compute_dtype, weights_as


def avoid_attention_plans(device: torch.device) -> None:
    """Let torch not compute attention by cuDNN in this process, if the device is a GPU."""
    # For each new number of tokens cuDNN makes a plan, which took up to 2.5 s on an H100; nearly every update has
    # such a number, and its learning took 0.6 s. For all threads, since two policies may learn at the same time.
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)


class AdaptedModel:
    """Chooses the adapter, the number format and the kernels with which a model computes.

    Args:
        model: A transformers model with a head for the next token, or a peft model around one.
        compute_dtype: As of `ModelEngine`.
        gradient_checkpointing: As of `ModelEngine`.
        fused_kernels: As of `ModelEngine`.
        compile: As of `ModelEngine`.

    Raises:
        ValueError: As of `ModelEngine`.
    """

    def __init__(
        self,
        model: Any,
        *,
        compute_dtype: str,
        gradient_checkpointing: bool,
        fused_kernels: bool,
        compile: bool,
    ) -> None:
        # Dropout would make the learner's distribution differ from the sampler's.
        self.model = model.eval()
        avoid_attention_plans(model.device)
        self.compute_dtype = resolve_compute_dtype(compute_dtype, model.device)
        self._fuses = fused_kernels  # after the first use, whether the model agrees with them
        self._compiled = CompiledLayers(model, fused_kernels) if compile else None
        self._learns_compiled = compile  # after the first use, whether the model agrees with them
        self.samples_compiled = compile
        """Whether compiled layers are used for sampling; after the first use, whether the model agrees."""
        self._in_kernels = False  # whether the present pass is one of `_kernels`
        self._adapter_layers: list[Any] | None = None  # collected at the first pass
        if gradient_checkpointing:
            self._enable_checkpointing()

    @property
    def adapter(self) -> str | None:
        """The active adapter, or none if the model has no adapters."""
        return self.model.active_adapter if hasattr(self.model, "peft_config") else None

    def activate(self, adapter: str | None) -> None:
        """Compute with this adapter alone; `requires_grad` of all weights stays."""
        if adapter is not None and adapter != self.adapter:
            with self._requires_grad_restored():
                self.model.set_adapter(adapter)

    def add_adapter(self, name: str, config: Any) -> None:
        """Add an adapter; the active adapter and `requires_grad` of all weights stay."""
        with self._requires_grad_restored():
            self.model.add_adapter(name, config)
        self._adapter_layers = None

    @contextmanager
    def disable_adapters(self) -> Iterator[None]:
        """Compute with the model below all adapters."""
        with self._requires_grad_restored(), self.model.disable_adapter():
            yield

    @contextmanager
    def _requires_grad_restored(self) -> Iterator[None]:
        # peft sets `requires_grad` of all adapters when another one becomes active.
        before = [(weight, weight.requires_grad) for weight in self.model.parameters()]
        try:
            yield
        finally:
            for weight, requires_grad in before:
                weight.requires_grad_(requires_grad)

    def replace_weights(self, others: Mapping[str, Tensor]) -> AbstractContextManager[None]:
        """Compute with other weights, by name, in place of the model's own."""
        return weights_as(self.model, lambda name, weight: others.get(name, weight))

    def _computing(self) -> AbstractContextManager[Any]:
        """Compute in `compute_dtype`: under autocast in bfloat16."""
        enabled = self.compute_dtype == torch.bfloat16
        return torch.autocast(self.model.device.type, torch.bfloat16, enabled=enabled)

    def _enable_checkpointing(self) -> None:
        config = self.model.config.get_text_config().to_dict()
        for name, value in config.items():
            if ("dropout" in name or name.endswith("pdrop")) and value:
                raise ValueError(
                    f"activations cannot be computed twice with dropout: {name} is {value}; "
                    "set it to 0 in the model's config"
                )
        self.model.activation_checkpointing_enable(
            {"use_reentrant": False, "preserve_rng_state": False, "context_fn": self._recomputing}
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
            if self._fuses:
                stack.enter_context(fused_kernels(self.model))
            if self._compiled is not None and self._learns_compiled:
                if not self._fuses:
                    # The layers of peft depend on the name of the adapter.
                    stack.enter_context(fused_adapters(self.model))
                stack.enter_context(self._compiled)
            yield

    @contextmanager
    def _input_casts_disabled(self) -> Iterator[None]:
        """Let layers with adapters take their inputs as they are."""
        # `disable_input_dtype_casting` of peft walks through all modules each time, 16 ms with 28 layers.
        if self._adapter_layers is None:
            layers = adapter_layers(self.model)
            self._adapter_layers = [part for part in layers if isinstance(part, BaseTunerLayer)]
        layers = self._adapter_layers
        before = [layer.cast_input_dtype_enabled for layer in layers]
        try:
            for layer in layers:
                layer.cast_input_dtype_enabled = False
            yield
        finally:
            for layer, enabled in zip(layers, before, strict=True):
                layer.cast_input_dtype_enabled = enabled

    @property
    def _head_contexts(self) -> Contexts:
        """The contexts of the first and second pass of the head: its adapter, and the products of the first."""
        head = unwrap_peft(self.model).get_output_embeddings()
        if adapter_layers(head):
            return self._recomputing
        return partial(_repeat_products, head) if self._fuses else noop_context_fn

    def _recomputing(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """Return contexts of a layer's first pass and of its second, with the adapter and kernels of the first."""
        return nullcontext(), self._repeat(self.adapter, self._in_kernels)

    @contextmanager
    def _repeat(self, adapter: str | None, in_kernels: bool) -> Iterator[None]:
        self.activate(adapter)
        with self._kernels() if in_kernels else nullcontext():
            yield

    @contextmanager
    def _checkpointing(self) -> Iterator[None]:
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
