from __future__ import annotations

import math

import pytest
import torch

from llm_decpomdp.algorithms.critics.head import ValueHead, explained_variance

TEXTS = torch.eye(4)
VALUES = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64)


def pairs_of(head: ValueHead, features: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.stack([head.predict(features), targets], 1)


def learn(head: ValueHead, updates: int, targets: torch.Tensor = VALUES) -> None:
    for _ in range(updates):
        head.learn(TEXTS, pairs_of(head, TEXTS, targets), 2)


def test_a_constant_return_is_reached_at_once_however_large() -> None:
    head = ValueHead(4, 1e-3)
    learn(head, 2, torch.full((4,), 10.0, dtype=torch.float64))
    assert head.predict(TEXTS).tolist() == pytest.approx([10.0] * 4, abs=1e-3)
    assert head.evaluate(torch.zeros(0, 2)) == 0.0


def test_the_head_begins_with_the_mean_and_learns_what_differs_from_it() -> None:
    head = ValueHead(4, 0.02)
    learn(head, 1)
    assert head.mean == 3.0
    assert (head.predict(TEXTS) - 3.0).abs().max() < 0.3
    learn(head, 60)
    assert head.predict(TEXTS).tolist() == pytest.approx(VALUES.tolist(), abs=0.15)
    assert head.explained > 0.5


def test_the_scale_of_returns_changes_no_step() -> None:
    small, large = ValueHead(4, 0.01), ValueHead(4, 0.01)
    learn(small, 20)
    learn(large, 20, 1000 * VALUES)
    torch.testing.assert_close(large.weight, small.weight, atol=1e-4, rtol=0)


def test_explained_variance_is_one_for_what_is_exact_up_to_a_constant_and_below_zero_for_noise() -> (
    None
):
    targets = torch.arange(10, dtype=torch.float64)
    assert explained_variance(targets + 5, targets) == pytest.approx(1.0)
    assert explained_variance(torch.full_like(targets, 3.0), targets) == pytest.approx(0.0)
    assert explained_variance(-targets, targets) == pytest.approx(-3.0)
    assert explained_variance(targets[:4], targets[:4]) == 0.0  # too few
    assert explained_variance(targets, torch.ones_like(targets)) == 0.0


def test_states_are_judged_by_what_was_predicted_before_training_on_them() -> None:
    head = ValueHead(8, 1.0)  # learns each batch by heart
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        noise = torch.randn(8, 8, generator=generator)
        targets = torch.randn(8, generator=generator, dtype=torch.float64)
        head.learn(noise, pairs_of(head, noise, targets), 2)
    assert head.explained < 0


def test_a_head_goes_on_exactly_from_its_state() -> None:
    straight, first = ValueHead(4, 0.02), ValueHead(4, 0.02)
    learn(straight, 6)
    learn(first, 3)
    again = ValueHead(4, 0.02)
    again.load_state_dict(first.state_dict())
    learn(again, 3)
    assert torch.equal(again.weight, straight.weight)
    assert again.explained == straight.explained and math.isfinite(again.explained)
    assert torch.equal(again.predict(TEXTS), straight.predict(TEXTS))
