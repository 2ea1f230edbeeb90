"""Models whose weights stay in their files until they are read, part by part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from llm_decpomdp.agents import Sampling, load_policy, tiny_causal_lm
from llm_decpomdp.agents.models.hollow import is_hollow, read_weights
from llm_decpomdp.agents.models.pretrained import ModelError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    policy = tiny_causal_lm("ab", Sampling(max_new_tokens=3), width=16, layers=2)
    policy.save(folder)
    return folder


def allocated(weights) -> int:
    return sum(weight.untyped_storage().nbytes() for weight in weights)


def test_a_part_is_read_alone_and_all_parts_are_the_loaded_model(folder: Path) -> None:
    model = load_policy(folder, compute_dtype="float32", hollow=True).model
    weights, numbers = list(model.parameters()), len(list(model.parameters()))
    assert all(map(is_hollow, weights)) and allocated(weights) == 4 * numbers
    layer = model.model.layers[1]
    read_weights(layer.parameters())
    read = sum(weight.numel() for weight in layer.parameters())
    assert allocated(weights) == 4 * (read + numbers - len(list(layer.parameters())))
    read_weights(weights)
    loaded = load_policy(folder, compute_dtype="float32").model
    for (name, weight), other in zip(model.named_parameters(), loaded.parameters(), strict=True):
        assert torch.equal(weight, other) and weight.dtype == other.dtype, name
    for (name, buffer), other in zip(model.named_buffers(), loaded.buffers(), strict=True):
        assert torch.equal(buffer, other), name


def test_the_adapter_on_a_hollow_model_is_that_of_a_loaded_one(folder: Path) -> None:
    lora = {"r": 2, "target_modules": "all-linear", "init_lora_weights": False}
    hollow, loaded = (
        load_policy(folder, compute_dtype="bfloat16", lora=lora, seed=3, hollow=hollow)
        for hollow in (True, False)
    )
    for weight, other in zip(hollow.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(weight, other)
    read_weights(hollow.model.parameters())
    for weight, other in zip(hollow.model.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(weight, other) and weight.dtype == other.dtype


def test_tied_weights_stay_tied_and_names_may_lack_the_prefix(tmp_path: Path, folder: Path) -> None:
    config = GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=4, n_positions=8, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = {name.removeprefix("transformer."): w for name, w in load_file(path).items()}
    save_file(weights, path, {"format": "pt"})
    for file in folder.glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    read = load_policy(tmp_path, compute_dtype="float32", hollow=True).model
    read_weights(read.parameters())
    assert read.lm_head.weight is read.transformer.wte.weight
    for weight, other in zip(read.parameters(), model.parameters(), strict=True):
        assert torch.equal(weight.cpu(), other)


@pytest.mark.parametrize("wrong", ["missing weights", "other shapes", "unexpected weights"])
def test_files_of_other_models_are_refused(folder: Path, tmp_path: Path, wrong: str) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    name = "model.norm.weight"
    weight = weights.pop(name)
    if wrong != "missing weights":
        weights[name] = weight[:8].clone() if wrong == "other shapes" else weight
    if wrong == "unexpected weights":
        weights["model.other.weight"] = weight.clone()
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(ModelError, match=f"does not fit the model.*{wrong}"):
        load_policy(tmp_path, hollow=True)


def test_a_model_without_safetensors_files_is_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    model = AutoModelForCausalLM.from_pretrained(folder)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"safetensors files.*has none.*fsdp_size=1"):
        load_policy(tmp_path, hollow=True)
