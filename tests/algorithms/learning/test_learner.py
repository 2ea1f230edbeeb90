from __future__ import annotations

import copy
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp import Completion, make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.agents.inference.determinism import deterministic
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning import learner as learning
from llm_decpomdp.algorithms.learning.advantages import group_advantages
from llm_decpomdp.algorithms.learning.base_learner import PolicyOptimizer, learning_rate_factor
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions, TruncationOptions
from llm_decpomdp.algorithms.learning.passes import fill_passes, group_by_prompt
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.envs.probes.known import PROBES
from tests.algorithms.conftest import TinyPolicy
from tests.algorithms.steps import END, GRPO, MAGRPO, MORE, ROWS, A, B, accumulated, learn, weights


@pytest.fixture
def policy(make_policy: Any) -> Any:
    return make_policy("unigram")


def test_equal_rewards_change_nothing_even_with_momentum(policy: Any, make_chain: Any) -> None:
    learner = Learner({"x": policy}, GRPO, LearnerOptions(learning_rate=0.1, weight_decay=0.5))
    learner.update([make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])])
    before = weights(policy)
    metrics = learner.update([make_chain(policy, [([0.1, 0.1, 0.1], {"x": ROWS})])])
    assert torch.equal(weights(policy), before)
    assert metrics["groups_without_signal"] == metrics["groups"] == 1
    assert metrics["loss/x"] == metrics["grad_norm/x"] == metrics["completion_tokens"] == 0


def test_zero_gradients_change_nothing_even_with_momentum(policy: Any, make_chain: Any) -> None:
    options = LearnerOptions(learning_rate=0.1, weight_decay=0.5, truncation="mask")
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


def test_starts_weigh_the_same_with_any_number_of_turns(policy: Any, make_chain: Any) -> None:
    short = make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])
    long = make_chain(policy, [([0.0, 2.0, 1.0], {"x": ROWS}), ([3.0, 0.0, 1.0], {"x": MORE})])
    expected = (accumulated(policy, [short]) + accumulated(policy, [long])) / 2
    torch.testing.assert_close(accumulated(policy, [short, long]), expected)


def test_early_termination_weight_scales_the_last_turn(policy: Any, make_chain: Any) -> None:
    turns = [([1.0, 2.0, 3.0], {"x": ROWS}), ([3.0, 0.0, 1.0], {"x": MORE})]
    one, two = (accumulated(policy, [make_chain(policy, [turn])]) for turn in turns)
    stopped = make_chain(policy, turns, stopped_early=True)
    options = {"turn_gradient_weights": (1.0, 0.5, 9.0), "early_termination_weight": 4.0}
    torch.testing.assert_close(accumulated(policy, [stopped], **options), one + 2.0 * two)
    finished = make_chain(policy, turns)
    torch.testing.assert_close(accumulated(policy, [finished], **options), one + 0.5 * two)


def test_a_shared_policy_has_one_optimizer_for_all_losses(policy: Any, make_chain: Any) -> None:
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


def test_policies_on_two_devices_learn_at_the_same_time_and_the_same(
    make_policy: Any, make_chain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = {name: make_policy("unigram") for name in "xy"}
    chain = make_chain(team["x"], [([1.0, 2.0, 3.0], {"x": ROWS, "y": MORE})])
    learner = Learner(team, MAGRPO, LearnerOptions(learning_rate=0.1))
    expected = learner.accumulate([chain])
    gradients = [policy.model.bias.grad.clone() for policy in team.values()]
    both = threading.Barrier(2)
    for name, policy in team.items():
        policy.device = name
        log_probs = policy.log_probs

        def wait(*args: Any, log_probs: Any = log_probs) -> Any:
            both.wait(60)
            return log_probs(*args)

        monkeypatch.setattr(policy, "log_probs", wait)
    monkeypatch.setattr(learning, "_device", lambda policy: policy.device)
    assert learner.accumulate([chain]) == expected
    for policy, gradient in zip(team.values(), gradients, strict=True):
        assert torch.equal(policy.model.bias.grad, gradient)


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
        ({"early_termination_weight": -2.0}, "early_termination_weight"),
        ({"loss": "token_meen"}, "did you mean 'token_mean'"),
        ({"loss": "fixed_length"}, "needs fixed_length"),
        ({"lr_schedule": "cosine"}, "needs total_updates"),
        ({"truncation": "penalise"}, "need each other"),
        (
            {"truncation": {"overlong_penalty": 0.1}},
            "truncation: overlong_penalty=0.1 means nothing with mode=train",
        ),
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
def test_one_word_swaps_algorithm_and_gradient(policy: Any, make_chain: Any, name: str) -> None:
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


def test_losses_weigh_tokens_as_they_say(policy: Any, make_chain: Any) -> None:
    # One token against three: the sums of sequences, over tokens (4) or over a fixed length (5).
    chain = make_chain(policy, [([1.0, 0.0], {"x": [[END], [B, B, B]]})])
    whole = accumulated(policy, [chain])
    torch.testing.assert_close(accumulated(policy, [chain], loss="token_mean"), whole * 2 / 4)
    fixed = accumulated(policy, [chain], loss="fixed_length", fixed_length=5)
    torch.testing.assert_close(fixed, whole / 5)


def test_masked_completions_are_compared_and_not_trained(policy: Any, make_chain: Any) -> None:
    rows = [[A, END], [B, B, B]]  # the second has no end
    chain = make_chain(policy, [([1.0, 0.0], {"x": rows})])
    log_probs, mask = policy.log_probs("a", chain.groups[0].completions["x"])
    expected = torch.autograd.grad(-0.5 * (log_probs * mask)[0].sum() / 2, policy.model.bias)[0]
    torch.testing.assert_close(accumulated(policy, [chain], truncation="mask"), expected)


def test_penalised_truncation_favours_short_completions(policy: Any, make_chain: Any) -> None:
    chain = make_chain(policy, [([1.0, 1.0], {"x": [[A, END], [A, A, A]]})])
    before = weights(policy)
    learn(policy, [chain], truncation={"mode": "penalise", "overlong_penalty": 0.5})
    assert weights(policy)[END] > before[END]


def penalise(overlong_buffer_len: int, overlong_penalty: float = 1.0) -> LearnerOptions:
    soft = TruncationOptions("penalise", overlong_penalty, overlong_buffer_len)
    return LearnerOptions(learning_rate=0.1, truncation=soft)


def test_the_soft_penalty_grows_over_the_last_tokens(policy: Any, make_chain: Any) -> None:
    rows = [[END], [A, END], [A, A, END], [A, A, A, END], [A, A, A, A]]  # the last is cut off

    def values(limit: int, tokens: int = 2) -> list[float]:
        chain = make_chain(policy, [([1.0] * 5, {"x": rows})])
        chosen, algorithm = penalise(tokens, 2.0), ALGORITHMS["mareinforce"]
        (credit,) = group_advantages([chain], ["x"], algorithm, chosen, limits={"x": limit})
        found: list[float] = credit.advantages["x"].tolist()
        return found

    assert values(4) == [1.0, 1.0, 0.0, -1.0, -1.0]
    assert values(4, 4) == [0.5, 0.0, -0.5, -1.0, -1.0]
    assert values(4, 0) == [1.0, 1.0, 1.0, 1.0, -1.0]


def test_the_soft_penalty_needs_limits_and_room_below_them(policy: Any, make_chain: Any) -> None:
    with pytest.raises(TypeError, match=r"that of 'x' is a TinyPolicy; set overlong_buffer_len=0"):
        Learner({"x": policy}, MAGRPO, penalise(1))
    policy.max_new_tokens = 3
    Learner({"x": policy}, MAGRPO, penalise(3))
    with pytest.raises(
        ValueError, match="overlong_buffer_len=4 is more than max_new_tokens=3 of 'x'"
    ):
        Learner({"x": policy}, MAGRPO, penalise(4))
    chain = make_chain(policy, [([1.0], {"x": [[A]]})])
    options = penalise(1)
    with pytest.raises(
        ValueError, match="overlong_buffer_len=1 needs the token limit of each agent"
    ):
        list(group_advantages([chain], ["x"], MAGRPO, options))


def test_second_steps_are_clipped_outside_of_the_range(make_policy: Any, make_chain: Any) -> None:
    policy, free = make_policy("unigram"), make_policy("unigram")
    chain = make_chain(policy, [([1.0, 0.0], {"x": [[A], [B]]})])
    slow = {"learning_rate": 0.01}
    metrics = learn(policy, [chain], num_iterations=100, objective={"clip_range": 0.05}, **slow)
    assert metrics["clip_fraction/x"] == 1.0 and metrics["grad_norm/x"] == 0.0
    learn(free, [chain], updates=100, **slow)
    ratios = [
        (tiny.model.bias.log_softmax(0) - make_policy("unigram").model.bias.log_softmax(0))[A].exp()
        for tiny in (policy, free)
    ]
    assert ratios[0] < 1.3 < ratios[1]


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


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda found, mask: found, "got a Tensor"),
        (lambda found, mask: (found[:, 0], mask[:, 0]), r"got the shapes \[\(3,\), \(3,\)\]"),
        (lambda found, mask: (found[:1], mask[:1]), r"got the shapes \[\(1, 3\), \(1, 3\)\]"),
        (lambda found, mask: (found.detach(), mask), "got log-probabilities without a gradient"),
    ],
)
def test_log_probs_of_another_kind_are_named(
    make_policy: Any, make_chain: Any, change: Any, match: str
) -> None:
    class Wrong(TinyPolicy):
        def log_probs(self, prompt: str, completions: Any) -> Any:
            return change(*super().log_probs(prompt, completions))

    tiny = make_policy("unigram")
    policy = Wrong(tiny.model, tiny.alphabet, tiny.max_tokens)
    chain = make_chain(policy, [([1.0, 0.0, 0.0], {"x": ROWS})])
    wanted = rf"of 'x' must return .* of shape \(3, T\) for 3 completions; {match}"
    with pytest.raises(TypeError, match=wanted):
        learn(policy, [chain])


@pytest.mark.parametrize("options", [{}, {"num_iterations": 2}, {"kl": {"coefficient": 0.5}}])
@pytest.mark.parametrize("loss", ["sequence_sum", "token_mean"])
def test_padding_is_not_read(make_policy: Any, make_chain: Any, options: Any, loss: str) -> None:
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
        metrics = learn(policy, [chain], 30, kl={"coefficient": coefficient})
        assert (metrics["kl/x"] > 0) == (coefficient > 0)
        return float((policy.model.bias.detach() - start).norm())

    assert distance(2.0) < 0.7 * distance(0.0)


def test_policies_without_a_reference_are_refused_by_name(make_policy: Any) -> None:
    with pytest.raises(TypeError, match=r"'x' is a TinyPolicy; set kl\.coefficient=0"):
        Learner(
            {"x": make_policy()}, MAGRPO, LearnerOptions(learning_rate=0.1, kl={"coefficient": 0.1})
        )


def test_learning_rate_schedules_survive_a_resume(make_policy: Any, make_chain: Any) -> None:
    options = LearnerOptions(learning_rate=0.4, lr_schedule="linear", total_updates=4)
    policy = make_policy("unigram")
    chain = make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])
    learner = Learner({"x": policy}, MAGRPO, options)
    rates = [learner.update([chain])["learning_rate"] for _ in range(2)]
    again = Learner({"x": policy}, MAGRPO, options)
    again.load_state_dict(learner.state_dict())
    rates += [again.update([chain])["learning_rate"] for _ in range(2)]
    assert rates == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_the_entropy_estimate_is_that_of_a_uniform_policy(policy: Any, make_chain: Any) -> None:
    policy.model.bias.data.zero_()
    metrics = learn(policy, [make_chain(policy, [([1.0, 2.0, 3.0], {"x": ROWS})])])
    assert metrics["entropy/x"] == pytest.approx(math.log(3), rel=1e-6)


def test_the_mismatch_is_the_distance_from_the_sampler(policy: Any, make_chain: Any) -> None:
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
    for change in ({"max_grad_norm": 1.0}, {"normalize_advantages": "role"}):
        Learner({"x": policy}, ALGORITHMS["mareinforce"], replace(options, **change))
    Learner({"x": policy}, ALGORITHMS["maremax"], options)


PROBE = "probe-turns-v0"
EPISODES = 6


def team() -> dict[str, Any]:
    agents = make(PROBE).possible_agents
    sampling = Sampling(max_new_tokens=2)
    return {
        agent: tiny_causal_lm(PROBES[PROBE].letters, sampling, seed=seed)
        for seed, agent in enumerate(agents)
    }


def episodes(policies: Any) -> list[Rollout]:
    env = make(PROBE)
    starts = [Start(task_id=env.tasks.tasks[0].task_id)] * 2
    options, rng = RolloutOptions(mode="episodes"), np.random.default_rng(0)
    return collect_rollouts(env, policies, starts, options, group_size=EPISODES, rng=rng)


def learn_episodes(**options: Any) -> tuple[dict[str, float], list[torch.Tensor], int]:
    """Metrics and gradients of an update with whole episodes, and the number of passes."""
    policies = team()
    rollouts = episodes(policies)
    number = 0
    for policy in policies.values():
        score = policy.engine.log_probs_of_prompts

        def count(*args: Any, score: Any = score) -> Any:
            nonlocal number
            number += 1
            return score(*args)

        policy.engine.log_probs_of_prompts = count
    learner = Learner(policies, ALGORITHMS["magrpo"], LearnerOptions(learning_rate=1e-3, **options))
    with torch.no_grad():  # away from the reference, and from what has sampled
        generator = torch.Generator().manual_seed(0)
        for policy in policies.values():
            for weight in policy.parameters():
                weight += 0.1 * torch.randn(weight.shape, generator=generator)
    metrics = learner.accumulate(rollouts)
    gradients = [p.grad.clone() for policy in policies.values() for p in policy.parameters()]
    return metrics, gradients, number


LOSSES: dict[str, dict[str, Any]] = {
    "plain": {},
    "reference": {"loss": "token_mean", "kl": {"coefficient": 0.1}},
    "steps": {"num_iterations": 2, "truncation": "mask", "importance_sampling": "truncate"},
    "sequences": {"num_iterations": 2, "objective": "gspo", "normalize_advantages": "role"},
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tokens", [40, 10_000])
def test_passes_of_several_prompts_teach_what_those_of_one_do(loss: str, tokens: int) -> None:
    metrics, gradients, passes = learn_episodes(tokens_per_pass=tokens, **LOSSES[loss])
    alone, expected, more_passes = learn_episodes(**LOSSES[loss])
    assert passes < more_passes
    if tokens == 10_000:  # one pass for each of two agents and steps, and the reference once more
        steps = LOSSES[loss].get("num_iterations", 1)
        assert passes == 2 * steps * (1 + ("kl" in LOSSES[loss]))
    assert metrics == pytest.approx(alone, rel=1e-4, abs=1e-6)
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-6)


def test_agents_of_one_policy_share_its_passes() -> None:
    policies = team()
    (shared, _) = policies.values()
    items: Any = [Item("x", "ab", 2), Item("y", "abc", 1), Item("x", "b", 1), Item("z", "b", 1)]
    for item in items:
        item.completions = [Completion("a", (1, 2))] * len(item.completions)
    agents: Any = {"x": shared, "y": shared, "z": object()}
    lengths = [shared.count_tokens(item.prompt, item.completions) for item in items[:3]]

    def divided(tokens: int) -> list[list[Any]]:
        return fill_passes([[item] for item in items], agents, tokens)

    assert divided(sum(lengths)) == [items[:3], items[3:]]
    assert divided(sum(lengths) - 1) == [items[:2], items[2:3], items[3:]]
    assert divided(1) == [[item] for item in items]


def test_several_prompts_in_a_pass_without_effect_are_refused(policy: Any) -> None:
    options = LearnerOptions(learning_rate=0.1, tokens_per_pass=100)
    with pytest.raises(TypeError, match=r"tokens_per_pass=100 needs policies .*=null"):
        Learner({"x": policy}, GRPO, options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "token_mean", "kl": {"coefficient": 0.1}},
        {"num_iterations": 2, "truncation": "mask", "importance_sampling": "truncate"},
    ],
    ids=["plain", "reference", "steps"],
)
def test_shared_passes_give_equal_gradients(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, gradients, passes = learn_episodes(**options)
    monkeypatch.setattr(learning, "group_by_prompt", lambda items: [[item] for item in items])
    alone, expected, more_passes = learn_episodes(**options)
    assert passes < more_passes / 2
    if "kl" in options:
        assert metrics["kl/player_0"] > 0.01
    if "importance_sampling" in options:
        assert metrics["ess/player_0"] < 0.99
    assert metrics.keys() == alone.keys() and any(metrics[f"loss/{agent}"] for agent in team())
    assert metrics == pytest.approx(alone, rel=1e-4, abs=1e-6)
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-6)


class Item:
    """The parts of a loss item that decide on passes."""

    def __init__(self, agent: str, prompt: str, size: int) -> None:
        self.agent, self.prompt, self.completions = agent, prompt, [Completion("a")] * size


def sizes(items: Sequence[Any]) -> list[tuple[str, str, list[int]]]:
    return [
        (one[0].agent, one[0].prompt, [len(item.completions) for item in one])
        for one in group_by_prompt(items)
    ]


def test_passes_have_one_agent_one_prompt_and_no_more_characters_than_its_largest_group() -> None:
    items = [
        *[Item("x", "p", 3), Item("y", "p", 2), *[Item("x", "q", 1)] * 4],
        *[Item("y", "p", 1), *[Item("x", "longer", 1)] * 2, Item("y", "p", 1)],
    ]
    assert sizes(items) == [
        ("x", "p", [3]),
        ("y", "p", [2]),
        ("x", "q", [1, 1, 1]),
        ("x", "q", [1]),
        ("y", "p", [1, 1]),
        ("x", "longer", [1]),
        ("x", "longer", [1]),
    ]
    assert group_by_prompt([]) == []


def parameter(*shape: int, dtype: torch.dtype = torch.float32) -> torch.nn.Parameter:
    generator = torch.Generator().manual_seed(0)
    return torch.nn.Parameter((0.02 * torch.randn(*shape, generator=generator)).to(dtype))


def test_fused_steps_are_the_plain_ones_up_to_rounding_and_deterministic() -> None:
    shapes, steps = ((100, 50), (50,)), 5
    weights: dict[bool, list[torch.nn.Parameter]] = {}
    for fused in (False, True):
        weights[fused] = [parameter(*shape) for shape in shapes]
        weights[fused].append(parameter(30, 20, dtype=torch.bfloat16))
        optimizer = PolicyOptimizer(weights[fused], 1e-2, 0.1, fused)
        generator = torch.Generator().manual_seed(1)
        with deterministic():
            for _ in range(steps):
                for weight in weights[fused]:
                    gradient = torch.randn(weight.shape, generator=generator)
                    weight.grad = gradient.to(weight.dtype)
                optimizer.step()
    for plain, found, start in zip(weights[False], weights[True], shapes, strict=False):
        torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-7)
        assert (found - parameter(*start)).abs().max() > 1e-2
    torch.testing.assert_close(weights[True][2], weights[False][2], rtol=1e-2, atol=1e-4)


def test_a_learner_takes_the_fused_steps(policy: Any) -> None:
    for fused in (False, True):
        options = LearnerOptions(learning_rate=0.1, fused_adamw=fused)
        (optimizer,) = Learner({"x": policy}, GRPO, options)._optimizers.values()
        assert bool(optimizer._adamw.defaults["fused"]) == fused


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
