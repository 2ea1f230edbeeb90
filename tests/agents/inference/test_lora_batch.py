"""Rows of one batch with an adapter each: what the layers compute, and what is left of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from peft import KasaConfig

from llm_decpomdp.agents.adapters import KEEPING_STARTS, add_adapters
from llm_decpomdp.agents.inference.lora_batch import batched_adapters, can_batch_adapters
from tests.agents.conftest import Make

IDS = torch.tensor([[4, 5, 6], [7, 8, 9], [4, 5, 6], [9, 9, 9]])
ROWS = ["one", "two", "two", "one"]
QUERIES: dict[str, Any] = {"r": 3, "target_modules": ["q_proj"]}
Build = Callable[..., Any]


@pytest.fixture
def build(make_policy: Make) -> Build:
    """Build a model whose adapters do something, and each something else."""

    def build(a: Mapping[str, Any], b: Mapping[str, Any] = QUERIES) -> Any:
        model = add_adapters(make_policy().model, {"one": a, "two": b}, {"one": 0, "two": 1}).eval()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.requires_grad:
                    weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
        return model

    return build


@torch.no_grad()
def logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=ids).logits
    return found


def one_by_one(model: Any, rows: Sequence[str]) -> torch.Tensor:
    parts = []
    for name, row in zip(rows, IDS, strict=False):
        model.set_adapter(name)
        parts.append(logits(model, row[None]))
    return torch.cat(parts)


@pytest.mark.parametrize(
    "other",
    [
        {"r": 5, "lora_alpha": 2, "target_modules": ["q_proj"]},
        {"r": 4, "target_modules": ["v_proj", "down_proj", "lm_head"], "use_rslora": True},
        {"r": 2, "target_modules": ["q_proj", "o_proj"], "rank_pattern": {"q_proj": 7}},
        {"r": 2, "target_modules": ["q_proj"], "alpha_pattern": {"q_proj": 64}},
    ],
)
def test_ranks_scales_and_layers_may_differ(build: Build, other: dict[str, Any]) -> None:
    model = build(other)
    assert can_batch_adapters(model)
    with batched_adapters(model, ["one", "two"]) as set_adapters:
        set_adapters(ROWS)
        found = logits(model, IDS)
        set_adapters(ROWS[:2])  # two rows left
        fewer = logits(model, IDS[:2])
    torch.testing.assert_close(found, one_by_one(model, ROWS), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(fewer, found[:2], atol=1e-3, rtol=1e-3)
    assert not torch.allclose(found[0], found[2], atol=0.01)


def test_adapters_of_few_rows_use_one_thread(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []

    def noted(states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        used.append(torch.get_num_threads())
        return torch.nn.functional.linear(states, weight)

    monkeypatch.setattr("llm_decpomdp.agents.inference.lora_batch.linear", noted)
    monkeypatch.setattr("llm_decpomdp.agents.inference.decoding.THREADS_SLEEP", True)
    model, before = build(QUERIES), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with batched_adapters(model, ["one", "two"]) as set_adapters:
            set_adapters(["one", "two"])
            logits(model, IDS[:2])
        assert used and {*used} == {1} and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_row_without_an_adapter_has_the_model_below(build: Build) -> None:
    model = build(QUERIES)
    with model.disable_adapter():
        expected = logits(model, IDS[:1])
    with batched_adapters(model, ["one", "two"]) as set_adapters:
        set_adapters([None, "one", "two", "one"])
        torch.testing.assert_close(logits(model, IDS)[:1], expected, atol=1e-3, rtol=1e-3)


def test_layers_compute_as_before_even_after_an_error(build: Build) -> None:
    model = build(QUERIES)
    expected = one_by_one(model, ROWS)
    with pytest.raises(RuntimeError, match="stop"), batched_adapters(model, ["one", "two"]):
        raise RuntimeError("stop")
    with pytest.raises(TypeError), batched_adapters(model, ["one", []]):  # type: ignore[list-item]
        pass  # no name of an adapter: fails while the layers are made
    assert not any("forward" in vars(part) for part in model.modules())
    torch.testing.assert_close(one_by_one(model, ROWS), expected)


@pytest.mark.parametrize(
    "kind", [{"use_dora": True}, {"lora_bias": True}, {"modules_to_save": ["lm_head"]}]
)
def test_what_is_more_than_two_matrices_cannot_be_mixed(build: Build, kind: dict[str, Any]) -> None:
    assert not can_batch_adapters(build({**QUERIES, **kind}))


def test_layers_whose_computation_was_replaced_cannot_be_mixed(build: Build) -> None:
    model = build(QUERIES)
    layer = next(part for name, part in model.named_modules() if name.endswith("q_proj"))
    layer.forward = layer.forward
    assert not can_batch_adapters(model)


@pytest.mark.parametrize(
    "option",
    [
        {"bias": "all"},
        {"init_lora_weights": "pissa"},
        {"init_lora_weights": "pissa_niter_2"},
        {"init_lora_weights": "olora"},
        {"kasa_config": KasaConfig()},
    ],
)
def test_adapters_that_change_frozen_models_fail(build: Build, option: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=f"{next(iter(option))}.* would change the frozen model below"
    ):
        build({**QUERIES, **option})


@pytest.mark.parametrize("start", KEEPING_STARTS)
def test_other_first_weights_leave_the_model_below(make_policy: Make, start: bool | str) -> None:
    model = make_policy().model
    before = model.get_decoder().layers[0].self_attn.q_proj.weight.clone()
    lora = {**QUERIES, "init_lora_weights": start, "r": 4}
    adapted = add_adapters(model, {"one": lora, "two": lora}, {"one": 0, "two": 1})
    layer = adapted.get_base_model().get_decoder().layers[0].self_attn.q_proj
    assert set(layer.lora_A) == {"one", "two"} and torch.equal(layer.base_layer.weight, before)
