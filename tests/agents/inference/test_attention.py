"""Attention of single tokens: what `sdpa` gives, and only while something is sampled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import AttentionInterface, BloomConfig, BloomForCausalLM

from llm_decpomdp.agents.inference import attention
from llm_decpomdp.agents.inference.attention import NAME, decoding, decoding_attention
from llm_decpomdp.agents.models.causal_lm import CausalLM


class Grouped(torch.nn.Module):
    num_key_value_groups = 3
    is_causal = True


@pytest.mark.parametrize("new", [1, 4])
@pytest.mark.parametrize("mask_heads", [None, 1, 6])
def test_it_gives_what_sdpa_gives(new: int, mask_heads: int | None) -> None:
    torch.manual_seed(0)
    query = torch.randn(5, 6, new, 8)
    key, value = torch.randn(2, 5, 2, 9, 8)
    mask = None if mask_heads is None else torch.randn(5, mask_heads, new, 9) > -1
    inputs = (Grouped(), query, key, value, mask)
    found, _ = decoding_attention(*inputs, scaling=0.3)
    expected, _ = AttentionInterface()["sdpa"](*inputs, scaling=0.3)
    torch.testing.assert_close(found, expected)


def test_it_is_used_while_sampling_and_no_longer(
    make_policy: Callable[..., CausalLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    def spy(*args: object, **options: object) -> object:
        used.append(1)
        return decoding_attention(*args, **options)  # type: ignore[arg-type]

    policy = make_policy()
    AttentionInterface.register(NAME, spy)
    try:
        group = policy.generate(["abc", "longer"], 3)[0]
        assert used
        used.clear()
        policy.log_probs("abc", group)
        assert not used and policy.model.config._attn_implementation == "sdpa"
    finally:
        AttentionInterface.register(NAME, decoding_attention)


def test_other_choices_of_attention_are_left_alone(make_policy: Callable[..., CausalLM]) -> None:
    model = make_policy().model
    model.set_attn_implementation("eager")
    with decoding(model):
        assert model.config._attn_implementation == "eager"
    bloom = BloomForCausalLM(BloomConfig(vocab_size=40, hidden_size=16, n_layer=1, n_head=2))
    before = bloom.config._attn_implementation
    with decoding(bloom):
        assert bloom.config._attn_implementation == before


def test_an_error_leaves_the_model_as_it_was(make_policy: Callable[..., CausalLM]) -> None:
    model = make_policy().model
    with pytest.raises(RuntimeError, match="stop"), decoding(model):
        assert model.config._attn_implementation == attention.NAME
        raise RuntimeError("stop")
    assert model.config._attn_implementation == "sdpa"
