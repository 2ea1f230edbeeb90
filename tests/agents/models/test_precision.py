"""Computing with rounded weights leaves the true ones alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.weights import resolve_compute_dtype, round_weights


def test_weights_are_rounded_inside_and_exact_again_even_after_an_error() -> None:
    model = torch.nn.Linear(3, 3)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    with pytest.raises(RuntimeError, match="stop"), round_weights(model, torch.bfloat16):
        assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
        raise RuntimeError("stop")
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name])


def test_tied_weights_stay_tied(make_policy: Callable[..., CausalLM]) -> None:
    model = make_policy().model
    with round_weights(model, torch.bfloat16):
        assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_sampling_between_scoring_and_backward_does_not_change_the_gradient(
    make_policy: Callable[..., CausalLM],
) -> None:
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


def test_rows_that_end_leave_the_log_probabilities_of_the_others_exact(
    make_policy: Callable[..., CausalLM],
) -> None:
    policy = make_policy(temperature=2.0, max_new_tokens=40)
    for prompt, group in zip(
        ("abc", "longer"), policy.generate(["abc", "longer"], 30), strict=True
    ):
        assert len({len(one.tokens) for one in group}) > 5  # they did end at different times
        learned, _ = policy.log_probs(prompt, group)
        for row, one in zip(learned.detach(), group, strict=True):
            sampled = torch.tensor(one.log_probs)
            torch.testing.assert_close(row[: len(sampled)], sampled, atol=1e-4, rtol=0)


def test_named_computing_types_are_what_they_say() -> None:
    cpu = torch.device("cpu")
    assert resolve_compute_dtype("float32", cpu) == torch.float32
    assert resolve_compute_dtype("bfloat16", cpu) == torch.bfloat16
    assert resolve_compute_dtype("auto", cpu) in (torch.float32, torch.bfloat16)
