"""Decoder layers that are compiled by `torch.compile` (`model.compile`), for learning and for sampling.

All layers of a model share compiled code, so that a model of any depth compiles one layer. Numbers of rows and
tokens are symbols in it. Only another kind of pass has code of its own: one without a gradient, of another number
format, or of a single row.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.exc import TorchDynamoException
from torch._functorch import config as functorch_config
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer

from llm_decpomdp.agents.inference.log_probs import unwrap_peft
from llm_decpomdp.agents.inference.static_cache import StaticLayer

BACKEND = "inductor"
"""The backend of `torch.compile`; tests take a faster one."""

MOST_CODES = 64
"""Largest number of kinds of passes that are compiled; further ones are computed without."""

LONGEST_MESSAGE = 400
"""Most characters of an error that a warning quotes."""

CACHE_ARGUMENTS = ("cache", "past_key_values")
"""Names of a layer's argument for keys and values, in the versions of transformers."""

logger = logging.getLogger(__name__)


class CompiledLayers(AbstractContextManager[None]):
    """A context in which the decoder layers of a model compute with compiled code.

    Modules are not wrapped, so weights keep their names. With a cache, only passes of `StaticSteps` are compiled.
    If the compiler fails, a warning names its error, and the layers compute without compiled code from then on.

    Args:
        model: A transformers model, or a peft model around one.
        fused: Whether a learner has fused kernels too.

    Raises:
        ValueError: If torch is too old, no compiler is installed, transformers marks no layers of the model, or
            fused kernels are for a GPU.
    """

    def __init__(self, model: Any, fused: bool = False) -> None:
        check_compiler(model.device)
        if fused and model.device.type != "cpu":
            raise ValueError(
                "model.compile does not compile the flex attention that model.fused_kernels has on a GPU: set one "
                "of them"
            )
        marked = GradientCheckpointingLayer
        self._layers = [part for part in unwrap_peft(model).modules() if isinstance(part, marked)]
        if not self._layers:
            raise ValueError(
                f"model.compile compiles layers that transformers marks, and a model of type "
                f"{unwrap_peft(model).config.model_type!r} has none: set model.compile=false"
            )
        self._codes = {kind: _LayerCode(_forward_of(kind)) for kind in {*map(type, self._layers)}}

    def __enter__(self) -> None:
        for index, layer in enumerate(self._layers):
            layer.forward = partial(_compute, layer, index, self._codes[type(layer)])

    def __exit__(self, *_: object) -> None:
        for layer in self._layers:
            del layer.forward


def check_compiler(device: torch.device) -> None:
    """Raise a `ValueError` if torch is too old, or has no compiler for the code of a device."""
    if "isolate_recompiles" not in signature(torch.compile).parameters:
        raise ValueError(
            f"model.compile needs torch 2.13, and this is {torch.__version__}: set model.compile=false"
        )
    if device.type == "cpu":
        name = os.environ.get("CXX", "g++")
        missing = shutil.which(name) is None
        needed = f"a C++ compiler, and {name} is not found. Install g++, or name one in CXX"
    else:
        missing = find_spec("triton") is None
        needed = "the package triton. Install it"
    if missing:
        raise ValueError(f"model.compile needs {needed}, or set model.compile=false")


def _forward_of(kind: Any) -> Callable[..., Any]:
    """Return the pass of a kind of layers without what transformers puts around it for checkpoints."""
    forward: Callable[..., Any] = kind.forward.__wrapped__
    return forward


class _LayerCode:
    """The compiled pass of a kind of layers, or the plain one after the compiler has failed."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self._plain, self._compiled = forward, _compile(forward)
        self._failed = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._failed:
            # Code is made at the first pass of each kind, which may come late in a run. That of the backward pass
            # is made here too, since an error in the backward pass itself could not be caught.
            try:
                if not torch.is_grad_enabled():
                    return self._compiled(*args, **kwargs)
                with functorch_config.patch(force_non_lazy_backward_lowering=True):
                    return self._compiled(*args, **kwargs)
            except TorchDynamoException as error:
                self._failed = True
                logger.warning(
                    "torch.compile failed, and the layers compute without compiled code from now on: %s. Set "
                    "model.compile=false, or repair the compiler",
                    describe_failure(error),
                )
        return self._plain(*args, **kwargs)


def describe_failure(error: Exception) -> str:
    """Return the kind and the message of an error in one line, and of a compiler's error those of its cause."""
    cause = getattr(error, "inner_exception", error)
    message = " ".join(str(cause).split())
    if len(message) > LONGEST_MESSAGE:  # a compiler's output has the reason at its end
        message = f"{message[: LONGEST_MESSAGE // 2]} ... {message[-LONGEST_MESSAGE // 2 :]}"
    return f"{type(cause).__name__}: {message}"


def _compile(forward: Callable[..., Any]) -> Callable[..., Any]:
    compile_function: Any = torch.compile  # whose types lack its newest arguments
    code: Callable[..., Any] = compile_function(
        forward,
        backend=BACKEND,
        dynamic=True,
        recompile_limit=MOST_CODES,
        isolate_recompiles=True,  # other models do not count
    )
    return code


def _compute(layer: Any, index: int, code: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    for name in CACHE_ARGUMENTS:
        if kwargs.get(name) is not None:
            layers = kwargs[name].layers
            if len(layers) <= index or not isinstance(layers[index], StaticLayer):
                return type(layer).forward(layer, *args, **kwargs)
            kwargs[name] = _CacheOfLayer(layers[index])
    if layer.gradient_checkpointing and layer.training:
        return layer._gradient_checkpointing_func(partial(code, layer, **kwargs), *args)
    return code(layer, *args, **kwargs)


class _CacheOfLayer(Cache):
    """The cache of one layer, for code that must not depend on the layer's number."""

    def __init__(self, layer: StaticLayer) -> None:
        self._layer = layer

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Add a token; return the keys and values of all."""
        return self._layer.update(key_states, value_states)
