from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms.losses import policy_gradient, sequence_sum

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
