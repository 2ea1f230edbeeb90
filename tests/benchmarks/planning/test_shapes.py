"""Sizes by formula against models that transformers and peft build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from llm_decpomdp.agents.inference.packed_log_probs import packed_log_probs
from llm_decpomdp.benchmarks.planning.shape_table import TABLE, listed_shape, shape_in, shape_of
from llm_decpomdp.benchmarks.planning.shapes import Shape

SHAPE = Shape(layers=8, hidden=96, intermediate=256, heads=6, kv_heads=2, vocabulary=50)


def model(shape: Shape = SHAPE, qwen: bool = False) -> Any:
    config = (Qwen2Config if qwen else LlamaConfig)(**shape.settings())
    return (Qwen2ForCausalLM if qwen else LlamaForCausalLM)(config)


@pytest.mark.parametrize(
    ("name", "billions"),
    [("qwen2.5-0.5b", 0.494), ("qwen2.5-3b", 3.09), ("qwen2.5-7b", 7.62), ("qwen2.5-32b", 32.8)],
)
def test_the_table_gives_the_published_numbers_of_weights(name: str, billions: float) -> None:
    assert TABLE[name].parameters == pytest.approx(billions * 1e9, rel=0.003)
    with torch.device("meta"):
        built = model(TABLE[name], qwen=True)
    counted = sum(weight.numel() for weight in built.parameters())
    assert TABLE[name].parameters == pytest.approx(counted, rel=3e-4)  # without norms and biases


def test_keys_and_values_of_a_token() -> None:
    assert TABLE["qwen2.5-7b"].kv_bytes(2) == 57_344


def test_names_are_found_whoever_owns_them() -> None:
    assert listed_shape("Qwen/Qwen2.5-Coder-3B-Instruct") is TABLE["qwen2.5-3b"]
    assert listed_shape("meta-llama/Llama-3.1-8B") is TABLE["llama-3.1-8b"]
    assert listed_shape("me/qwen2.5-3bonacci") is None


def test_a_folder_tells_its_shape(tiny_model: str) -> None:
    found = shape_of(tiny_model)
    assert (found.layers, found.hidden, found.kv_heads, found.head_dim) == (1, 16, 2, 8)
    expected = sum(w.numel() for w in LlamaForCausalLM.from_pretrained(tiny_model).parameters())
    assert found.parameters == expected
    assert shape_in(Path(tiny_model)) == found


@pytest.mark.parametrize("targets", [None, ["q_proj", "down_proj"], "all-linear"])
def test_adapters_have_as_many_weights_as_peft_makes(targets: Any) -> None:
    arguments = {"r": 4} if targets is None else {"r": 4, "target_modules": targets}
    adapted = get_peft_model(model(), LoraConfig(task_type="CAUSAL_LM", **arguments))
    trained = sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    assert SHAPE.adapter(arguments) == trained


@pytest.mark.parametrize("qwen", [False, True])
@pytest.mark.parametrize("element", [2, 4])
def test_activations_are_what_torch_keeps_for_the_backward_pass(element: int, qwen: bool) -> None:
    built, kept = model(qwen=qwen).eval(), {}
    own = {weight.untyped_storage().data_ptr() for weight in built.parameters()}
    rounded = element == 2  # copies of the weights are no activations

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = tensor, storage.nbytes()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=rounded),
    ):
        packed_log_probs(built, [1] * 100, [[3] * 50] * 4, 1.0)
    copies = rounded * 2 * sum(weight.numel() for weight in built.parameters())
    tokens = 100 + 4 * 49
    measured = (sum(size for _, size in kept.values()) - copies) / tokens
    assert SHAPE.activation_bytes(element) == pytest.approx(measured, rel=0.1)
    assert SHAPE.activation_bytes(element, checkpointing=True) < measured / 4
