"""Features of texts for critics."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from llm_decpomdp.agents import CausalLM, tiny_causal_lm
from llm_decpomdp.agents.adapters import adapter_policies
from llm_decpomdp.agents.inference.options import ModelOptions
from llm_decpomdp.agents.models import features as features_module
from llm_decpomdp.policy import Completion, ReferencedPolicy, policy_attribute
from tests.agents.conftest import Make

TEXTS = ["hello there", "hi", "", "a longer text than the others are"]


def by_hand(policy: CausalLM, text: str) -> torch.Tensor:
    ids = policy.tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
    with torch.no_grad():
        output = policy.model(ids, output_hidden_states=True)
    return output.hidden_states[-1][0].mean(0)


def test_mean_of_last_hidden_states(make_policy: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features_module, "BATCH", 2)
    policy = make_policy()
    assert isinstance(policy, ReferencedPolicy) and policy_attribute(policy, "features")
    with pytest.raises(RuntimeError, match="no reference"):
        policy.features(TEXTS)
    policy.keep_reference()
    features = policy.features(TEXTS)
    assert features.dtype == torch.float32 and not features.requires_grad
    assert not features[2].any()
    for index in (0, 1, 3):
        torch.testing.assert_close(features[index], by_hand(policy, TEXTS[index]))


def test_they_stay_as_weights_change(make_policy: Make, tmp_path: Path) -> None:
    policy = make_policy()
    policy.save(tmp_path)
    policy.keep_reference()
    adapters = {"a": {"r": 2, "target_modules": ["q_proj"]}}
    adapted = adapter_policies(tmp_path, adapters, {"a": ModelOptions(device="cpu")}, {"a": 0})["a"]
    for one in (policy, adapted):
        before, hidden = one.features(TEXTS), by_hand(one, TEXTS[0])
        with torch.no_grad():
            for weight in one.parameters():
                weight += 0.3
        assert torch.equal(one.features(TEXTS), before)
        assert not torch.allclose(by_hand(one, TEXTS[0]), hidden)
        assert all(weight.requires_grad for weight in one.parameters())


def test_a_long_text_goes_through_the_model_in_windows() -> None:
    policy = tiny_causal_lm("abc", context=8)
    policy.keep_reference()
    long, first, second = policy.features(["abcabcaabb?", "abcabcaa", "bb"])
    torch.testing.assert_close(long, (8 * first + 2 * second) / 10)


ROWS = [Completion("", (4, 5, 6, 0)), Completion("", (7, 0))]


def build(base: Path, dtype: str = "float32", **options: bool) -> dict[str, CausalLM]:
    """Two policies with adapters of unlike shape, which do something."""
    shapes = {"a": {"r": 2, "target_modules": ["q_proj"]}, "b": {"r": 3}}
    settings = ModelOptions(compute_dtype=dtype, device="cpu", max_new_tokens=12, **options)
    pair = adapter_policies(base, shapes, dict.fromkeys(shapes, settings), dict.fromkeys(shapes, 0))
    with torch.no_grad():
        for policy in pair.values():
            for weight in policy.parameters():
                weight += 0.1
    return pair


@pytest.fixture
def base(make_policy: Make, tmp_path: Path) -> Path:
    make_policy().save(tmp_path / "base")
    return tmp_path / "base"


def train(policy: CausalLM, seed: int = 0, steps: int = 3) -> list[torch.Tensor]:
    """Give a policy's model a trunk, and train it; its weights."""
    trunk = policy.new_trunk(seed)
    assert trunk is not None
    weights = list(trunk.parameters())
    optimizer = torch.optim.SGD(weights, lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        trunk.features(TEXTS).square().mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return weights


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_actions_are_equal_to_the_last_bit(base: Path, dtype: str, checkpointing: bool) -> None:
    def said(pair: dict[str, CausalLM]) -> list[object]:
        for policy in pair.values():
            policy.seed(5)
        a, b = pair.values()
        requests = [(a, "hello"), (b, "hello"), (a, "you")]
        found: list[object] = [a.engine.generate(requests, 2), b.generate(["you"], 2)]
        for policy in pair.values():
            log_probs = policy.log_probs("hello", ROWS)[0]
            (gradient,) = torch.autograd.grad(log_probs.sum(), list(policy.parameters())[:1])
            found += [log_probs.tolist(), gradient.tolist()]
            found += [policy.reference_log_probs("hello", ROWS)[0].tolist()]
            found += [policy.features(TEXTS).tolist(), sorted(policy.state_dict()["weights"])]
        return found

    plain, beside = (build(base, dtype, gradient_checkpointing=checkpointing) for _ in range(2))
    before = said(plain)
    weights = train(beside["a"]) + train(beside["b"], seed=1)
    assert all(weight.requires_grad and weight.dtype == torch.float32 for weight in weights)
    assert said(beside) == before
    theirs = {id(weight) for policy in beside.values() for weight in policy.parameters()}
    assert not theirs & {id(weight) for weight in weights}


def test_a_trunk_begins_as_the_reference_and_learns_by_itself(base: Path) -> None:
    pair = build(base)
    first, second = pair["a"].new_trunk(0), pair["a"].new_trunk(0)
    assert policy_attribute(pair["a"], "new_trunk") and first is not None and second is not None
    assert torch.equal(first.features(TEXTS), pair["a"].features(TEXTS))
    shapes = [tuple(weight.shape) for weight in first.parameters()]
    assert shapes == [tuple(weight.shape) for weight in pair["a"].parameters()]
    with torch.no_grad():
        for weight in first.parameters():
            weight += 0.1
    assert not torch.allclose(first.features(TEXTS), pair["a"].features(TEXTS))
    assert torch.equal(second.features(TEXTS), pair["a"].features(TEXTS))
    assert torch.equal(*(next(iter(pair["b"].new_trunk(3).parameters())) for _ in range(2)))  # type: ignore[union-attr]


def test_a_policy_is_saved_without_trunks(base: Path, tmp_path: Path) -> None:
    policy = build(base)["a"]
    policy.save(tmp_path / "alone")
    train(policy)
    policy.save(tmp_path / "beside")
    for path in (tmp_path / "alone").iterdir():
        assert path.read_bytes() == (tmp_path / "beside" / path.name).read_bytes()
    assert {p.name for p in (tmp_path / "beside").iterdir()} == {
        p.name for p in (tmp_path / "alone").iterdir()
    }


def test_a_model_that_is_trained_itself_has_none(make_policy: Make) -> None:
    assert make_policy().new_trunk(0) is None
