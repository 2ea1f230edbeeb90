from __future__ import annotations

import copy

import pytest
import torch

from llm_decpomdp.algorithms.learning.base_learner import PolicyOptimizer, learning_rate_factor


def parameter(*shape: int, dtype: torch.dtype = torch.float32) -> torch.nn.Parameter:
    generator = torch.Generator().manual_seed(0)
    return torch.nn.Parameter((0.02 * torch.randn(*shape, generator=generator)).to(dtype))


@pytest.mark.parametrize("rate", [5e-6, 2e-5, 5e-5])
def test_sixteen_bit_weights_lose_no_update(rate: float) -> None:
    weight = parameter(100, 100, dtype=torch.bfloat16)
    exact = torch.nn.Parameter(weight.detach().float())
    ours, reference = PolicyOptimizer([weight], rate, 0.0), PolicyOptimizer([exact], rate, 0.0)
    plain = torch.nn.Parameter(weight.detach().clone())
    adamw = torch.optim.AdamW([plain], lr=rate, weight_decay=0.0)
    before = weight.detach().clone()
    for _ in range(50):
        weight.grad, exact.grad, plain.grad = (torch.ones_like(p) for p in (weight, exact, plain))
        ours.step()
        reference.step()
        adamw.step()
    assert torch.equal(weight, exact.to(torch.bfloat16))
    assert torch.equal(ours.masters[0], exact)
    stuck = float((plain == before).float().mean())
    assert stuck > 0.3, "the same steps on 16-bit weights alone are lost"


def test_only_matrices_decay() -> None:
    matrix, vector = parameter(3, 3), parameter(3)
    before = matrix.detach().clone(), vector.detach().clone()
    optimizer = PolicyOptimizer([matrix, vector], 0.1, 0.5)
    matrix.grad, vector.grad = torch.zeros(3, 3), torch.zeros(3)
    optimizer.step()
    torch.testing.assert_close(matrix.detach(), before[0] * (1 - 0.1 * 0.5))
    assert torch.equal(vector, before[1])


def test_the_state_continues_exactly_with_its_full_precision_copies() -> None:
    weight = parameter(4, 4, dtype=torch.bfloat16)
    first = PolicyOptimizer([weight], 1e-5, 0.0)
    weight.grad = torch.ones_like(weight)
    first.step()
    twin = torch.nn.Parameter(weight.detach().clone())
    second = PolicyOptimizer([twin], 1e-5, 0.0)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for tensor, optimizer in ((weight, first), (twin, second)):
        tensor.grad = torch.full_like(tensor, 0.5)
        optimizer.step()
    assert torch.equal(first.masters[0], second.masters[0])
    assert not torch.equal(first.masters[0].to(torch.bfloat16).float(), first.masters[0])


def test_schedules_rise_and_fall_as_documented() -> None:
    warm = [learning_rate_factor(update, "constant", 3, None) for update in range(5)]
    assert warm == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert [learning_rate_factor(u, "linear", 0, 4) for u in range(5)] == [1, 0.75, 0.5, 0.25, 0]
    cosine = [learning_rate_factor(u, "cosine", 1, 5) for u in (1, 3, 5, 9)]
    assert cosine == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert learning_rate_factor(0, "linear", 1, 5) == 0.5


def test_the_factor_scales_the_step() -> None:
    one, half = parameter(2, 2), parameter(2, 2)
    before = one.detach().clone()
    for tensor, factor in ((one, 1.0), (half, 0.5)):
        optimizer = PolicyOptimizer([tensor], 0.1, 0.0)
        tensor.grad = torch.ones(2, 2)
        optimizer.step(factor)
        assert tensor.grad is None
    torch.testing.assert_close(half - before, (one - before) / 2)
