"""Features of texts for critics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from llm_decpomdp.agents.models import features as features_module
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.options import ModelOptions
from llm_decpomdp.agents.models.pretrained import adapter_policies
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.policy import ReferencedPolicy, policy_attribute

TEXTS = ["hello there", "hi", "", "a longer text than the others are"]


def by_hand(policy: CausalLM, text: str) -> torch.Tensor:
    ids = policy.tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
    with torch.no_grad():
        output = policy.model(ids, output_hidden_states=True)
    return output.hidden_states[-1][0].mean(0)


def test_they_are_the_mean_of_the_last_hidden_states(
    make_policy: Callable[..., CausalLM], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_they_stay_as_weights_change(make_policy: Callable[..., CausalLM], tmp_path: Path) -> None:
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
