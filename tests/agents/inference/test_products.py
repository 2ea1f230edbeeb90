"""Products by oneDNN: the values and gradients of torch, in all float32 passes of fused kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.nn.functional import linear

from llm_decpomdp.agents.inference import products
from llm_decpomdp.agents.inference.products import (
    HAS_ONEDNN,
    fused_products,
    multiply,
    onednn_product,
)
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.single_model import load_policy
from tests.agents.conftest import Make
from tests.agents.inference.test_log_probs import PROMPT, ROWS, gradients

pytestmark = pytest.mark.skipif(not HAS_ONEDNN, reason="this torch has no oneDNN")

ON_CPU = not torch.cuda.is_available()
LINEAR_LAYERS = 2 * 7 + 1
"""Linear layers of the tiny model, with its head."""


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Collects the shapes of the products."""
    found: list[tuple[int, ...]] = []

    def multiply(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        found.append((*states.shape, len(weight)))
        return onednn_product(states, weight, bias)

    monkeypatch.setattr(products, "onednn_product", multiply)
    yield found


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("rows", [(), (0,), (2, 0), (7,), (1, 7), (2, 3, 5)])
def test_values_and_gradients_are_those_of_a_linear_layer(
    shapes: list[tuple[int, ...]], bias: bool, frozen: bool, rows: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(12, 5, bias=bias)
    layer.weight.requires_grad_(not frozen)
    states = torch.randn(*rows, 12, requires_grad=True)
    weights = torch.randn(*rows, 5)
    wanted = [states, *(weight for weight in layer.parameters() if weight.requires_grad)]
    expected = layer(states)
    with fused_products(layer):
        found = layer(states)
    assert len(shapes) == 1 and not frozen == found.grad_fn.needs_input_grad[1]
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad((found * weights).sum(), wanted),
        torch.autograd.grad((expected * weights).sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
    assert len(shapes) == 2


def test_compiled_products_have_one_code_for_all_numbers_of_rows() -> None:
    codes: list[Any] = []

    def note(graph: Any, _: Any) -> Any:
        codes.append(graph)
        return graph

    torch._dynamo.reset()
    layer = torch.nn.Sequential(torch.nn.Linear(8, 12))
    backend = aot_autograd(fw_compiler=note, bw_compiler=lambda graph, _: graph)
    with fused_products(layer):
        compiled = torch.compile(layer, backend=backend, dynamic=True)
        for rows in (5, 7, 9):
            compiled(torch.randn(1, rows, 8, requires_grad=True)).sum().backward()
    torch._dynamo.reset()
    assert len(codes) == 1


def test_adapters_are_compiled_without_graph_breaks() -> None:
    torch._dynamo.reset()
    torch.compile(multiply, backend="eager", fullgraph=True)(torch.ones(3, 4), torch.ones(2, 4))
    torch._dynamo.reset()


def test_states_without_a_gradient_cost_no_product(shapes: list[tuple[int, ...]]) -> None:
    layer = torch.nn.Linear(4, 3)
    with fused_products(layer):
        layer(torch.ones(2, 4)).sum().backward()
    assert shapes == [(2, 4, 3)]
    assert torch.equal(layer.weight.grad, torch.full((3, 4), 2.0))  # type: ignore[arg-type]


def test_other_formats_compute_as_before(shapes: list[tuple[int, ...]]) -> None:
    layers = torch.nn.ModuleList([torch.nn.Linear(4, 3), torch.nn.Linear(4, 3).bfloat16()])
    states = torch.randn(2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        expected = layers[0](states)
        with fused_products(layers):
            assert torch.equal(layers[0](states), expected)
    with fused_products(layers):
        layers[1](states.bfloat16())
        assert "forward" not in vars(layers[1])
        with fused_products(layers):  # as of a layer that is computed again
            assert "forward" in vars(layers[0])
        assert "forward" in vars(layers[0])
    assert not shapes and not any("forward" in vars(layer) for layer in layers)


@pytest.mark.parametrize("transposed", [False, True])
def test_compiled_code_knows_the_shapes_and_strides_of_the_operator(transposed: bool) -> None:
    weight = torch.randn(4, 6).T if transposed else torch.randn(6, 4)
    checks = ("test_schema", "test_faketensor")
    for bias in (None, torch.randn(6)):
        arguments = (torch.randn(3, 4), weight, bias)
        torch.library.opcheck(onednn_product, arguments, test_utils=checks)
        torch.testing.assert_close(onednn_product(*arguments), linear(*arguments))


@pytest.mark.skipif(not ON_CPU, reason="the tiny models are on a GPU")
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("logits", [2**24, 64])
def test_a_learner_multiplies_by_onednn(
    make_policy: Make,
    monkeypatch: pytest.MonkeyPatch,
    shapes: list[tuple[int, ...]],
    checkpointing: bool,
    logits: int,
) -> None:
    monkeypatch.setattr("llm_decpomdp.agents.inference.log_probs.LOGITS_AT_ONCE", logits)
    policy = make_policy()
    expected = gradients(policy.model, policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 0.7))
    engine = ModelEngine(
        policy.model,
        policy.tokenizer,
        compute_dtype="float32",
        fused_kernels=True,
        gradient_checkpointing=checkpointing,
    )
    engine.log_probs_of_prompts([(PROMPT, ROWS)], 0.7)  # checks the model
    shapes.clear()
    values = engine.log_probs_of_prompts([(PROMPT, ROWS)], 0.7)
    chunks = sum(shape[-1] == policy.model.config.vocab_size for shape in shapes)
    assert chunks == (16 if logits == 64 else 1)
    assert len(shapes) == LINEAR_LAYERS - 1 + chunks
    found = gradients(policy.model, values)
    # The backward pass has a product of each layer; layers and all but the first chunk are computed again.
    repeated = (LINEAR_LAYERS - 1) * checkpointing + chunks - 1
    assert len(shapes) == 2 * (LINEAR_LAYERS - 1 + chunks) + repeated
    assert (found - expected).norm() <= 1e-4 * expected.norm()
    assert not any("forward" in vars(part) for part in policy.model.modules())


@pytest.mark.skipif(not ON_CPU, reason="the tiny models are on a GPU")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_frozen_weights_below_adapters_are_multiplied_by_onednn_in_float32(
    make_policy: Make, tmp_path: Path, shapes: list[tuple[int, ...]], dtype: str
) -> None:
    make_policy().save(tmp_path)
    lora: dict[str, Any] = {"r": 4, "target_modules": "all-linear"}
    policy = load_policy(tmp_path, compute_dtype=dtype, lora=lora, fused_kernels=True)
    policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 0.7)
    shapes.clear()
    policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 0.7).sum().backward()
    first = 3  # products of the first layer, whose states have no gradient
    expected = 2 * LINEAR_LAYERS - first if dtype == "float32" else 0
    assert len(shapes) == expected
