"""Policies that share a model and differ by their adapters."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from transformers import AutoModelForCausalLM

from llm_decpomdp.agents import CausalLM, ModelEngine, load_policy
from llm_decpomdp.agents.adapters import adapter_policies
from llm_decpomdp.agents.inference import sampler
from llm_decpomdp.agents.inference.options import ModelOptions
from llm_decpomdp.policy import Completion, ReferencedPolicy, shared_engine
from tests.agents.conftest import Make

LORA = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]}
ROWS = [Completion("", (4, 5, 6, 0)), Completion("", (7, 0))]

Pair = dict[str, CausalLM]


@pytest.fixture
def base(make_policy: Make, tmp_path: Path) -> Path:
    make_policy().save(tmp_path / "base")
    return tmp_path / "base"


def build(base: Path, dtype: str = "float32", **options: bool) -> Pair:
    """Two policies whose adapters do something, and each something else."""
    common = {"compute_dtype": dtype, "device": "cpu", **options}
    each = {
        "a": ModelOptions(max_new_tokens=12, **common),
        "b": ModelOptions(temperature=0.7, top_k=9, max_new_tokens=20, **common),
    }
    pair = adapter_policies(base, {"a": LORA, "b": {**LORA, "r": 2}}, each, {"a": 0, "b": 1})
    with torch.no_grad():
        for seed, policy in enumerate(pair.values()):
            generator = torch.Generator().manual_seed(seed)
            for weight in policy.parameters():
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    return pair


@pytest.fixture
def pair(base: Path) -> Pair:
    return build(base)


def scored(policy: CausalLM) -> torch.Tensor:
    return policy.log_probs("hello", ROWS)[0].detach()


def test_they_keep_the_protocols_and_share_an_engine(pair: Pair) -> None:
    for policy in pair.values():
        assert shared_engine(policy) is not None and isinstance(policy, ReferencedPolicy)
        assert policy.engine is pair["a"].engine


def test_each_trains_its_own_adapter_in_float32_and_the_base_is_frozen(base: Path) -> None:
    pair = build(base, "bfloat16")
    weights = {name: {id(p) for p in policy.parameters()} for name, policy in pair.items()}
    assert weights["a"] and weights["b"] and not weights["a"] & weights["b"]
    for name, weight in pair["a"].model.named_parameters():
        trained = id(weight) in weights["a"] | weights["b"]
        assert trained == weight.requires_grad == ("lora_" in name)
        assert weight.dtype == (torch.float32 if trained else torch.bfloat16)


@pytest.mark.parametrize("kind", [{}, {"use_dora": True}, {"modules_to_save": ["lm_head"]}])
def test_rows_of_one_batch_get_their_own_adapters_of_every_kind(
    base: Path, kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "LORA", {**LORA, **kind})
    requests = [("a", "hello"), ("b", "hello"), ("b", "another one"), ("a", "x")]
    pair = build(base)
    together = pair["a"].engine.generate([(pair[name], text) for name, text in requests], 6)
    again = build(base)
    alone = {
        name: again[name].generate([text for other, text in requests if other == name], 6)
        for name in again
    }
    for (name, text), group in zip(requests, together, strict=True):
        expected = alone[name].pop(0)
        assert [one.tokens for one in group] == [one.tokens for one in expected]
        learned, _ = pair[name].log_probs(text, group)
        for row, one, other in zip(learned.detach(), group, expected, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
            sampled = torch.tensor(one.log_probs)
            torch.testing.assert_close(row[: len(sampled)], sampled, atol=1e-4, rtol=0)
    assert not torch.allclose(scored(pair["a"]), scored(pair["b"]), atol=0.01)


def test_generate_gives_rows_their_adapters(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def group(pair: Pair) -> list[list[Completion]]:
        return pair["a"].engine.generate([(pair["b"], "hello"), (pair["a"], "x")], 3)

    expected = group(build(base))
    monkeypatch.setattr(sampler, "growing_cache", lambda _: None)
    found = group(build(base))
    for ours, theirs in zip([*found[0], *found[1]], [*expected[0], *expected[1]], strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)


def test_policies_score_like_their_adapter_alone(pair: Pair, base: Path, tmp_path: Path) -> None:
    for name, policy in pair.items():
        policy.save(tmp_path / name)
        model = AutoModelForCausalLM.from_pretrained(base)
        peft = PeftModel.from_pretrained(model, tmp_path / name)
        engine = ModelEngine(peft, policy.tokenizer, compute_dtype="float32")
        alone = CausalLM(engine, policy.sampling)
        torch.testing.assert_close(scored(policy), scored(alone))
        assert AutoPeftModelForCausalLM.from_pretrained(tmp_path / name).peft_config["default"]
        assert {p.name for p in (tmp_path / name).iterdir()} >= {
            "adapter_config.json",
            "adapter_model.safetensors",
            "tokenizer_config.json",
        }
        assert not any(p.is_dir() for p in (tmp_path / name).iterdir())


@pytest.mark.parametrize("kind", [{}, {"target_modules": ["q_proj", "lm_head"]}])
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_gradients_go_to_the_own_adapter_whatever_is_on_in_the_backward_pass(
    base: Path, gradient_checkpointing: bool, kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "LORA", {**LORA, **kind})
    expected = []
    for name, policy in build(base).items():
        log_probs, mask = policy.log_probs("hello" + name, ROWS)
        (log_probs * mask).sum().backward()
        expected.append([p.grad for p in policy.parameters()])
    pair = build(base, gradient_checkpointing=gradient_checkpointing)
    sums = []
    for name, policy in pair.items():
        log_probs, mask = policy.log_probs("hello" + name, ROWS)
        policy.reference_log_probs("hello", ROWS)
        sums.append((log_probs * mask).sum())
    pair["a"].engine.generate([(pair["a"], "x"), (pair["b"], "y")])
    torch.stack(sums).sum().backward()
    for policy, gradients in zip(pair.values(), expected, strict=True):
        for weight, gradient in zip(policy.parameters(), gradients, strict=True):
            assert weight.grad is not None and gradient is not None
            torch.testing.assert_close(weight.grad, gradient)
    assert all(
        weight.grad is None for weight in pair["a"].model.parameters() if not weight.requires_grad
    )


def test_the_reference_is_the_base(pair: Pair, make_policy: Make) -> None:
    plain = make_policy()
    for policy in pair.values():
        policy.sampling = plain.sampling
        policy.keep_reference()
        assert not torch.allclose(scored(policy), scored(plain), atol=0.01)
        reference, mask = policy.reference_log_probs("hello", ROWS)
        torch.testing.assert_close(reference, scored(plain))
        assert not reference.requires_grad and mask.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
        assert all(weight.requires_grad for weight in policy.parameters())


def test_training_one_changes_neither_the_base_nor_the_other(pair: Pair) -> None:
    before = {n: p.detach().clone() for n, p in pair["a"].model.named_parameters()}
    log_probs, mask = pair["b"].log_probs("hello", ROWS)
    (log_probs * mask).sum().backward()
    torch.optim.SGD(list(pair["b"].parameters()), 0.1).step()
    changed = {n for n, p in pair["a"].model.named_parameters() if not torch.equal(p, before[n])}
    assert changed and all("policy_b" in name for name in changed)


def test_state_and_folders_continue_one_adapter(pair: Pair, base: Path, tmp_path: Path) -> None:
    pair["b"].generate(["abc"], 2)
    state, expected = pair["b"].state_dict(), pair["b"].generate(["abc"], 4)
    assert all("policy_b" in name for name in state["weights"])
    options = {
        name: ModelOptions(**vars(policy.sampling), compute_dtype="float32", device="cpu")
        for name, policy in pair.items()
    }
    seeds = {"a": 0, "b": 1}
    fresh = adapter_policies(base, {"a": LORA, "b": {**LORA, "r": 2}}, options, seeds)
    fresh["b"].load_state_dict(state)
    assert fresh["b"].generate(["abc"], 4) == expected
    for name, policy in pair.items():
        policy.save(tmp_path / name)
    loaded = adapter_policies(base, {name: tmp_path / name for name in pair}, options, seeds)
    for name, policy in pair.items():
        torch.testing.assert_close(scored(loaded[name]), scored(policy))
        shapes = [p.shape for p in policy.parameters()]
        assert [p.shape for p in loaded[name].parameters()] == shapes


def test_a_frozen_adapter_stays_frozen(pair: Pair) -> None:
    for weight in list(pair["a"].parameters()):
        weight.requires_grad_(False)
    pair["b"].log_probs("hello", ROWS)
    pair["a"].reference_log_probs("hello", ROWS)
    assert not pair["a"].log_probs("hello", ROWS)[0].requires_grad
    assert list(pair["a"].parameters()) == [] and list(pair["b"].parameters())


def test_seeds_decide_new_adapters(base: Path) -> None:
    def first(seeds: dict[str, int]) -> list[torch.Tensor]:
        options = dict.fromkeys("ab", ModelOptions(device="cpu"))
        pair = adapter_policies(base, {"a": LORA, "b": LORA}, options, seeds)
        return [next(policy.parameters()).detach() for policy in pair.values()]

    one, two = first({"a": 1, "b": 2}), first({"a": 2, "b": 1})
    assert not torch.equal(*one)
    assert torch.equal(one[0], two[1]) and torch.equal(one[1], two[0])


def test_unfit_names_and_no_adapters_are_refused(base: Path) -> None:
    with pytest.raises(ValueError, match="at least one adapter"):
        adapter_policies(base, {}, {}, {})
    with pytest.raises(ValueError, match=r"no '\.', got 'a\.b'"):
        adapter_policies(base, {"a.b": LORA}, {"a.b": ModelOptions()}, {"a.b": 0})


def test_a_new_adapter_brings_no_warning_of_a_name_that_transformers_gives_up(base: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        load_policy(base, lora=LORA)
