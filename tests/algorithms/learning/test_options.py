from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.advantages import group_advantages
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from tests.algorithms.conftest import TinyPolicy
from tests.algorithms.steps import END, MAGRPO, MORE, ROWS, A, B, accumulated, learn, weights


@pytest.fixture
def policy(make_policy: Any) -> Any:
    return make_policy("unigram")


def test_losses_weigh_tokens_as_they_say(policy: Any, make_chain: Any) -> None:
    # One token against three: the sums of sequences, over tokens (4) or over a fixed length (5).
    chain = make_chain(policy, [([1.0, 0.0], {"x": [[END], [B, B, B]]})])
    whole = accumulated(policy, [chain])
    torch.testing.assert_close(accumulated(policy, [chain], loss="token_mean"), whole * 2 / 4)
    fixed = accumulated(policy, [chain], loss="fixed_length", fixed_length=5)
    torch.testing.assert_close(fixed, whole / 5)


def test_masked_truncated_completions_are_compared_with_and_not_trained(
    policy: Any, make_chain: Any
) -> None:
    rows = [[A, END], [B, B, B]]  # the second has no end
    chain = make_chain(policy, [([1.0, 0.0], {"x": rows})])
    log_probs, mask = policy.log_probs("a", chain.groups[0].completions["x"])
    expected = torch.autograd.grad(-0.5 * (log_probs * mask)[0].sum() / 2, policy.model.bias)[0]
    torch.testing.assert_close(accumulated(policy, [chain], truncated="mask"), expected)


def test_penalised_truncation_makes_short_completions_likelier(
    policy: Any, make_chain: Any
) -> None:
    chain = make_chain(policy, [([1.0, 1.0], {"x": [[A, END], [A, A, A]]})])
    before = weights(policy)
    learn(policy, [chain], truncated="penalise", truncation_penalty=0.5)
    assert weights(policy)[END] > before[END]


def test_the_soft_penalty_grows_over_the_last_tokens_before_the_limit(
    policy: Any, make_chain: Any
) -> None:
    rows = [[END], [A, END], [A, A, END], [A, A, A, END], [A, A, A, A]]  # the last is cut off
    options = LearnerOptions(truncated="penalise", truncation_penalty=2.0, overlong_tokens=2)

    def values(limit: int, **others: Any) -> list[float]:
        chain = make_chain(policy, [([1.0] * 5, {"x": rows})])
        chosen, algorithm = replace(options, **others), ALGORITHMS["mareinforce"]
        (credit,) = group_advantages([chain], ["x"], algorithm, chosen, limits={"x": limit})
        found: list[float] = credit.advantages["x"].tolist()
        return found

    assert values(4) == [1.0, 1.0, 0.0, -1.0, -1.0]
    assert values(4, overlong_tokens=4) == [0.5, 0.0, -0.5, -1.0, -1.0]
    assert values(4, overlong_tokens=0) == [1.0, 1.0, 1.0, 1.0, -1.0]


def test_the_soft_penalty_needs_limits_and_room_below_them(policy: Any) -> None:
    soft = {"truncated": "penalise", "truncation_penalty": 1.0}
    with pytest.raises(TypeError, match=r"that of 'x' is a TinyPolicy; set overlong_tokens=0"):
        Learner({"x": policy}, MAGRPO, LearnerOptions(overlong_tokens=1, **soft))
    policy.max_new_tokens = 3
    Learner({"x": policy}, MAGRPO, LearnerOptions(overlong_tokens=3, **soft))
    with pytest.raises(ValueError, match="overlong_tokens=4 is more than max_new_tokens=3 of 'x'"):
        Learner({"x": policy}, MAGRPO, LearnerOptions(overlong_tokens=4, **soft))


def test_a_second_step_on_a_batch_is_clipped_where_the_ratio_left_the_range(
    make_policy: Any, make_chain: Any
) -> None:
    policy, free = make_policy("unigram"), make_policy("unigram")
    chain = make_chain(policy, [([1.0, 0.0], {"x": [[A], [B]]})])
    slow = {"learning_rate": 0.01}
    metrics = learn(policy, [chain], updates_per_batch=100, clip_range=0.05, **slow)
    assert metrics["clip_fraction/x"] == 1.0 and metrics["grad_norm/x"] == 0.0
    learn(free, [chain], updates=100, **slow)
    ratios = [
        (tiny.model.bias.log_softmax(0) - make_policy("unigram").model.bias.log_softmax(0))[A].exp()
        for tiny in (policy, free)
    ]
    assert ratios[0] < 1.3 < ratios[1]


def test_the_first_of_several_steps_is_that_of_the_plain_gradient(
    make_policy: Any, make_chain: Any
) -> None:
    one, two = make_policy("unigram"), make_policy("unigram")
    chains = [make_chain(one, [([1.0, 2.0, 3.0], {"x": rows})]) for rows in (ROWS, MORE)]
    plain = accumulated(one, chains)
    learner = Learner(
        {"x": two}, MAGRPO, LearnerOptions(learning_rate=0.0, updates_per_batch=2)
    )  # the rate of 0 keeps the weights, so that the last gradient is the first one again
    learner.accumulate(chains)
    torch.testing.assert_close(two.model.bias.grad, plain)


class Referenced(TinyPolicy):
    """A policy that keeps a reference, and gives `padding` where no token was sampled."""

    padding = 0.0

    def keep_reference(self) -> None:
        self.reference = self.model.bias.detach().clone()

    def log_probs(self, prompt: str, completions: Any) -> Any:
        found, mask = super().log_probs(prompt, completions)
        return torch.where(mask > 0, found, self.padding), mask

    def reference_log_probs(self, prompt: str, completions: Any) -> Any:
        with torch.no_grad():
            kept, self.model.bias.data = self.model.bias.data, self.reference
            found, mask = self.log_probs(prompt, completions)
            self.model.bias.data = kept
        return found + self.padding * (1 - mask), mask


@pytest.mark.parametrize("options", [{}, {"updates_per_batch": 2}, {"kl_coefficient": 0.5}])
@pytest.mark.parametrize("loss", ["sequence_sum", "token_mean"])
def test_what_stands_on_padding_changes_nothing(
    make_policy: Any, make_chain: Any, options: Any, loss: str
) -> None:
    metrics = []
    weights_after = []
    for padding in (0.0, -3.0):
        tiny = make_policy("unigram")
        policy = Referenced(tiny.model, tiny.alphabet, tiny.max_tokens)
        policy.padding = padding
        chain = make_chain(policy, [([1.0, 0.0, 0.0], {"x": ROWS})])
        metrics.append(learn(policy, [chain], 2, loss=loss, **options))
        weights_after.append(weights(policy))
    assert metrics[0] == pytest.approx(metrics[1])
    torch.testing.assert_close(*weights_after)


def test_the_reference_pulls_back_and_is_reported(make_policy: Any, make_chain: Any) -> None:
    def distance(coefficient: float) -> float:
        tiny = make_policy("unigram")
        policy = Referenced(tiny.model, tiny.alphabet, tiny.max_tokens)
        chain = make_chain(policy, [([1.0, 0.0, 0.0], {"x": ROWS})])
        start = policy.model.bias.detach().clone()
        metrics = learn(policy, [chain], 30, kl_coefficient=coefficient)
        assert (metrics["kl/x"] > 0) == (coefficient > 0)
        return float((policy.model.bias.detach() - start).norm())

    assert distance(2.0) < 0.7 * distance(0.0)


def test_policies_without_a_reference_are_refused_by_name(make_policy: Any) -> None:
    with pytest.raises(TypeError, match=r"'x' is a TinyPolicy; set kl_coefficient=0"):
        Learner({"x": make_policy()}, MAGRPO, LearnerOptions(learning_rate=0.1, kl_coefficient=0.1))


def test_the_learning_rate_follows_its_schedule_and_survives_a_resume(
    make_policy: Any, make_chain: Any
) -> None:
    options = LearnerOptions(learning_rate=0.4, lr_schedule="linear", total_updates=4)
    policy = make_policy("unigram")
    chain = make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])
    learner = Learner({"x": policy}, MAGRPO, options)
    rates = [learner.update([chain])["learning_rate"] for _ in range(2)]
    again = Learner({"x": policy}, MAGRPO, options)
    again.load_state_dict(learner.state_dict())
    rates += [again.update([chain])["learning_rate"] for _ in range(2)]
    assert rates == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_the_entropy_estimate_is_the_entropy_of_a_uniform_policy(
    policy: Any, make_chain: Any
) -> None:
    policy.model.bias.data.zero_()
    metrics = learn(policy, [make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])])
    assert metrics["entropy/x"] == pytest.approx(math.log(3), rel=1e-6)


def test_the_mismatch_is_the_distance_from_what_the_sampler_told(
    policy: Any, make_chain: Any
) -> None:
    chain = make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])
    assert learn(policy, [chain])["mismatch/x"] == 0.0  # the sampler told nothing
    (group,) = chain.groups
    log_probs = policy.log_probs(group.prompts["x"], group.completions["x"])[0].detach()
    told = [
        replace(one, log_probs=tuple(float(value) + 0.25 for value in row[: len(one.tokens)]))
        for one, row in zip(group.completions["x"], log_probs, strict=True)
    ]
    told[0] = replace(told[0], log_probs=())
    half = replace(chain, groups=(replace(group, completions={"x": tuple(told)}),))
    assert learn(policy, [half])["mismatch/x"] == pytest.approx(0.25, rel=1e-5)


def test_returns_that_nothing_is_taken_from_are_not_normalised_without_bounds(policy: Any) -> None:
    options = LearnerOptions(learning_rate=0.1, normalize_advantages=True)
    with pytest.raises(ValueError, match="mareinforce does not center the returns"):
        Learner({"x": policy}, ALGORITHMS["mareinforce"], options)
    Learner({"x": policy}, ALGORITHMS["mareinforce"], replace(options, max_grad_norm=1.0))
    Learner({"x": policy}, ALGORITHMS["maremax"], options)
