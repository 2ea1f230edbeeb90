"""Objectives of several steps: closed forms, values by hand, and what is refused."""

from __future__ import annotations

import math
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import CLIP_RANGES, LearnerOptions
from llm_decpomdp.algorithms.learning.losses import (
    OBJECTIVES,
    effective_share,
    is_clipped,
    joint_log_ratios,
    loss_terms,
    objective_terms,
    policy_gradient,
)
from tests.algorithms.steps import END, MAGRPO, ROWS, A, B, accumulated

MASK = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
ADVANTAGES = torch.tensor([1.5, -0.5, -1.0])


def options(objective: str = "ppo", **others: Any) -> LearnerOptions:
    return LearnerOptions(**{"updates_per_batch": 2, "objective": objective, **others})


def logs(*ratios: float) -> torch.Tensor:
    """One completion, as log-probabilities of a policy with these ratios to one that gives 0."""
    return torch.tensor([[math.log(ratio) for ratio in ratios]], requires_grad=True)


def slopes(objective: str, log_probs: torch.Tensor, gain: float, **others: Any) -> list[float]:
    """Minus the gradient of the terms at each token: ratio times advantage where nothing is clipped."""
    chosen = options(objective, **others)
    zeros, mask = torch.zeros_like(log_probs), torch.ones_like(log_probs)
    terms = loss_terms(chosen, log_probs, zeros, torch.tensor([gain]), mask, None)
    (found,) = torch.autograd.grad(terms.sum(), log_probs)
    return [-slope for slope in found[0].tolist()]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_at_a_ratio_of_one_each_has_the_policy_gradient(objective: str) -> None:
    log_probs = -torch.rand(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    log_probs.requires_grad_()
    bounds = options(objective).clip_bounds
    terms = objective_terms(objective, log_probs, log_probs.detach(), ADVANTAGES, MASK, *bounds)
    (found,) = torch.autograd.grad((terms * MASK).sum(), log_probs)
    plain = (policy_gradient(log_probs, ADVANTAGES) * MASK).sum()
    torch.testing.assert_close(found, torch.autograd.grad(plain, log_probs)[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("objective", "ratio", "gain", "slope"),
    [
        *[("ppo", 1.0, 2.0, 2.0), ("ppo", 1.25, 2.0, 0.0), ("ppo", 1.25, -2.0, -2.5)],
        *[("ppo", 0.5, 2.0, 1.0), ("ppo", 0.5, -2.0, 0.0), ("ppo", 0.9, -2.0, -1.8)],
        *[("dapo", 1.25, 2.0, 2.5), ("dapo", 1.3, 2.0, 0.0), ("dapo", 0.75, -2.0, 0.0)],
        *[("gspo", 1.00035, 2.0, 2.0007), ("gspo", 1.0005, 2.0, 0.0)],
        *[("gspo", 0.9998, -2.0, -1.9996), ("gspo", 0.9996, -2.0, 0.0)],
        *[("cispo", 3.0, 2.0, 6.0), ("cispo", 8.0, 2.0, 10.0), ("cispo", 8.0, -2.0, -10.0)],
        *[("cispo", 0.01, -2.0, -0.02), ("cispo", 0.01, 2.0, 0.02)],
    ],
)
def test_ratios_are_clipped_at_their_own_bounds_on_the_side_that_gains(
    objective: str, ratio: float, gain: float, slope: float
) -> None:
    assert slopes(objective, logs(ratio), gain) == pytest.approx([slope], rel=1e-5)


def test_a_range_of_ones_own_replaces_that_of_the_objective() -> None:
    assert slopes("ppo", logs(1.25), 1.0, clip_range=0.3) == pytest.approx([1.25])
    assert slopes("ppo", logs(1.25), 1.0, clip_range=0.1, clip_range_high=0.3) == pytest.approx(
        [1.25]
    )
    assert slopes("ppo", logs(0.85), -1.0, clip_range=0.1, clip_range_high=0.3) == [0.0]
    assert slopes("cispo", logs(8.0), 1.0, clip_range_high=0.5) == pytest.approx([1.5])
    ranges = {name: options(name).clip_bounds for name in CLIP_RANGES}
    assert ranges == CLIP_RANGES and set(CLIP_RANGES) == set(OBJECTIVES)
    assert options("ppo", clip_range=0.1).clip_bounds == (0.1, 0.1)
    assert options("dapo", clip_range=0.1).clip_bounds == (0.1, 0.28)


def test_the_ratio_of_a_sequence_is_the_geometric_mean_of_its_tokens() -> None:
    wide: dict[str, Any] = {"clip_range": 0.9, "clip_range_high": 9.0}
    assert slopes("gspo", logs(2.0, 8.0), 1.5, **wide) == pytest.approx([6.0, 6.0])
    assert slopes("gspo", logs(2.0, 0.5), 1.5) == pytest.approx(
        [1.5, 1.5]
    )  # no token is clipped by itself
    assert slopes("ppo", logs(2.0, 0.5), 1.5) == [0.0, 0.75]


def test_padding_is_no_part_of_a_sequence_and_gets_no_gradient() -> None:
    log_probs = torch.tensor([[math.log(2.0), math.log(8.0), -math.inf]], requires_grad=True)
    old = torch.tensor([[0.0, 0.0, -math.inf]])
    mask = torch.tensor([[1.0, 1.0, 0.0]])
    for objective, expected in (("gspo", [-4.0, -4.0, 0.0]), ("ppo", [-2.0, -8.0, 0.0])):
        terms = objective_terms(objective, log_probs, old, torch.ones(1), mask, 0.9, 9.0)
        (found,) = torch.autograd.grad(terms[mask > 0].sum(), log_probs)
        assert found[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("ratio", [0.9996, 1.0, 1.0003, 1.1])
@pytest.mark.parametrize("gain", [1.0, -1.0])
def test_completions_of_one_token_have_the_ratio_of_the_token(ratio: float, gain: float) -> None:
    same = {"clip_range": 3e-4, "clip_range_high": 4e-4}
    assert slopes("gspo", logs(ratio), gain) == slopes("ppo", logs(ratio), gain, **same)


def test_tokens_whose_ratio_left_the_range_are_counted() -> None:
    ones = torch.ones(1, 3)
    log_probs = logs(0.7, 1.25, 1.3)

    def left(objective: str) -> list[bool]:
        found: list[bool] = is_clipped(options(objective), log_probs, torch.zeros(1, 3), ones)[
            0
        ].tolist()
        return found

    assert left("ppo") == [True, True, True] and left("dapo") == [True, False, True]
    assert left("gspo") == [True] * 3 and left("cispo") == [False] * 3


def test_the_divergence_in_the_reward_has_the_gradient_of_the_exact_one() -> None:
    """All sequences of two tokens, the second conditioned on the first, weighted by their probability."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    parameters = [draw(3).requires_grad_(), draw(3, 3).requires_grad_()]
    other = [draw(3), draw(3, 3)]

    def rows(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        pairs = product(range(3), repeat=2)
        logs = [(first.log_softmax(0)[i], second[i].log_softmax(0)[j]) for i, j in pairs]
        return torch.stack([torch.stack(pair) for pair in logs])

    log_probs, reference = rows(*parameters), rows(*other)  # (9, 2)
    chances, rewards, ones = log_probs.sum(1).exp(), draw(9), torch.ones(9, 2)
    gained = (chances * (rewards - 0.3 * (log_probs - reference).sum(1))).sum()
    expected = torch.autograd.grad(-gained, parameters, retain_graph=True)
    for objective in OBJECTIVES:
        chosen = options(objective, kl="reward", kl_coefficient=0.3)
        terms = loss_terms(chosen, log_probs, log_probs.detach(), rewards, ones, reference)
        loss = (chances.detach() * terms.sum(1)).sum()
        for found, right in zip(
            torch.autograd.grad(loss, parameters, retain_graph=True), expected, strict=True
        ):
            torch.testing.assert_close(found, right, atol=1e-9, rtol=0)


def test_the_divergence_in_the_reward_is_that_of_the_samples_and_is_clipped_with_it() -> None:
    log_probs, zeros = logs(1.5, 1.0), torch.zeros(1, 2)
    reference = torch.tensor(
        [[-0.5, 0.25]]
    )  # d of the samples: 0.5 and -0.25, to come: 0.25 and -0.25
    chosen = options(kl="reward", kl_coefficient=2.0)
    terms = loss_terms(chosen, log_probs, zeros, torch.tensor([1.0]), torch.ones(1, 2), reference)
    (found,) = torch.autograd.grad(terms.sum(), log_probs)
    assert found[0].tolist() == [0.0, -1.5]  # advantages 0.5, beyond its range, and 1.5


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"objective": "gspo"}, "objective=gspo means nothing with updates_per_batch=1"),
        ({"clip_range_high": 0.3}, "clip_range_high=0.3 means nothing with updates_per_batch=1"),
        (
            {"kl": "reward", "kl_coefficient": 0.1},
            "kl=reward means nothing with updates_per_batch=1",
        ),
        ({"kl": "reward", "updates_per_batch": 2}, "kl=reward means nothing with kl_coefficient=0"),
        (
            {"kl": "k3", "kl_coefficient": 0.1},
            "kl=k3 is refused: as a reward k3 has the gradient of another",
        ),
        ({"kl": "los"}, "did you mean 'loss'"),
        ({"objective": "grpo", "updates_per_batch": 2}, "unknown objective 'grpo'"),
        (
            {"objective": "cispo", "updates_per_batch": 2, "clip_range": 0.2},
            "clip_range=0.2 means nothing with objective=cispo: set objective to ppo or dapo or gspo",
        ),
        ({"overlong_tokens": 9}, "overlong_tokens=9 means nothing with truncated=train"),
    ],
)
def test_what_means_nothing_is_refused(bad: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        LearnerOptions(**bad)


def test_a_joint_sample_counts_by_the_product_of_the_ratios_of_its_completions() -> None:
    group: Any = SimpleNamespace(
        joint=((0, 0), (0, 1), (1, 0), (1, 1)), completions={"x": (), "y": ()}
    )
    ratios = {"x": torch.tensor([2.0, 1.0]).log(), "y": torch.tensor([3.0, 0.5]).log()}
    weights = joint_log_ratios(group, ratios)
    torch.testing.assert_close(weights.exp(), torch.tensor([6.0, 1.0, 3.0, 0.5]).double())
    assert effective_share(weights) == pytest.approx(10.5**2 / (36 + 1 + 9 + 0.25) / 4)
    assert effective_share(torch.full((5,), -700.0)) == pytest.approx(1.0)
    assert effective_share(torch.tensor([0.0, -900.0])) == pytest.approx(0.5)
    alone = joint_log_ratios(
        group, {"x": ratios["x"]}
    )  # a partner that does not learn has moved nowhere
    torch.testing.assert_close(alone.exp(), torch.tensor([2.0, 2.0, 1.0, 1.0]).double())


def test_the_effective_sample_size_falls_with_the_team(make_policy: Any, make_chain: Any) -> None:
    def size(number: int, updates: int) -> float | None:
        team = {f"agent_{n}": make_policy("unigram") for n in range(number)}
        rows = {agent: [[A, END], [B, B, B], [END]] for agent in team}
        chain = make_chain(team["agent_0"], [([1.0, 0.0, 0.5], rows)])
        chosen = LearnerOptions(learning_rate=0.05, updates_per_batch=updates)
        return Learner(team, MAGRPO, chosen).update([chain]).get("effective_sample_size")

    assert size(1, 1) is None
    one, two, four = (size(number, 3) for number in (1, 2, 4))
    assert one is not None and two is not None and four is not None
    assert 1 > one > two > four > 1 / 3


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_first_of_several_steps_is_that_of_the_plain_gradient(
    make_policy: Any, make_chain: Any, objective: str
) -> None:
    policy = make_policy("unigram")
    chain = make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])
    plain = accumulated(policy, [chain])
    still = LearnerOptions(learning_rate=0.0, updates_per_batch=2, objective=objective)
    learner = Learner({"x": policy}, MAGRPO, still)
    metrics = learner.accumulate([chain])
    torch.testing.assert_close(policy.model.bias.grad, plain)
    assert metrics["effective_sample_size"] == pytest.approx(1.0)
    assert metrics["clip_fraction/x"] == 0.0
