"""Attention of packed rows in tiles: the values and gradients of a dense mask."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as attend

from llm_decpomdp.agents import ModelEngine, load_policy
from llm_decpomdp.agents.inference import packed_attention as packed
from llm_decpomdp.agents.inference.fused import fused_adapters
from llm_decpomdp.agents.inference.log_probs import dense_mask, encode_layout
from llm_decpomdp.agents.inference.packed_attention import (
    NAME,
    block_mask,
    decode_layout,
    packed_attention,
    tiled_attention,
    tiled_attention_backward,
    tiles,
)
from tests.agents.conftest import Make
from tests.agents.inference.test_log_probs import PROMPT, ROWS, gradients

CPU = torch.device("cpu")
FITS = not torch.cuda.is_available()
"""Whether the tiny models have fused kernels: flex attention of a GPU needs larger heads."""
LAYOUTS: dict[str, packed.Layout] = {
    "one prompt": ((5, (3, 1, 4)),),
    "no completion": ((4, ()),),
    "completions of one token have no place in the row": ((3, (0, 2, 0)), (2, (0,))),
    "a prompt and a completion longer than a tile": ((9, (11, 2)), (1, (1,)), (8, (4, 4, 4))),
}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "BLOCK", 4)
    tiles.cache_clear()


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_values_and_gradients_of_a_dense_mask(name: str, heads: int, scaling: float | None) -> None:
    layout = LAYOUTS[name]
    length = sum(prompt + sum(lengths) for prompt, lengths in layout)
    torch.manual_seed(0)
    states = [torch.randn(1, count, length, 8, requires_grad=True) for count in (heads, 2, 2)]
    weights = torch.randn(1, length, heads, 8)
    mask = dense_mask(layout, CPU, torch.float32)
    expected = attend(*states, attn_mask=mask, scale=scaling, enable_gqa=True).transpose(1, 2)
    found, _ = packed_attention(None, *states, encode_layout(layout), scaling=scaling)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad((found * weights).sum(), states),
        torch.autograd.grad((expected * weights).sum(), states),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("formats", ["bbb", "ffb", "bbf"])
def test_bfloat16_rounds_as_little_as_the_attention_of_torch(formats: str) -> None:
    layout = LAYOUTS["a prompt and a completion longer than a tile"]
    length = sum(prompt + sum(lengths) for prompt, lengths in layout)
    torch.manual_seed(0)
    rounded = [torch.randn(1, count, length, 64).bfloat16() for count in (6, 2, 2)]
    grad = torch.randn(1, length, 6, 64).bfloat16().float()

    def compute(tiled: bool, formats: str) -> list[Tensor]:
        kinds = {"f": torch.float32, "b": torch.bfloat16}
        states = [
            state.to(kinds[f]).requires_grad_() for state, f in zip(rounded, formats, strict=True)
        ]
        if tiled:
            result, _ = packed_attention(None, *states, encode_layout(layout))
        else:
            mask = dense_mask(layout, CPU, states[0].dtype)
            result = attend(*states, attn_mask=mask, enable_gqa=True).transpose(1, 2)
        return [result.detach(), *torch.autograd.grad((result.float() * grad).sum(), states)]

    values = (compute(False, "fff"), compute(False, "bbb"), compute(True, formats))
    for exact, theirs, ours in zip(*values, strict=True):
        assert (ours.float() - exact).norm() <= 1.5 * (theirs.float() - exact).norm()


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_passes_in_the_place_of_a_mask(name: str) -> None:
    assert decode_layout(encode_layout(LAYOUTS[name])) == LAYOUTS[name]
    assert encode_layout(LAYOUTS[name]).dim() == 4


def test_no_tile_computes_scores_of_other_prompts() -> None:
    layout = LAYOUTS["a prompt and a completion longer than a tile"]
    scores = sum(
        (tile.queries.stop - tile.queries.start) * sum(key.stop - key.start for key in tile.keys)
        for tile in tiles(layout)
    )
    visible = int((dense_mask(layout, CPU, torch.float32) == 0).sum())
    length = sum(prompt + sum(lengths) for prompt, lengths in layout)
    assert visible <= scores < 1.6 * visible < length**2


def test_the_mask_of_flex_attention_is_the_dense_one() -> None:
    layout = LAYOUTS["a prompt and a completion longer than a tile"]
    mask = block_mask(layout, CPU).mask_mod
    length = sum(prompt + sum(lengths) for prompt, lengths in layout)
    places = torch.arange(length)
    visible = mask(None, None, places[:, None], places[None])
    assert torch.equal(visible, dense_mask(layout, CPU, torch.float32)[0, 0] == 0)


def test_other_scores_than_products_are_refused() -> None:
    states = torch.randn(1, 2, 12, 4)
    with pytest.raises(NotImplementedError, match="packed attention does not know softcap"):
        packed_attention(None, states, states, states, encode_layout(((5, (7,)),)), softcap=3.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_code_knows_the_shapes_and_strides_of_the_operators(dtype: torch.dtype) -> None:
    def states(heads: int) -> Tensor:
        return torch.randn(1, 12, heads, 8).to(dtype).transpose(1, 2)  # as layers make them

    query, key, value = states(4), states(2), states(2)
    layout, checks = encode_layout(((5, (7,)),)), ("test_schema", "test_faketensor")
    torch.library.opcheck(tiled_attention, (query, key, value, layout, 0.5), test_utils=checks)
    result, normalizers = tiled_attention(query, key, value, layout, 0.5)
    arguments = (torch.ones_like(result), query, key, value, result, normalizers, layout, 0.5)
    torch.library.opcheck(tiled_attention_backward, arguments, test_utils=checks)


PROMPTS = ((PROMPT, ROWS), ((7, 8), ((9, 1), (3, 3, 3, 0))), (PROMPT, ((5,),)))


def fused(policy: Any, **options: Any) -> ModelEngine:
    return ModelEngine(
        policy.model, policy.tokenizer, compute_dtype="float32", fused_kernels=True, **options
    )


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("room", [4096, 30])
def test_one_pass_of_several_prompts_has_the_gradient_of_one_pass_each(
    make_policy: Make, monkeypatch: pytest.MonkeyPatch, checkpointing: bool, room: int
) -> None:
    monkeypatch.setattr("llm_decpomdp.agents.inference.log_probs.ROW_TOKENS", room)
    policy = make_policy()
    each = torch.cat([policy.engine.log_probs_of_prompts([one], 0.7) for one in PROMPTS])
    expected = gradients(policy.model, each)
    dense = policy.engine.log_probs_of_prompts(PROMPTS, 0.7)
    engine = fused(policy, gradient_checkpointing=checkpointing)
    tiled = engine.log_probs_of_prompts(PROMPTS, 0.7)
    assert engine.kernels.fuses and policy.model.config._attn_implementation == "sdpa"
    for found in (dense, tiled):
        torch.testing.assert_close(found, each, atol=1e-5, rtol=1e-5)
        difference = gradients(policy.model, found) - expected
        assert difference.norm() <= 1e-4 * expected.norm()
    assert policy.model.config._attn_implementation == "sdpa"


def test_fused_kernels_read_layouts(make_policy: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy()
    engine = fused(policy)
    engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    seen: list[tuple[str, torch.dtype]] = []

    def watch(module: Any, _: Any, options: dict[str, Any]) -> None:
        seen.append((module.config._attn_implementation, options["attention_mask"].dtype))

    policy.model.model.layers[0].self_attn.register_forward_pre_hook(watch, with_kwargs=True)
    engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    assert seen == [(NAME, torch.int64)]


def test_a_model_with_another_attention_learns_without(
    make_policy: Make, caplog: pytest.LogCaptureFixture
) -> None:
    policy = make_policy()
    policy.model.set_attn_implementation("eager")
    expected = policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    engine = fused(policy)
    with caplog.at_level(logging.WARNING):
        found = engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    assert torch.equal(found, expected) and not engine.kernels.fuses
    assert caplog.text.count("model.fused_kernels has no effect with this model: ") == 1
    assert "attention 'eager'" in caplog.text


# Adapters


def adapted(folder: Path, dtype: str, fused_kernels: bool, **options: Any) -> Any:
    policy = load_policy(
        folder,
        compute_dtype=dtype,
        lora={"r": 4, "lora_alpha": 6, "target_modules": "all-linear"},
        fused_kernels=fused_kernels,
        **options,
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) / 8)
    return policy


def gradient(policy: Any, values: Tensor) -> Tensor:
    (values * torch.linspace(-1, 2, len(values), device=values.device)).sum().backward()
    return torch.cat([weight.grad.flatten() for weight in policy.parameters()])


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_adapters_in_the_product_of_the_frozen_weights_have_equal_gradients(
    make_policy: Make, tmp_path: Path, dtype: str, limit: float, checkpointing: bool
) -> None:
    make_policy().save(tmp_path)
    values, gradients_of = [], []
    for fuse in (False, True):
        policy = adapted(tmp_path, dtype, fuse, gradient_checkpointing=checkpointing)
        found = policy.engine.log_probs_of_prompts(PROMPTS, 0.7)
        assert policy.engine.kernels.fuses == (fuse and FITS)
        values.append(found.detach())
        gradients_of.append(gradient(policy, found))
        assert not any("forward" in vars(part) for part in policy.model.modules())
    assert (values[1] - values[0]).abs().mean() <= limit
    assert (gradients_of[1] - gradients_of[0]).norm() <= limit * gradients_of[0].norm()


def test_the_reference_and_layers_without_an_adapter_compute_as_before(
    make_policy: Make, tmp_path: Path
) -> None:
    make_policy().save(tmp_path)
    policy = adapted(tmp_path, "float32", True)
    layers = [part for part in policy.model.modules() if hasattr(part, "lora_A")]
    with fused_adapters(policy.model):
        assert all("forward" in vars(layer) for layer in layers)
        with fused_adapters(policy.model):  # as of a layer that is computed again
            assert all("forward" in vars(layer) for layer in layers)
    with policy.engine.disable_adapters(), fused_adapters(policy.model):
        assert not any("forward" in vars(layer) for layer in layers)


def test_inputs_of_adapters_keep_their_format(make_policy: Make, tmp_path: Path) -> None:
    """The bytes are the same: autocast rounds such an input back."""
    make_policy().save(tmp_path)
    policy = adapted(tmp_path, "bfloat16", False)
    seen: set[torch.dtype] = set()
    for part in policy.model.modules():
        for name in getattr(part, "lora_A", {}):
            part.lora_A[name].register_forward_pre_hook(lambda _, states: seen.add(states[0].dtype))
    policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)  # probes
    seen.clear()
    policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    assert seen == {torch.bfloat16}


def test_rows_beyond_the_span_are_computed_again_as_they_were(
    make_policy: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_policy().save(tmp_path)
    engine = adapted(tmp_path, "float32", True, gradient_checkpointing=True).engine
    engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0).sum().backward()
    assert engine._packs
    assert engine.kernels.fuses == FITS
    monkeypatch.setattr(engine, "_span", 2)
    engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0).sum().backward()
