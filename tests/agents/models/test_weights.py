"""A model is known by a digest of its weights, and one from the hub by its revision too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from llm_decpomdp.agents.models import weights as origin
from llm_decpomdp.agents.models.weights import (
    describe_weights,
    resolve_compute_dtype,
    round_weights,
)
from llm_decpomdp.agents.single_model import load_policy
from tests.agents.conftest import Make, tiny_model, tiny_tokenizer

LORA = {"r": 2, "target_modules": ["q_proj"]}


def write(folder: Path, seed: int = 0, **options: object) -> Path:
    tiny_model(seed).save_pretrained(folder, **options)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def test_equal_weights_have_one_digest_wherever_they_are(tmp_path: Path) -> None:
    first, second = write(tmp_path / "first"), write(tmp_path / "second")
    other = write(tmp_path / "other", 1)
    digests = [describe_weights(str(folder))["weights"] for folder in (first, second, other)]
    assert digests[0] == digests[1] != digests[2]
    write(first, 1)
    assert describe_weights(str(first))["weights"] == digests[2]


def test_weights_in_several_files_are_all_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "cut", max_shard_size="8KB")
    parts = sorted(folder.glob("model-*.safetensors"))
    assert len(parts) > 2
    before = describe_weights(str(folder))["weights"]
    content = bytearray(parts[-1].read_bytes())
    content[-1] ^= 1
    parts[-1].write_bytes(content)
    assert describe_weights(str(folder))["weights"] != before


def test_pieces_notice_a_trained_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "WHOLE", 1000)
    monkeypatch.setattr(origin, "PIECES", 64)
    monkeypatch.setattr(origin, "PIECE", 16)
    before = describe_weights(str(write(tmp_path / "base")))["weights"]
    model = tiny_model(0)
    weights = dict(model.named_parameters())
    assert any(weight.numel() * 4 > 64 * 16 for weight in weights.values())
    for place, name in enumerate(weights):
        weight = weights[name]
        if weight.numel() < 1000:  # smaller than the distance of two pieces
            continue
        saved = weight.detach().clone()
        with torch.no_grad():
            weight.add_(1e-4)
        model.save_pretrained(tmp_path / str(place))
        assert describe_weights(str(tmp_path / str(place)))["weights"] != before, name
        with torch.no_grad():
            weight.copy_(saved)


def test_hub_models_have_the_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--owner--model"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc123")
    write(repository / "snapshots" / "abc123")
    found = describe_weights("owner/model")
    assert found["name"] == "owner/model" and found["revision"] == "abc123"
    assert found["weights"] == describe_weights(str(write(tmp_path / "copy")))["weights"]
    assert describe_weights("owner/other") == {}


def test_what_came_from_no_file_has_no_origin(tmp_path: Path) -> None:
    assert describe_weights("") == describe_weights(str(tmp_path)) == {}
    (tmp_path / "config.json").write_text(json.dumps({}))
    assert describe_weights(str(tmp_path)) == {}


def test_a_policy_names_the_weights_that_no_checkpoint_has(tmp_path: Path) -> None:
    folder = write(tmp_path / "base")
    adapted = load_policy(folder, lora=LORA, compute_dtype="float32")
    assert adapted.base_model == describe_weights(str(folder))
    assert adapted.reference_name == f"{folder} without adapters"
    trained = load_policy(folder, compute_dtype="float32")
    assert trained.base_model == {} and trained.reference_name == f"{folder} as it was loaded"
    trained.keep_reference()
    assert trained.base_model == adapted.base_model
    adapted.save(tmp_path / "adapter")
    again = load_policy(tmp_path / "adapter", compute_dtype="float32")
    assert again.base_model == adapted.base_model
    assert again.reference_name == f"{folder} without adapters"


def test_weights_are_rounded_inside_and_exact_again_even_after_an_error() -> None:
    model = torch.nn.Linear(3, 3)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    with pytest.raises(RuntimeError, match="stop"), round_weights(model, torch.bfloat16):
        assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
        raise RuntimeError("stop")
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name])


def test_tied_weights_stay_tied(make_policy: Make) -> None:
    model = make_policy().model
    with round_weights(model, torch.bfloat16):
        assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_sampling_between_scoring_and_backward_keeps_the_gradient(make_policy: Make) -> None:
    gradients = []
    for interrupted in (False, True):
        policy = make_policy(compute_dtype="bfloat16")
        group = policy.generate(["hello"], 3)[0]
        log_probs, mask = policy.log_probs("hello", group)
        if interrupted:
            policy.generate(["another one"], 2)
        (log_probs * mask).sum().backward()
        gradients.append([p.grad for p in policy.parameters()])
    for plain, interrupted_one in zip(*gradients, strict=True):
        assert plain is not None and interrupted_one is not None
        assert torch.equal(plain, interrupted_one)


def test_named_computing_types_are_what_they_say() -> None:
    cpu = torch.device("cpu")
    assert resolve_compute_dtype("float32", cpu) == torch.float32
    assert resolve_compute_dtype("bfloat16", cpu) == torch.bfloat16
    assert resolve_compute_dtype("auto", cpu) in (torch.float32, torch.bfloat16)


def test_a_gpu_without_bfloat16_computes_in_float32_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: False)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "Old GPU")
    for _ in range(2):
        assert resolve_compute_dtype("auto", torch.device("cuda", 0)) == torch.float32
    assert caplog.text.count("Old GPU has no units for bfloat16") == 1
