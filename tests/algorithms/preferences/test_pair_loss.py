"""The loss of pairs against autograd of the closed form."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import logsigmoid

from llm_decpomdp.algorithms.preferences.learner import completion_weights, pair_losses

SIGNS = torch.tensor([[1.0, -1.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 1.0, -1.0]], dtype=torch.float64)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("beta", [0.1, 2.0])
def test_weights_of_completions_are_the_derivative_of_the_loss(beta: float, alpha: float) -> None:
    torch.manual_seed(0)
    log_probs = (-torch.rand(3, dtype=torch.float64)).requires_grad_()
    reference, others = torch.randn(2, 3, dtype=torch.float64)
    weights = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    margins = beta * (SIGNS.T @ (log_probs - reference) + others)
    wins = (SIGNS > 0).double()
    loss = (weights * (-logsigmoid(margins) - alpha * wins.T @ log_probs)).sum()
    (gradient,) = torch.autograd.grad(loss, log_probs)
    found = completion_weights(SIGNS, margins.detach(), weights, beta, alpha)
    torch.testing.assert_close(found, gradient, rtol=1e-12, atol=1e-12)


def test_far_margins_weigh_nothing_or_all() -> None:
    margins = torch.tensor([-800.0, 0.0, 800.0], dtype=torch.float64)
    assert pair_losses(margins).tolist() == [800.0, pytest.approx(math.log(2)), 0.0]
    winners = completion_weights(torch.eye(3).double(), margins, torch.ones(3).double(), 0.5, 0.0)
    assert winners.tolist() == [-0.5, -0.25, 0.0]
