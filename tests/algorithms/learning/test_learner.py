from __future__ import annotations

from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from tests.algorithms.steps import END, GRPO, MAGRPO, MORE, ROWS, A, B, accumulated, weights


@pytest.fixture
def policy(make_policy: Any) -> Any:
    return make_policy("unigram")


def test_equal_rewards_change_no_weight_even_with_momentum_and_decay(
    policy: Any, make_chain: Any
) -> None:
    learner = Learner({"x": policy}, GRPO, LearnerOptions(learning_rate=0.1, weight_decay=0.5))
    learner.update([make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])])
    before = weights(policy)
    metrics = learner.update([make_chain(policy, [([0.1, 0.1, 0.1], {"x": ROWS})])])
    assert torch.equal(weights(policy), before)
    assert metrics["groups_without_signal"] == metrics["groups"] == 1
    assert metrics["loss/x"] == metrics["grad_norm/x"] == metrics["completion_tokens"] == 0


def test_a_gradient_of_zero_changes_no_weight_even_with_momentum_and_decay(
    policy: Any, make_chain: Any
) -> None:
    options = LearnerOptions(learning_rate=0.1, weight_decay=0.5, truncated="mask")
    learner = Learner({"x": policy}, GRPO, options)
    learner.update([make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])])
    before = weights(policy)
    cut = [[A, A, A], [A, B, A], [B, B, B]]  # none has an end, so that none is trained
    metrics = learner.update([make_chain(policy, [([1.0, 2.0, 3.0], {"x": cut})])])
    assert metrics["groups_without_signal"] == metrics["grad_norm/x"] == 0
    assert torch.equal(weights(policy), before)


def test_an_update_makes_the_better_completion_likelier(policy: Any, make_chain: Any) -> None:
    learner = Learner({"x": policy}, GRPO, LearnerOptions(learning_rate=0.1))
    chain = make_chain(policy, [([1.0, 0.0], {"x": [[A, END], [B, END]]})])
    before = weights(policy)
    metrics = learner.update([chain])
    change = weights(policy) - before
    assert change[A] > 0 > change[B]
    assert metrics["completion_tokens"] == 4
    assert learner.updates == 1


def test_the_gradient_is_the_mean_over_all_groups(policy: Any, make_chain: Any) -> None:
    first = make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])
    second = make_chain(policy, [([3.0, 0.0, 1.0], {"x": MORE})])
    silent = make_chain(policy, [([2.0, 2.0, 2.0], {"x": MORE})])
    expected = (accumulated(policy, [first]) + accumulated(policy, [second])) / 3
    torch.testing.assert_close(accumulated(policy, [first, silent, second]), expected)


def test_turn_weights_scale_the_turns(policy: Any, make_chain: Any) -> None:
    turns = [([1.0, 2.0, 3.0], {"x": ROWS}), ([3.0, 0.0, 1.0], {"x": MORE})]
    one, two = (accumulated(policy, [make_chain(policy, [turn])]) for turn in turns)
    both = accumulated(policy, [make_chain(policy, turns)], turn_gradient_weights=(1.5, 0.5))
    torch.testing.assert_close(both, 1.5 * one + 0.5 * two)
    only = accumulated(policy, [make_chain(policy, turns)], turn_gradient_weights=(0.0, 1.0))
    torch.testing.assert_close(only, two)


def test_a_start_weighs_the_same_however_many_turns_the_others_take(
    policy: Any, make_chain: Any
) -> None:
    short = make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])
    long = make_chain(policy, [([0.0, 2.0, 1.0], {"x": ROWS}), ([3.0, 0.0, 1.0], {"x": MORE})])
    expected = (accumulated(policy, [short]) + accumulated(policy, [long])) / 2
    torch.testing.assert_close(accumulated(policy, [short, long]), expected)


def test_the_early_termination_weight_scales_the_last_turn_of_a_stopped_chain(
    policy: Any, make_chain: Any
) -> None:
    turns = [([1.0, 2.0, 3.0], {"x": ROWS}), ([3.0, 0.0, 1.0], {"x": MORE})]
    one, two = (accumulated(policy, [make_chain(policy, [turn])]) for turn in turns)
    stopped = make_chain(policy, turns, stopped_early=True)
    options = {"turn_gradient_weights": (1.0, 0.5, 9.0), "early_termination_weight": 4.0}
    torch.testing.assert_close(accumulated(policy, [stopped], **options), one + 2.0 * two)
    finished = make_chain(policy, turns)
    torch.testing.assert_close(accumulated(policy, [finished], **options), one + 0.5 * two)


def test_a_shared_policy_has_one_optimizer_and_accumulates_all_losses(
    policy: Any, make_chain: Any
) -> None:
    rewards = [1.0, 2.0, 3.0]
    x = accumulated(policy, [make_chain(policy, [(rewards, {"x": ROWS})])])
    y = accumulated(policy, [make_chain(policy, [(rewards, {"x": MORE})])])
    both = make_chain(policy, [(rewards, {"x": ROWS, "y": MORE})])
    team = {"x": policy, "y": policy}
    torch.testing.assert_close(accumulated(policy, [both], team), x + y)

    learner = Learner(team, MAGRPO, LearnerOptions(learning_rate=0.1))
    metrics = learner.update([both])
    assert set(learner.state_dict()["optimizers"]) == {"x+y"}
    assert metrics["grad_norm/x+y"] == pytest.approx(float((x + y).norm()), rel=1e-5)
    assert {"loss/x", "loss/y"} <= set(metrics)


def test_partners_that_cannot_or_may_not_be_trained_stay_as_they_are(
    policy: Any, make_policy: Any, make_chain: Any
) -> None:
    frozen = make_policy("unigram")
    frozen.model.requires_grad_(False)

    class Scripted:
        def generate(self, prompts: Any, num_samples: int = 1) -> Any: ...
        def act(self, prompt: str) -> str: ...  # type: ignore[empty-body]

    team = {"x": policy, "y": frozen, "z": Scripted()}
    learner = Learner(team, MAGRPO, LearnerOptions(learning_rate=0.1))
    before = weights(policy), weights(frozen)
    rows = {"x": ROWS, "y": ROWS, "z": ROWS}
    metrics = learner.update([make_chain(policy, [([1.0, 2.0, 3.0], rows)])])
    assert not torch.equal(weights(policy), before[0])
    assert torch.equal(weights(frozen), before[1])
    assert list(learner.policies) == ["x"] and "loss/y" not in metrics


@pytest.mark.parametrize("fault", ["reward", "weight", "gradient"])
def test_a_loss_or_gradient_that_is_not_finite_stops_before_any_step(
    policy: Any, make_policy: Any, make_chain: Any, fault: str
) -> None:
    other = make_policy("unigram")
    learner = Learner({"x": other, "y": policy}, MAGRPO, LearnerOptions(learning_rate=0.1))
    before = weights(other)
    reward = float("inf") if fault == "reward" else 3.0
    chain = make_chain(policy, [([1.0, 2.0, reward], {"x": ROWS, "y": ROWS})])
    if fault == "weight":
        policy.model.bias.data[A] = float("nan")
    if fault == "gradient":
        policy.model.bias.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(FloatingPointError, match=r"update 1: .*task_id='task/7'"):
        learner.update([chain])
    assert torch.equal(weights(other), before)
    assert learner.updates == 0 and other.model.bias.grad is None


def test_a_long_gradient_is_shortened_and_reported_in_full(policy: Any, make_chain: Any) -> None:
    chain = make_chain(policy, [([1.0, 2.0, 30.0], {"x": ROWS})])
    full = accumulated(policy, [chain])
    learner = Learner({"x": policy}, GRPO, LearnerOptions(learning_rate=0.1, max_grad_norm=0.5))
    metrics = learner.accumulate([chain])
    assert metrics["grad_norm/x"] == pytest.approx(float(full.norm()), rel=1e-5)
    torch.testing.assert_close(policy.model.bias.grad, full * 0.5 / full.norm())


def test_grpo_with_a_team_names_magrpo(make_policy: Any) -> None:
    with pytest.raises(ValueError, match=r"the team has 2: .*use magrpo, "):
        Learner({"x": make_policy(), "y": make_policy()}, GRPO, LearnerOptions(learning_rate=0.1))


def test_a_team_without_a_trainable_policy_is_refused(policy: Any) -> None:
    policy.model.requires_grad_(False)
    with pytest.raises(ValueError, match="no policy of the team can be trained"):
        Learner({"x": policy}, GRPO, LearnerOptions(learning_rate=0.1))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be above 0"),
        ({"turn_gradient_weights": (1.0, -1.0)}, "turn_gradient_weights"),
        ({"early_termination_weight": -2.0}, "early_termination_weight"),
        ({"loss": "token_meen"}, "did you mean 'token_mean'"),
        ({"loss": "fixed_length"}, "needs fixed_length"),
        ({"lr_schedule": "cosine"}, "needs total_updates"),
        ({"truncated": "penalise"}, "need each other"),
        ({"truncation_penalty": 0.1}, "truncation_penalty=0.1 means nothing with truncated=train"),
        ({"discount": 1.1}, "discount must be at most 1, got 1.1"),
        ({"clip_range": 1.0}, "clip_range must be below 1, got 1.0"),
        ({"updates_per_batch": 0}, "updates_per_batch must be at least 1"),
        ({"kl_coefficient": float("inf")}, "kl_coefficient"),
    ],
)
def test_bad_options_are_named(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        LearnerOptions(**{"learning_rate": 0.1, **options})


def test_too_few_turn_weights_are_an_error(policy: Any, make_chain: Any) -> None:
    turns = [([1.0, 2.0, 3.0], {"x": ROWS})] * 2
    with pytest.raises(ValueError, match="each of num_turns=2 turns, got"):
        accumulated(policy, [make_chain(policy, turns)], turn_gradient_weights=(1.0,))


def test_a_state_of_other_policies_is_refused(make_policy: Any) -> None:
    options = LearnerOptions(learning_rate=0.1)
    state = Learner({"x": make_policy()}, MAGRPO, options).state_dict()
    with pytest.raises(ValueError, match="state is of the policies"):
        Learner({"y": make_policy()}, MAGRPO, options).load_state_dict(state)


@pytest.mark.parametrize("name", ["magrpo", "marloo", "maremax", "mareinforce"])
def test_one_word_swaps_the_algorithm_and_the_gradient(
    policy: Any, make_chain: Any, name: str
) -> None:
    rewards = [0.1, 0.9, 0.5]
    learner = Learner({"x": policy}, ALGORITHMS[name], LearnerOptions(learning_rate=0.1))
    learner.accumulate([make_chain(policy, [(rewards, {"x": ROWS})])])
    gains = {
        "magrpo": [-0.4, 0.4, 0.0],
        "marloo": [-0.6, 0.6, 0.0],
        "maremax": [-0.8, 0.0, -0.4],
        "mareinforce": rewards,
    }[name]
    twin = policy.model.bias.detach().clone().requires_grad_()
    logs = twin.log_softmax(0)
    loss = -sum(gain * logs[row].sum() for gain, row in zip(gains, ROWS, strict=True)) / 3
    expected = torch.autograd.grad(loss, twin)[0]
    torch.testing.assert_close(policy.model.bias.grad, expected)
