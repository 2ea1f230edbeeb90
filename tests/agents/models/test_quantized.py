"""Frozen models in 8 or 4 bits below adapters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft.utils.integrations import dequantize_module_weight

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.quantized import quantization_of
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.agents.saved_team import load_saved_team, read_policy_spec, save_team
from llm_decpomdp.agents.single_model import load_policy
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.runs.setup import load_config, resolve
from llm_decpomdp.policy import Completion

LORA = {"r": 2, "target_modules": "all-linear", "init_lora_weights": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_causal_lm("ab", width=64, layers=1).save(folder)
    return folder


@pytest.mark.parametrize("quantization", ["8bit", "4bit"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_samples_and_scores_have_equal_weights(folder: Path, quantization: str, dtype: str) -> None:
    pytest.importorskip("bitsandbytes")
    spec = {"name": str(folder), "lora": LORA, "max_new_tokens": 8, "compute_dtype": dtype}
    specs = {name: PolicySpec(**spec, quantization=quantization) for name in "xy"}
    team = load_team({"x": "x", "y": "y"}, specs, seed=1)
    whole = load_team({"x": "x", "y": "y"}, {n: PolicySpec(**spec) for n in "xy"}, seed=1)
    assert team["x"].engine is team["y"].engine  # they share the quantized model
    tolerance = 1e-4 if dtype == "float32" else 0.1
    requests = [(team[name], text) for text in ("ab", "abba") for name in "xy"]
    for (policy, text), rows in zip(requests, team["x"].engine.generate(requests, 3), strict=True):
        log_probs, mask = policy.log_probs(text, rows)
        sampled = torch.tensor([value for row in rows for value in row.log_probs])
        torch.testing.assert_close(log_probs[mask > 0].cpu(), sampled, atol=tolerance, rtol=0)
        other = whole["x" if policy is team["x"] else "y"].log_probs(text, rows)[0]
        assert not torch.allclose(log_probs, other, atol=1e-4)
    before = [w.clone() for w in team["x"].model.parameters() if not w.requires_grad]
    log_probs.sum().backward()
    weights = list(policy.parameters())
    assert all(w.dtype == torch.float32 and w.grad is not None and w.grad.any() for w in weights)
    frozen = [w for w in team["x"].model.parameters() if not w.requires_grad]
    assert all(map(torch.equal, before, frozen))
    size = sum(w.nbytes for w in frozen if not w.is_floating_point())
    linear = 4 * 64 * 64 + 3 * 64 * 128
    assert size == linear // (1 if quantization == "8bit" else 2)


def gradient(policy: CausalLM, rows: list[Completion]) -> torch.Tensor:
    log_probs, mask = policy.log_probs("ab", rows)
    (log_probs * torch.arange(1.0, 1 + mask.shape[1], device=mask.device)).sum().backward()
    return torch.cat([weight.grad.flatten() for weight in policy.parameters()])


@pytest.mark.parametrize(("quantization", "alike"), [("8bit", 0.98), ("4bit", 0.99999)])
def test_gradients_of_the_restored_weights(folder: Path, quantization: str, alike: float) -> None:
    """8 bits round activations too, and their gradients are nearly those."""
    pytest.importorskip("bitsandbytes")
    arguments = {"lora": LORA, "seed": 1, "compute_dtype": "float32"}
    policy = load_policy(folder, Sampling(max_new_tokens=8), quantization=quantization, **arguments)
    dense = load_policy(folder, Sampling(max_new_tokens=8), **arguments)
    (rows,) = policy.generate(["ab"], 4)  # before the gradients
    gradients = [gradient(policy, rows)]
    layers = dict(policy.model.named_modules())
    with torch.no_grad():  # last, since it changes the layers
        for name, part in dense.model.named_modules():
            if name.endswith("proj.base_layer"):
                part.weight.copy_(dequantize_module_weight(layers[name]))
    gradients.append(gradient(dense, rows))
    assert torch.cosine_similarity(*gradients, dim=0) > alike


def test_servers_and_shards_are_refused() -> None:
    for overrides, message in {
        (
            "sampler.engine=vllm",
            "sampler.python=/p",
            "model.top_p=1",
        ): r"inference.engine=transformers",
        (
            "learner.fsdp_size=2",
            "output.checkpoint_every=1",
        ): r"cut into shards.*learner.fsdp_size=1",
    }.items():
        with pytest.raises(ConfigError, match=rf"quantization=4bit.*{message}"):
            keys = ["dataset.source=bundled", "model.quantization=4bit", "model.lora={r: 2}"]
            resolve(load_config(find_config("demo_tldr"), [*keys, *overrides]))


def test_a_saved_team_is_loaded_with_the_quantized_model(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    policy = load_policy(folder, Sampling(max_new_tokens=4), lora=LORA, quantization="4bit")
    assert quantization_of(policy.model) == read_policy_spec(policy).quantization == "4bit"
    save_team({"x": policy}, tmp_path, {"x": "x"})
    assert quantization_of(load_saved_team(tmp_path)["x"].model) == "4bit"


def test_a_quantized_model_without_an_adapter_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"quantization=4bit.*no adapter. Set model.lora"):
        load_policy(folder, quantization="4bit")
    with pytest.raises(ValueError, match=r"cannot be cut into shards.*fsdp_size=1"):
        load_policy(folder, lora=LORA, quantization="8bit", hollow=True)


def test_the_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_decpomdp.agents.models.quantized.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs the package bitsandbytes: pip install"):
        load_policy(folder, lora=LORA, quantization="8bit")
