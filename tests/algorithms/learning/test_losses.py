from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS, Group, Learner, LearnerOptions, Rollout, Start
from llm_decpomdp.algorithms.learning.importance_sampling import (
    bounded_weight,
    effective_share,
    importance_ratio,
    joint_log_ratios,
    out_of_bounds,
)
from llm_decpomdp.algorithms.learning.kl import kl_divergence, kl_estimate
from llm_decpomdp.algorithms.learning.learner_options import CLIP_RANGES, ObjectiveOptions
from llm_decpomdp.algorithms.learning.losses import (
    REDUCTIONS,
    loss_terms,
    policy_gradient,
    sequence_sum,
)
from llm_decpomdp.algorithms.learning.objectives import OBJECTIVES, is_clipped, objective_terms
from llm_decpomdp.policy import Completion
from tests.algorithms.conftest import TinyPolicy, Unigram
from tests.algorithms.steps import END, MAGRPO, ROWS, A, B, accumulated


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
    ref_first = torch.randn(3, generator=generator)
    ref_second = torch.randn(3, 3, generator=generator)
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
def test_padding_is_no_part_of_the_divergence(padding: tuple[float, float]) -> None:
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
    # Of several groups with 6 on average.
    assert REDUCTIONS["token_mean"](terms, mask, 6).item() == 1.0
    assert tuple(REDUCTIONS) == LearnerOptions.__dataclass_fields__["loss"].metadata["choices"]


MASK = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])


def options(objective: str = "ppo", kl: Any = None, **ranges: Any) -> LearnerOptions:
    chosen = ObjectiveOptions(objective, **ranges)
    return LearnerOptions(num_iterations=2, objective=chosen, kl=kl or {})


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
    ranges = {name: options(name).objective.clip_bounds for name in CLIP_RANGES}
    assert ranges == CLIP_RANGES and set(CLIP_RANGES) == set(OBJECTIVES)
    assert options("ppo", clip_range=0.1).objective.clip_bounds == (0.1, 0.1)
    assert options("dapo", clip_range=0.1).objective.clip_bounds == (0.1, 0.28)


def test_the_ratio_of_a_sequence_is_the_geometric_mean_of_its_tokens() -> None:
    wide: dict[str, Any] = {"clip_range": 0.9, "clip_range_high": 9.0}
    assert slopes("gspo", logs(2.0, 8.0), 1.5, **wide) == pytest.approx([6.0, 6.0])
    # No token is clipped by itself.
    assert slopes("gspo", logs(2.0, 0.5), 1.5) == pytest.approx([1.5, 1.5])
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
        chosen = options(objective, kl={"placement": "reward", "coefficient": 0.3})
        terms = loss_terms(chosen, log_probs, log_probs.detach(), rewards, ones, reference)
        loss = (chances.detach() * terms.sum(1)).sum()
        for found, right in zip(
            torch.autograd.grad(loss, parameters, retain_graph=True), expected, strict=True
        ):
            torch.testing.assert_close(found, right, atol=1e-9, rtol=0)


def test_the_divergence_in_the_reward_is_that_of_the_samples_and_is_clipped_with_it() -> None:
    log_probs, zeros = logs(1.5, 1.0), torch.zeros(1, 2)
    # d of the samples: 0.5 and -0.25, to come: 0.25 and -0.25.
    reference = torch.tensor([[-0.5, 0.25]])
    chosen = options(kl={"placement": "reward", "coefficient": 2.0})
    terms = loss_terms(chosen, log_probs, zeros, torch.tensor([1.0]), torch.ones(1, 2), reference)
    (found,) = torch.autograd.grad(terms.sum(), log_probs)
    assert found[0].tolist() == [0.0, -1.5]  # advantages 0.5, beyond its range, and 1.5


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"objective": "gspo"}, "objective.name=gspo means nothing with num_iterations=1"),
        (
            {"objective": {"clip_range_high": 0.3}},
            "objective.clip_range_high=0.3 means nothing with num_iterations=1",
        ),
        (
            {"kl": {"placement": "reward", "coefficient": 0.1}},
            "kl.placement=reward means nothing with num_iterations=1",
        ),
        (
            {"kl": {"placement": "reward"}, "num_iterations": 2},
            "kl: placement=reward means nothing with coefficient=0",
        ),
        (
            {"kl": {"placement": "k3", "coefficient": 0.1}},
            "kl.placement=k3 is refused: as a reward k3 has the gradient of another",
        ),
        ({"kl": {"placement": "los"}}, "did you mean 'loss'"),
        ({"objective": "grpo", "num_iterations": 2}, "unknown objective.name 'grpo'"),
        (
            {"objective": {"name": "cispo", "clip_range": 0.2}, "num_iterations": 2},
            "objective: clip_range=0.2 means nothing with name=cispo: set name to ppo or dapo or gspo",
        ),
        (
            {"truncation": {"overlong_buffer_len": 9}},
            "truncation: overlong_buffer_len=9 means nothing with mode=train",
        ),
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
    # a partner that does not learn has moved nowhere.
    alone = joint_log_ratios(group, {"x": ratios["x"]})
    torch.testing.assert_close(alone.exp(), torch.tensor([2.0, 2.0, 1.0, 1.0]).double())


def test_the_effective_sample_size_falls_with_the_team(make_policy: Any, make_chain: Any) -> None:
    def size(number: int, updates: int) -> float | None:
        team = {f"agent_{n}": make_policy("unigram") for n in range(number)}
        rows = {agent: [[A, END], [B, B, B], [END]] for agent in team}
        chain = make_chain(team["agent_0"], [([1.0, 0.0, 0.5], rows)])
        chosen = LearnerOptions(learning_rate=0.05, num_iterations=updates)
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
    still = LearnerOptions(learning_rate=0.0, num_iterations=2, objective=objective)
    learner = Learner({"x": policy}, MAGRPO, still)
    metrics = learner.accumulate([chain])
    torch.testing.assert_close(policy.model.bias.grad, plain)
    assert metrics["effective_sample_size"] == pytest.approx(1.0)
    assert metrics["clip_fraction/x"] == 0.0


RATIOS = [[4.0, 0.25, 1.5], [0.6, 1.5, 9.0]]
MASK_CORRECTION = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
"""The last token of the second completion is padding."""


def weights_by_hand(mode: str, level: str) -> tuple[list[list[float]], list[list[bool]]]:
    """Weights and bounds that bind, with a cap of 2, of the tokens that the mask counts."""
    log_probs = torch.tensor(RATIOS).log().requires_grad_()
    sampled = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, math.nan]])
    ratio = importance_ratio(log_probs, sampled, MASK_CORRECTION, level)
    assert not ratio.requires_grad and ratio.dtype is torch.float64
    counted = MASK_CORRECTION > 0
    weight, bound = bounded_weight(ratio, mode, 2.0), out_of_bounds(ratio, mode, 2.0)
    return [[values[row][counted[row]].tolist() for row in range(2)] for values in (weight, bound)]  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("mode", "level", "weights", "bound"),
    [
        ("truncate", "token", [[2, 0.25, 1.5], [0.6, 1.5]], [[1, 0, 0], [0, 0]]),
        ("mask", "token", [[0, 0, 1.5], [0.6, 1.5]], [[1, 1, 0], [0, 0]]),
        ("truncate", "sequence", [[1.5] * 3, [0.9] * 2], [[0, 0, 0], [0, 0]]),
        ("mask", "sequence", [[1.5] * 3, [0.9] * 2], [[0, 0, 0], [0, 0]]),
    ],
)
def test_weights_are_those_by_hand(mode: str, level: str, weights: Any, bound: Any) -> None:
    found, binding = weights_by_hand(mode, level)
    for row, expected in zip(found, weights, strict=True):
        assert row == pytest.approx(expected, rel=1e-6)
    assert binding == [[bool(one) for one in row] for row in bound]


def test_whole_completions_are_bounded_by_their_product() -> None:
    log_probs, zeros = torch.full((1, 3), math.log(1.5)), torch.zeros(1, 3)  # each within bounds
    ratio = importance_ratio(log_probs, zeros, torch.ones(1, 3), "sequence")
    assert ratio.tolist() == [pytest.approx([3.375] * 3)]
    assert bounded_weight(ratio, "truncate", 2.0).tolist() == [[2.0] * 3]
    assert bounded_weight(ratio, "mask", 2.0).tolist() == [[0.0] * 3]
    far = importance_ratio(1000 * log_probs, zeros, torch.ones(1, 3), "sequence")
    assert far.isfinite().all() and bounded_weight(far, "mask", 2.0).tolist() == [[0.0] * 3]


@pytest.fixture
def policy(make_policy: Any) -> Any:
    return make_policy("unigram")


def recorded(policy: Any, chain: Rollout, shift: float = 0.0) -> Rollout:
    """The rollout with the log-probabilities of a sampler that is as the policy, but for a shift of `A`."""

    def record(prompt: str, completions: tuple[Completion, ...]) -> tuple[Completion, ...]:
        log_probs, _ = policy.log_probs(prompt, completions)
        return tuple(
            replace(
                one,
                log_probs=tuple(
                    value + shift * (token == A)
                    for value, token in zip(row.tolist(), one.tokens, strict=False)
                ),
            )
            for one, row in zip(completions, log_probs, strict=True)
        )

    groups = tuple(
        replace(
            group,
            completions={
                agent: record(group.prompts[agent], completions)
                for agent, completions in group.completions.items()
            },
        )
        for group in chain.groups
    )
    return replace(chain, groups=groups)


def accumulate(
    policy: Any, chain: Rollout, **options: Any
) -> tuple[torch.Tensor, dict[str, float]]:
    policy.model.bias.grad = None
    learner = Learner({"x": policy}, MAGRPO, LearnerOptions(learning_rate=0.1, **options))
    metrics = learner.accumulate([chain])
    return policy.model.bias.grad.clone(), metrics


@pytest.mark.parametrize("mode", ["truncate", "mask"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_policys_own_samples_have_the_plain_gradient(
    policy: Any, make_chain: Any, mode: str, level: str
) -> None:
    chain = recorded(policy, make_chain(policy, [([1.0, 2.0, 4.0], {"x": ROWS})]))
    plain, before = accumulate(policy, chain)
    found, metrics = accumulate(policy, chain, importance_sampling={"mode": mode, "level": level})
    assert torch.equal(found, plain)
    names = ["ratio/x", "masked/x", "ess/x", "mismatch/x"]
    assert [metrics[name] for name in names] == [1, 0, 1, 0]
    assert {"ratio/x", "masked/x", "ess/x"} == set(metrics) - set(before)


def test_metrics_agree_with_the_mismatch_and_the_weights(policy: Any, make_chain: Any) -> None:
    """Three tokens `A` of seven, each recorded as twice as likely as it is."""
    chain = make_chain(policy, [([1.0, 2.0, 4.0], {"x": [[A, B, END], [A, END], [B, A]]})])
    chain = recorded(policy, chain, shift=math.log(2))
    _, metrics = accumulate(policy, chain, importance_sampling="truncate")
    assert metrics["mismatch/x"] == pytest.approx(3 / 7 * math.log(2), rel=1e-5)
    assert metrics["ratio/x"] == pytest.approx((3 * 0.5 + 4) / 7, rel=1e-5)
    assert metrics["ess/x"] == pytest.approx(5.5**2 / (7 * 4.75), rel=1e-5)
    assert metrics["masked/x"] == 0
    _, metrics = accumulate(policy, chain, importance_sampling={"mode": "mask", "cap": 1.9})
    assert metrics["masked/x"] == pytest.approx(3 / 7)
    assert metrics["ess/x"] == pytest.approx(4 / 7)
    _, metrics = accumulate(
        policy, chain, importance_sampling={"mode": "truncate", "level": "sequence"}
    )
    assert metrics["ratio/x"] == pytest.approx(0.5, rel=1e-5)
    assert metrics["ess/x"] == pytest.approx(1)


def test_a_weight_multiplies_the_gradient_of_its_token(policy: Any, make_chain: Any) -> None:
    """A one-token completion whose probability is half of the recorded one counts half."""
    chain = make_chain(policy, [([1.0, 0.0], {"x": [[A], [END]]})])
    wrong = recorded(policy, chain, shift=math.log(2))
    chances = policy.model.bias.detach().softmax(-1)
    up, down = torch.eye(3)[A] - chances, torch.eye(3)[END] - chances
    found, _ = accumulate(policy, wrong, importance_sampling="truncate")
    torch.testing.assert_close(found, -(0.5 * 0.5 * up - 0.5 * down) / 2)  # advantages 1/2, -1/2
    found, _ = accumulate(policy, wrong, importance_sampling={"mode": "mask", "cap": 1.5})
    torch.testing.assert_close(found, 0.5 * down / 2)


@pytest.mark.parametrize("objective", ["ppo", "cispo"])
def test_the_first_correction_stays(make_policy: Any, make_chain: Any, objective: str) -> None:
    """Decoupled PPO: what the policy moves within the batch is the objective's business alone."""
    results = []
    for steps in (1, 3):
        policy = make_policy("unigram")
        chain = make_chain(policy, [([1.0, 0.0], {"x": [[A, A], [B, END]]})])
        several = {"num_iterations": steps, "objective": objective} if steps > 1 else {}
        chain = recorded(policy, chain, shift=math.log(1.5))
        _, metrics = accumulate(policy, chain, importance_sampling="truncate", **several)
        results.append(metrics)
    one, three = results
    for name in ("ratio/x", "ess/x", "masked/x"):
        assert three[name] == pytest.approx(one[name])
    assert three["mismatch/x"] != pytest.approx(one["mismatch/x"], rel=0.01)  # the policy moved


def test_meaningless_options_are_refused(policy: Any, make_chain: Any, make_policy: Any) -> None:
    with pytest.raises(
        ValueError, match=r"importance_sampling: cap=3 means nothing with mode=none"
    ):
        LearnerOptions(importance_sampling={"cap": 3.0})
    with pytest.raises(ValueError, match=r"importance_sampling: level=sequence means nothing"):
        LearnerOptions(importance_sampling={"level": "sequence"})
    with pytest.raises(ValueError, match=r"importance_sampling.cap must be above 1"):
        LearnerOptions(importance_sampling={"mode": "mask", "cap": 1.0})
    with pytest.raises(ValueError, match=r"importance_sampling.mode=mask means nothing with madpo"):
        ALGORITHMS["madpo"].check(["x", "y"], LearnerOptions(importance_sampling="mask"))
    chain = make_chain(policy, [([1.0, 2.0, 4.0], {"x": ROWS})])
    with pytest.raises(
        ValueError, match=r"and a completion has none: set importance_sampling.mode=none"
    ):
        accumulate(policy, chain, importance_sampling="mask")
    cutting: Any = type("Cutting", (TinyPolicy,), {"cuts": True})
    policy = cutting(policy.model, "ab", 3)
    with pytest.raises(ValueError, match=r"policy of 'x' samples from a part of it: set model.top"):
        Learner({"x": policy}, MAGRPO, LearnerOptions(importance_sampling="mask"))
    Learner({"x": policy}, MAGRPO, LearnerOptions())


# --------------------------------------------------------------- a sampler that is not the policy


def reached(correction: str, **options: Any) -> float:
    """The chance of the best letter, after learning from a sampler that hardly says it.

    The sampler's logit of `a` is lower than the policy's by 2, as that of a server with other weights would be.
    Rewards: 1 for `a`, 0.8 for `b`, 0 for nothing, and no baseline, so that what is said often is credited often.
    """
    policy = TinyPolicy(Unigram(3), "ab", 1)
    chosen = LearnerOptions(learning_rate=0.1, importance_sampling={"mode": correction, **options})
    learner = Learner({"x": policy}, ALGORITHMS["mareinforce"], chosen)
    generator = torch.Generator().manual_seed(0)
    worth, shift = torch.tensor([0.0, 1.0, 0.8]), torch.tensor([0.0, -2.0, 0.0])
    for _ in range(80):
        sampler = (policy.model.bias.detach() + shift).log_softmax(-1)
        tokens = torch.multinomial(sampler.exp(), 32, replacement=True, generator=generator)
        said = tuple(
            Completion("", (token,), (float(sampler[token]),)) for token in tokens.tolist()
        )
        learner.update([alone(said, worth[tokens].tolist())])
    return float(policy.model.bias.detach().softmax(-1)[A])


def alone(completions: tuple[Completion, ...], rewards: list[float]) -> Rollout:
    """A rollout of one agent's group."""
    joint = tuple((index,) for index in range(len(completions)))
    infos: tuple[dict[str, float], ...] = tuple({} for _ in completions)
    group = Group(0, None, {"x": "a"}, {"x": completions}, joint, tuple(rewards), infos, chosen=0)
    return Rollout(Start(seed=0), (group,))


def test_a_wrong_sampler_misleads_without_a_correction() -> None:
    assert reached("none") < 0.1
    assert reached("truncate", cap=10.0) > 0.9
    assert reached("mask", cap=10.0) > 0.9


def test_runs_that_stored_the_former_default_of_the_clip_range_are_read() -> None:
    assert LearnerOptions(objective={"clip_range": 0.2}).num_iterations == 1
