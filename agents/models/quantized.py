"""Frozen models in 8 or 4 bits below adapters, by bitsandbytes.

The learner scores with the same quantized weights as the sampler: an engine has one model. A row's output depends
on no other row: 8 bits have no outliers, which bitsandbytes would choose over all rows of a batch (arXiv
2208.07339). Embeddings, norms and the head keep the compute format.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any

import torch

from llm_decpomdp.utils.extras import install_command


class _CastWarning(logging.Filter):
    """Drops the warning of each product in 8 bits, which are computed in float16 on purpose."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "inputs will be cast" not in record.getMessage()


def quantization_arguments(
    quantization: str, dtype: torch.dtype, device: torch.device
) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` for a quantization other than `none`.

    Raises:
        ImportError: If bitsandbytes is missing.
    """
    if find_spec("bitsandbytes") is None:
        raise ImportError(
            f"quantization={quantization} needs the package bitsandbytes: {install_command('quantized')}"
        )
    from transformers import BitsAndBytesConfig

    logging.getLogger("bitsandbytes.autograd._functions").addFilter(_CastWarning())
    options: dict[str, Any] = {"load_in_8bit": True, "llm_int8_threshold": 0.0}
    if quantization == "4bit":
        options = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
        options["bnb_4bit_compute_dtype"] = dtype
    config = BitsAndBytesConfig(**options)  # type: ignore[no-untyped-call]
    return {"quantization_config": config, "device_map": {"": device}}


def keep_gradients(model: Any) -> None:
    """Keep bitsandbytes from packing 4-bit weights on a CPU for a kernel through which no gradient flows."""
    for part in model.modules():
        if hasattr(part, "support_avx512bf16_for_cpu"):
            part.support_avx512bf16_for_cpu = False


def quantization_of(model: Any) -> str:
    """Return the quantization of a model, as options name it."""
    for name in ("8bit", "4bit"):
        if getattr(model, f"is_loaded_in_{name}", False):
            return name
    return "none"


def check_quantization(quantization: str, adapted: bool, hollow: bool, name: object) -> None:
    """Raise a `ValueError` unless a quantized model is a whole one below an adapter."""
    if quantization == "none":
        return
    if not adapted:
        raise ValueError(
            f"quantization={quantization} of {str(name)!r}: quantized weights cannot be trained, and there is no "
            "adapter. Set model.lora, as in {r: 16}, or model.quantization=none"
        )
    if hollow:
        raise ValueError(
            f"quantization={quantization}: a quantized model cannot be cut into shards. Set learner.fsdp_size=1"
        )
