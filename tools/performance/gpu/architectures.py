"""Models of real shapes with random weights, in folders of transformers' format: speed needs no training."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.models.local_models import tiny_model
from llm_decpomdp.benchmarks.doctor.memory_plan import TABLE, Shape

SIZES = {
    "tiny": Shape(2, 64, 128, 4, 2, 512, tied=True),
    "0.5b": TABLE["qwen2.5-0.5b"],
    "1.5b": TABLE["qwen2.5-1.5b"],
    "7b": TABLE["qwen2.5-7b"],
}
"""Shapes by name: `tiny` for tests, the others are those of Qwen2.5."""

CONTEXT = 32_768


def write_model(size: str, folder: Path) -> Path:
    """Write a Qwen2 of a size, with weights in bfloat16 and a tokenizer of bytes; texts hardly ever end.

    Args:
        size: One of `SIZES`.
        folder: Parent of the folder that is returned.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape, target = SIZES[size], folder / f"qwen2-{size}"
    target.mkdir()
    for path in tiny_model().iterdir():
        if path.name.startswith(("tokenizer", "special_tokens")):
            shutil.copy(path, target)
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=256,  # of the tokenizer of bytes
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model: Any = Qwen2ForCausalLM(config)
        model.to(torch.bfloat16).save_pretrained(target)
    return target
