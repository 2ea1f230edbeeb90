from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms.learning.learner_options import LOSSES
from llm_decpomdp.algorithms.learning.losses import (
    REDUCTIONS,
    kl_divergence,
    kl_estimate,
    policy_gradient,
    sequence_sum,
)

A, B, END = 1, 2, 0


def test_loss_and_gradient_equal_the_closed_form_with_the_end_token_and_without_padding(
    make_policy: Callable[..., Any],
) -> None:
    policy = make_policy("unigram")
    theta = policy.model.bias.detach().clone()
    p = theta.softmax(0)
    completions = [policy.completion(row) for row in ([A, B, END], [END, A, A], [A, A, A])]
    assert [c.tokens for c in completions] == [(A, B, END), (END,), (A, A, A)]
    advantages = [2.0, -1.0, 0.5]

    log_probs, mask = policy.log_probs("a", completions)
    loss = sequence_sum(policy_gradient(log_probs, torch.tensor(advantages)), mask, 1)
    loss.backward()

    counts = [(1, 1, 1), (1, 0, 0), (0, 3, 0)]  # of END, A, B in each completion
    logs = [math.log(chance) for chance in p.tolist()]
    expected = -sum(
        a * sum(n * log for n, log in zip(row, logs, strict=True))
        for a, row in zip(advantages, counts, strict=True)
    )
    assert loss.item() == pytest.approx(expected / 3, rel=1e-5)
    # d/dtheta_v of log p_y is [v = y] - p_v
    gradient = -sum(
        a * (torch.tensor(row, dtype=torch.float) - sum(row) * p)
        for a, row in zip(advantages, counts, strict=True)
    )
    torch.testing.assert_close(policy.model.bias.grad, gradient / 3)


def test_padding_has_no_influence_even_if_it_is_impossible() -> None:
    log_probs = torch.tensor([[-1.0, -math.inf], [-2.0, -3.0]], requires_grad=True)
    mask = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    loss = sequence_sum(policy_gradient(log_probs, torch.tensor([1.0, -1.0])), mask, 1)
    loss.backward()
    assert loss.item() == pytest.approx(-0.5 * (-1.0 + 5.0))
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == [[-0.5, 0.0], [0.5, 0.5]]


def test_the_divergence_has_the_gradient_of_the_exact_one_over_whole_sequences() -> None:
    """All sequences of two tokens, the second conditioned on the first, weighted by their probability."""
    generator = torch.Generator().manual_seed(1)
    first, second = torch.randn(3, generator=generator), torch.randn(3, 3, generator=generator)
    ref_first, ref_second = (
        torch.randn(3, generator=generator),
        torch.randn(3, 3, generator=generator),
    )
    parameters = [tensor.requires_grad_() for tensor in (first, second)]

    def rows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        pairs = list(product(range(3), repeat=2))
        return torch.stack(
            [torch.stack([a.log_softmax(0)[i], b[i].log_softmax(0)[j]]) for i, j in pairs]
        )

    log_probs, reference = rows(first, second), rows(ref_first, ref_second)  # (9, 2)
    chances = log_probs.sum(1).exp()
    exact = (chances * (log_probs - reference).sum(1)).sum()
    expected = torch.autograd.grad(exact, parameters, retain_graph=True)
    terms = kl_divergence(log_probs, reference, torch.ones(9, 2))
    estimate = (chances.detach() * terms.sum(1)).sum()
    for found, right in zip(torch.autograd.grad(estimate, parameters), expected, strict=True):
        torch.testing.assert_close(found, right)
    mean = (chances * kl_estimate(log_probs, reference).sum(1)).sum()
    forward_mean = chances * (log_probs - reference).sum(1)
    assert kl_estimate(log_probs, reference).min() >= 0
    assert mean.item() == pytest.approx(forward_mean.sum().item(), rel=1e-4)


@pytest.mark.parametrize("padding", [(5.0, -7.0), (-math.inf, -math.inf)])
def test_padding_is_no_part_of_the_divergence_whatever_stands_there(
    padding: tuple[float, float],
) -> None:
    log_probs = torch.tensor([[-1.0, -2.0, padding[0]]], requires_grad=True)
    reference = torch.tensor([[-1.5, -1.0, padding[1]]])
    mask = torch.tensor([[1.0, 1.0, 0.0]])
    sequence_sum(kl_divergence(log_probs, reference, mask), mask, 1).backward()
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == [[0.5 - 1.0, -1.0, 0.0]]


def test_reductions_are_the_documented_means() -> None:
    terms = torch.tensor([[1.0, 2.0, math.nan], [3.0, math.nan, math.nan]])
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    found = {
        name: reduce(terms, mask, 6 if name == "fixed_length" else None).item()
        for name, reduce in REDUCTIONS.items()
    }
    assert found == {"sequence_sum": 3.0, "token_mean": 2.0, "fixed_length": 0.5}
    assert (
        REDUCTIONS["token_mean"](terms, mask, 6).item() == 1.0
    )  # of several groups with 6 on average
    assert tuple(REDUCTIONS) == LOSSES
