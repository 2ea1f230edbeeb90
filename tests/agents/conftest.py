"""A tiny language model with random weights and a tokenizer of single characters, made here."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from llm_decpomdp.agents import CausalLM, ModelEngine, Sampling

SIZE = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "initializer_range": 0.5,
}
"""Arguments of a small model's configuration."""

Make = Callable[..., CausalLM]
"""Builds a policy; see `make_policy`."""

CHARACTERS = string.ascii_lowercase + " .,\nüé"


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; `pad` equals `eos`, as with many real models."""
    vocabulary = {token: index for index, token in enumerate(["<eos>", "<unk>", *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>", unk_token="<unk>"
    )


def tiny_model(seed: int) -> LlamaForCausalLM:
    tokenizer = tiny_tokenizer()
    wider = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    tokens = {
        "eos_token_id": 0,
        "pad_token_id": 0,
        "bos_token_id": None,
        "vocab_size": len(tokenizer),
    }
    config = LlamaConfig(
        **{**SIZE, **wider, **tokens, "num_key_value_heads": 2, "initializer_range": 0.3},
        max_position_embeddings=128,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


@pytest.fixture
def make_policy() -> Make:
    """Builds a tiny policy from a seed and sampling options."""

    def build(seed: int = 0, compute_dtype: str = "float32", **sampling: Any) -> CausalLM:
        options = Sampling(**{"max_new_tokens": 12, **sampling})
        engine = ModelEngine(tiny_model(seed), tiny_tokenizer(), compute_dtype=compute_dtype)
        return CausalLM(engine, options, seed=seed)

    return build
