"""Completions that continue under new weights: versions, log-probabilities, and the gradient with a correction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from llm_decpomdp.agents import CausalLM, Sampling, tiny_causal_lm
from llm_decpomdp.agents.adapters import adapter_policies
from llm_decpomdp.agents.inference.decoding import growing_cache
from llm_decpomdp.agents.inference.in_flight import use_newer_weights
from llm_decpomdp.agents.inference.options import Caching, ModelOptions
from llm_decpomdp.agents.inference.sampler import sample
from llm_decpomdp.agents.inference.static_cache import sample_static
from llm_decpomdp.algorithms import ALGORITHMS, Group, Learner, LearnerOptions, Rollout, Start
from llm_decpomdp.policy import Completion
from tests.agents.conftest import tiny_model, tiny_tokenizer

TOKENS = 5


class ArrivesAt:
    """Weights that arrive before a token, counted from 0; their version is 1."""

    def __init__(self, token: int, load: Callable[[], None]) -> None:
        self.version, self._token, self._load, self._looks = 0, token, load, -1

    def arrived(self) -> bool:
        self._looks += 1
        return self._looks == self._token

    def load(self) -> None:
        self._load()
        self.version = 1


@torch.no_grad()
def change(policy: CausalLM, part: str = "", scale: float = 0.3) -> None:
    generator = torch.Generator().manual_seed(7)
    for name, weight in policy.model.named_parameters():
        if part in name and weight.requires_grad:
            weight.add_(scale * torch.randn(weight.shape, generator=generator).to(weight))


def tiny(tokens: int = TOKENS) -> CausalLM:
    return tiny_causal_lm("ab", Sampling(max_new_tokens=tokens), seed=1)


def values(policy: CausalLM, prompt: str, said: list[Completion]) -> list[list[float]]:
    with torch.no_grad():
        rows, _ = policy.log_probs(prompt, said)
    return [row[: len(one.tokens)].tolist() for row, one in zip(rows, said, strict=True)]


@pytest.mark.parametrize("token", [0, 2, TOKENS + 1])
def test_each_token_has_the_version_and_the_log_probability_of_its_weights(token: int) -> None:
    """The head alone changes, so the keys and values are those of both versions."""
    policy = tiny()
    use_newer_weights(policy.engine, ArrivesAt(token, lambda: change(policy, "lm_head")))
    prompts = ["a", "bba"]
    groups = policy.generate(prompts, 24)
    later = [values(policy, *pair) for pair in zip(prompts, groups, strict=True)]
    before = tiny()
    earlier = [values(before, *pair) for pair in zip(prompts, groups, strict=True)]
    compared = 0
    for of_prompt in zip(groups, earlier, later, strict=True):
        for one, old, new in zip(*of_prompt, strict=True):
            length = len(one.tokens)
            assert one.versions == tuple(int(place >= token) for place in range(length))
            assert list(one.log_probs) == pytest.approx(old[:token] + new[token:], abs=1e-5)
            compared += abs(old[-1] - new[-1]) > 1e-2
    assert compared > 20 or token > TOKENS


def test_without_arrivals_the_tokens_are_those_of_one_version() -> None:
    policy = tiny()
    plain = policy.generate(["a", "bb"], 4)
    policy.seed(1)
    use_newer_weights(policy.engine, ArrivesAt(99, lambda: None))
    for before, after in zip(plain, policy.generate(["a", "bb"], 4), strict=True):
        assert [(one.tokens, one.log_probs) for one in before] == [
            (one.tokens, one.log_probs) for one in after
        ]
        assert all(set(one.versions) == {0} and not before[0].versions for one in after)


@pytest.mark.parametrize(
    "caching", [{"static_cache": True}, {"continuous_batching": 4}, {"prefix_cache": 1.0}]
)
def test_options_without_effect_are_refused(caching: dict[str, Any]) -> None:
    policy = tiny()
    policy.engine.caching = Caching(**caching)
    ((name, value),) = caching.items()
    with pytest.raises(ValueError, match=f"has {name}={value}: load it without {name}, or take"):
        use_newer_weights(policy.engine, ArrivesAt(0, lambda: None))
    assert policy.engine.sample_in_flight is None
    policy.engine.caching = Caching(prefix_cache=0)
    policy.engine.sampling_method = sample_static  # the default of a GPU
    use_newer_weights(policy.engine, ArrivesAt(0, lambda: None))
    assert policy.engine.sampling_method is sample


def continued(policy: CausalLM, ids: list[int], tokens: tuple[int, ...], at: int) -> list[float]:
    """Log-probabilities of tokens, with other weights from one on, and the keys and values of those before."""
    cache: Any = growing_cache(policy.model)
    found, logits = [], None
    with torch.no_grad():
        for place in range(len(tokens)):
            if place == at:
                change(policy)
            new = ids if place == 0 else [tokens[place - 1]]
            name = {"past_key_values": cache}
            logits = policy.model(input_ids=torch.tensor([new]), use_cache=True, **name).logits
            found.append(float(logits[0, -1].log_softmax(-1)[tokens[place]]))
    return found


def test_keys_and_values_of_earlier_weights_are_kept() -> None:
    policy = tiny(9)
    use_newer_weights(policy.engine, ArrivesAt(4, lambda: change(policy)))
    (group,) = policy.generate(["ab"], 8)
    long = [one for one in group if len(one.tokens) > 6]
    recomputed = values(policy, "ab", long)
    for one, anew in zip(long, recomputed, strict=True):
        expected = continued(again := tiny(9), again.encode("ab"), one.tokens, 4)
        assert list(one.log_probs) == pytest.approx(expected, abs=1e-4)
        assert max(abs(a - b) for a, b in zip(one.log_probs[5:], anew[5:], strict=True)) > 1e-2
    assert long


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_and_rounded_weights_are_replaced_too(tmp_path: Any, dtype: str) -> None:
    tiny_model(0).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    options = ModelOptions(max_new_tokens=6, compute_dtype=dtype)
    lora = {"r": 2, "target_modules": ["q_proj", "lm_head"]}
    names = ("aux", "main")
    policies = adapter_policies(
        tmp_path, dict.fromkeys(names, lora), dict.fromkeys(names, options), {"aux": 1, "main": 2}
    )
    engine = policies["main"].engine
    requests: list[Any] = [(policy, "one") for policy in policies.values()]
    use_newer_weights(engine, ArrivesAt(1, lambda: change(policies["main"], "lm_head.lora")))
    groups = engine.generate(requests, 6)
    for policy, said in zip(policies.values(), groups, strict=True):
        for one, later in zip(said, values(policy, "one", said), strict=True):
            assert one.versions == (0,) + (1,) * (len(one.tokens) - 1)
            limit = 1e-4 if dtype == "float32" else 0.2
            assert list(one.log_probs[1:]) == pytest.approx(later[1:], abs=limit)
    weights = [p for p in policies["main"].parameters() if p.requires_grad]
    assert all(weight.dtype == torch.float32 for weight in weights)
    with torch.no_grad():  # the next completions have them as well
        assert policies["main"].generate(["one"])[0][0].versions[0] == 1


def alone(said: list[Completion], rewards: list[float]) -> Rollout:
    """The rollout of one agent's group."""
    joint = tuple((index,) for index in range(len(said)))
    infos: tuple[dict[str, float], ...] = tuple({} for _ in said)
    group = Group(0, None, {"x": "a"}, {"x": tuple(said)}, joint, tuple(rewards), infos, chosen=0)
    return Rollout(Start(seed=0), (group,))


def every_completion(policy: CausalLM) -> list[Completion]:
    """All 15 completions of at most three tokens, with new weights from the second on."""
    use_newer_weights(policy.engine, ArrivesAt(1, lambda: change(policy, scale=0.15)))
    (group,) = policy.generate(["a"], 6000)
    found = list({one.tokens: one for one in group}.values())
    assert len(found) == 15 and {one.versions for one in found} == {(0,), (0, 1), (0, 1, 1)}
    return found


def gradient(policy: CausalLM, rollout: Rollout, **options: Any) -> list[Tensor]:
    correction = {"mode": "truncate", **options}
    declared = LearnerOptions(learning_rate=0.1, importance_sampling=correction)
    learner = Learner({"x": policy}, ALGORITHMS["mareinforce"], declared)
    learner.accumulate([rollout])
    return [weight.grad.clone() for weight in policy.parameters() if weight.grad is not None]


def explicit(policy: CausalLM, loss: Callable[[Tensor], Tensor], said: Any) -> list[Tensor]:
    for weight in policy.parameters():
        weight.grad = None
    log_probs, mask = policy.log_probs("a", said)
    loss(log_probs * mask).backward()  # type: ignore[no-untyped-call]
    return [weight.grad.clone() for weight in policy.parameters() if weight.grad is not None]


def test_the_corrected_gradient_is_the_expected_one_of_the_present_weights() -> None:
    """By enumeration: sum over completions of pi r grad log pi, from samples of two versions.

    Completion g counts mu_g in the expectation and 1/G in the loss, so its reward is r_g mu_g G. The weights
    change by much, so that without the correction the gradient is another one.
    """
    policy = tiny(3)
    said = every_completion(policy)
    worth = torch.tensor([1.0 + sum(one.tokens) for one in said])
    chances = torch.tensor([math.exp(sum(one.log_probs)) for one in said])
    assert float(chances.sum()) == pytest.approx(1, abs=1e-4)  # mu is a distribution
    rewards = (worth * chances * len(said)).tolist()
    exact = explicit(policy, lambda p: -(p.sum(-1).exp().detach() * worth * p.sum(-1)).sum(), said)
    for weight in policy.parameters():
        weight.grad = None
    whole = {"level": "sequence", "cap": 1e6}
    found = gradient(policy, alone(said, rewards), **whole)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    mixed = explicit(policy, lambda p: -(chances * worth * p.sum(-1)).sum(), said)
    assert max(float((a - b).abs().max()) for a, b in zip(mixed, exact, strict=True)) > 0.01


def test_each_token_is_corrected_by_the_weights_that_sampled_it() -> None:
    policy = tiny(3)
    said = every_completion(policy)
    rewards = [1.0 + index for index in range(len(said))]
    width = max(len(one.tokens) for one in said)
    sampled = torch.tensor([[*one.log_probs, *[0.0] * (width - len(one.tokens))] for one in said])

    def loss(log_probs: Tensor) -> Tensor:
        weights = (log_probs.detach() - sampled).exp().clamp(max=1.5)
        return -(weights * torch.tensor(rewards)[:, None] * log_probs).sum() / len(said)

    exact = explicit(policy, loss, said)
    for weight in policy.parameters():
        weight.grad = None
    found = gradient(policy, alone(said, rewards), cap=1.5)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
