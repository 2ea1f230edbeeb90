"""Kernels of a model's passes, and the adapters in them."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch.utils.checkpoint import noop_context_fn

from llm_decpomdp.agents import CausalLM, load_policy
from llm_decpomdp.agents.models.engine import ModelEngine, avoid_attention_plans
from tests.agents.conftest import Make

ROWS = [[4, 5, 6, 0], [7, 0]]


@pytest.fixture
def cudnn() -> Iterator[None]:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    yield
    torch.backends.cuda.enable_cudnn_sdp(before)


def test_a_gpu_computes_attention_without_plans_of_cudnn(cudnn: None) -> None:
    avoid_attention_plans(torch.device("cpu"))
    assert torch.backends.cuda.cudnn_sdp_enabled()
    avoid_attention_plans(torch.device("cuda", 0))
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def adapted(make_policy: Make, tmp_path: Path, targets: str | list[str]) -> CausalLM:
    make_policy().save(tmp_path)
    lora = {"r": 2, "target_modules": targets}
    return load_policy(tmp_path, compute_dtype="bfloat16", lora=lora)


def test_layers_take_inputs_as_they_are_only_in_a_pass_and_so_do_those_of_a_later_adapter(
    make_policy: Make, tmp_path: Path
) -> None:
    policy = adapted(make_policy, tmp_path, ["q_proj"])
    seen: list[set[bool]] = []

    def casts() -> set[bool]:
        layers = [m for m in policy.model.modules() if isinstance(m, BaseTunerLayer)]
        return {layer.cast_input_dtype_enabled for layer in layers}

    policy.model.get_base_model().model.register_forward_hook(lambda *_: seen.append(casts()))
    policy.engine.log_probs_of_prompts([([1, 2, 3], ROWS)], 1.0)
    config = type(policy.model.peft_config["default"])(r=2, target_modules=["v_proj"])
    policy.engine.add_adapter("later", config)
    policy.engine.log_probs_of_prompts([([1, 2, 3], ROWS)], 1.0)
    assert seen[-1] == {False} and casts() == {True}


@pytest.mark.parametrize("targets", [["q_proj"], ["q_proj", "lm_head"]])
def test_the_head_is_computed_again_in_contexts_only_with_an_adapter_of_its_own(
    make_policy: Make, tmp_path: Path, targets: list[str]
) -> None:
    engine = adapted(make_policy, tmp_path, targets).engine
    assert (engine.kernels.head_contexts is noop_context_fn) == ("lm_head" not in targets)


def test_a_dropped_policy_with_an_adapter_is_freed_without_a_collection(
    make_policy: Make, tmp_path: Path
) -> None:
    policy = adapted(make_policy, tmp_path, ["q_proj"])
    weights = weakref.ref(next(policy.model.parameters()))
    gc.collect()
    gc.disable()
    try:
        del policy
        assert weights() is None
    finally:
        gc.enable()


@pytest.fixture
def checkpointed(make_policy: Make, tmp_path: Path) -> CausalLM:
    make_policy().save(tmp_path)
    lora = {"r": 2, "target_modules": ["q_proj"]}
    return load_policy(tmp_path, lora=lora, gradient_checkpointing=True)


def gradient(policy: CausalLM, values: torch.Tensor) -> torch.Tensor:
    weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
    return torch.cat([g.flatten() for g in torch.autograd.grad(values.sum(), weights)])


def test_a_copy_learns_as_the_original(checkpointed: CausalLM) -> None:
    prompts = [([1, 2, 3], ROWS)]
    twin = copy.deepcopy(checkpointed)
    expected, found = (
        gradient(policy, policy.engine.log_probs_of_prompts(prompts, 1.0))
        for policy in (checkpointed, twin)
    )
    assert torch.equal(found, expected) and found.any()


def test_a_backward_pass_needs_only_the_model(checkpointed: CausalLM) -> None:
    prompts = [([1, 2, 3], ROWS)]
    expected = gradient(checkpointed, checkpointed.engine.log_probs_of_prompts(prompts, 1.0))
    engine = ModelEngine(checkpointed.model, checkpointed.tokenizer, gradient_checkpointing=True)
    values = engine.log_probs_of_prompts(prompts, 1.0)
    del engine
    assert torch.equal(gradient(checkpointed, values), expected)


def test_checkpointing_that_the_caller_enabled_is_used(make_policy: Make) -> None:
    plain = make_policy()
    plain.model.activation_checkpointing_enable()
    engine = ModelEngine(plain.model, plain.engine.tokenizer)
    layer, training = plain.model.model.layers[0], []
    layer.register_forward_pre_hook(lambda *_: training.append(layer.training))
    engine.log_probs_of_prompts([([1, 2, 3], ROWS)], 1.0)
    assert training and training[-1]
