"""Corrections of samples that others have drawn: by hand, and where they matter."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.losses import (
    bounded_weight,
    importance_ratio,
    out_of_bounds,
)
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start
from llm_decpomdp.policy import Completion
from tests.algorithms.conftest import TinyPolicy, Unigram
from tests.algorithms.steps import END, MAGRPO, ROWS, A, B

RATIOS = [[4.0, 0.25, 1.5], [0.6, 1.5, 9.0]]
MASK = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
"""The last token of the second completion is padding."""


def weights_by_hand(mode: str, level: str) -> tuple[list[list[float]], list[list[bool]]]:
    """Weights and bounds that bind, with a cap of 2, of the tokens that the mask counts."""
    log_probs = torch.tensor(RATIOS).log().requires_grad_()
    sampled = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, math.nan]])
    ratio = importance_ratio(log_probs, sampled, MASK, level)
    assert not ratio.requires_grad and ratio.dtype is torch.float64
    counted = MASK > 0
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
    found, metrics = accumulate(policy, chain, correction=mode, correction_level=level)
    assert torch.equal(found, plain)
    names = ["ratio/x", "masked/x", "ess/x", "mismatch/x"]
    assert [metrics[name] for name in names] == [1, 0, 1, 0]
    assert {"ratio/x", "masked/x", "ess/x"} == set(metrics) - set(before)


def test_metrics_agree_with_the_mismatch_and_the_weights(policy: Any, make_chain: Any) -> None:
    """Three tokens `A` of seven, each recorded as twice as likely as it is."""
    chain = make_chain(policy, [([1.0, 2.0, 4.0], {"x": [[A, B, END], [A, END], [B, A]]})])
    chain = recorded(policy, chain, shift=math.log(2))
    _, metrics = accumulate(policy, chain, correction="truncate")
    assert metrics["mismatch/x"] == pytest.approx(3 / 7 * math.log(2), rel=1e-5)
    assert metrics["ratio/x"] == pytest.approx((3 * 0.5 + 4) / 7, rel=1e-5)
    assert metrics["ess/x"] == pytest.approx(5.5**2 / (7 * 4.75), rel=1e-5)
    assert metrics["masked/x"] == 0
    _, metrics = accumulate(policy, chain, correction="mask", correction_cap=1.9)
    assert metrics["masked/x"] == pytest.approx(3 / 7)
    assert metrics["ess/x"] == pytest.approx(4 / 7)
    _, metrics = accumulate(policy, chain, correction="truncate", correction_level="sequence")
    assert metrics["ratio/x"] == pytest.approx(0.5, rel=1e-5)
    assert metrics["ess/x"] == pytest.approx(1)


def test_a_weight_multiplies_the_gradient_of_its_token(policy: Any, make_chain: Any) -> None:
    """A one-token completion whose probability is half of the recorded one counts half."""
    chain = make_chain(policy, [([1.0, 0.0], {"x": [[A], [END]]})])
    wrong = recorded(policy, chain, shift=math.log(2))
    chances = policy.model.bias.detach().softmax(-1)
    up, down = torch.eye(3)[A] - chances, torch.eye(3)[END] - chances
    found, _ = accumulate(policy, wrong, correction="truncate")
    torch.testing.assert_close(found, -(0.5 * 0.5 * up - 0.5 * down) / 2)  # advantages 1/2, -1/2
    found, _ = accumulate(policy, wrong, correction="mask", correction_cap=1.5)
    torch.testing.assert_close(found, 0.5 * down / 2)


@pytest.mark.parametrize("objective", ["ppo", "cispo"])
def test_the_correction_stays_that_of_the_first_step(
    make_policy: Any, make_chain: Any, objective: str
) -> None:
    """Decoupled PPO: what the policy moves within the batch is the objective's business alone."""
    results = []
    for steps in (1, 3):
        policy = make_policy("unigram")
        chain = make_chain(policy, [([1.0, 0.0], {"x": [[A, A], [B, END]]})])
        several = {"updates_per_batch": steps, "objective": objective} if steps > 1 else {}
        chain = recorded(policy, chain, shift=math.log(1.5))
        _, metrics = accumulate(policy, chain, correction="truncate", **several)
        results.append(metrics)
    one, three = results
    for name in ("ratio/x", "ess/x", "masked/x"):
        assert three[name] == pytest.approx(one[name])
    assert three["mismatch/x"] != pytest.approx(one["mismatch/x"], rel=0.01)  # the policy moved


def test_what_means_nothing_or_would_be_wrong_is_refused(
    policy: Any, make_chain: Any, make_policy: Any
) -> None:
    with pytest.raises(ValueError, match=r"correction_cap=3 means nothing with correction=none"):
        LearnerOptions(correction_cap=3.0)
    with pytest.raises(ValueError, match="correction_level=sequence means nothing"):
        LearnerOptions(correction_level="sequence")
    with pytest.raises(ValueError, match="correction_cap must be above 1"):
        LearnerOptions(correction="mask", correction_cap=1.0)
    with pytest.raises(ValueError, match="correction=mask means nothing with madpo"):
        ALGORITHMS["madpo"].check(["x", "y"], LearnerOptions(correction="mask"))
    chain = make_chain(policy, [([1.0, 2.0, 4.0], {"x": ROWS})])
    with pytest.raises(ValueError, match="and a completion has none: set correction=none"):
        accumulate(policy, chain, correction="mask")
    cutting: Any = type("Cutting", (TinyPolicy,), {"cuts": True})
    policy = cutting(policy.model, "ab", 3)
    with pytest.raises(ValueError, match=r"policy of 'x' samples from a part of it: set model.top"):
        Learner({"x": policy}, MAGRPO, LearnerOptions(correction="mask"))
    Learner({"x": policy}, MAGRPO, LearnerOptions())


# --------------------------------------------------------------- a sampler that is not the policy


def reached(correction: str, **options: Any) -> float:
    """The chance of the best letter, after learning from a sampler that hardly says it.

    The sampler's logit of `a` is lower than the policy's by 2, as that of a server with other weights would be.
    Rewards: 1 for `a`, 0.8 for `b`, 0 for nothing, and no baseline, so that what is said often is credited often.
    """
    policy = TinyPolicy(Unigram(3), "ab", 1)
    chosen = LearnerOptions(learning_rate=0.1, correction=correction, **options)
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
    assert reached("truncate", correction_cap=10.0) > 0.9
    assert reached("mask", correction_cap=10.0) > 0.9
