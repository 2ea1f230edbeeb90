"""The critic in the learner: on chains of the two-agent environment that rewards the letter `a`."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.critics.critic import ChainTurn, Critic, lambda_targets
from llm_decpomdp.algorithms.critics.head import ValueHead, explained_variance
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.critics.states import Exchange, critic_text, history
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions, check_credit
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions, TrainerOptions
from llm_decpomdp.algorithms.rollouts.views import View
from studies.hypotheses.training import Noise
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.critics.readers import HashedParts, reading_team
from tests.algorithms.runs import BATCHES, Run, build, make_team, require_equal

STARTS = [Start(seed=n) for n in range(8)]


class StateEnv(EchoEnv):
    """The same, with a state that nobody is told."""

    def state(self) -> str:
        return f"secret of turn {self.turn}"


def chains(env: Any = None, *, turns: int = 2, seed: int = 0, **options: Any) -> list[Rollout]:
    rng = np.random.default_rng(seed)
    settings = {"group_size": 4, "rng": rng, "views": True, **options}
    return collect_rollouts(env or StateEnv(turns), make_team(), STARTS, **settings)


def learner(features: Any = None, **options: Any) -> Learner:
    settings = {"learning_rate": 0.05, **options}
    return Learner(make_team(), ALGORITHMS["magrpo"], LearnerOptions(**settings), features)


def weights(one: Learner) -> list[torch.Tensor]:
    return [p.detach() for policy in one.policies.values() for p in policy.parameters()]


def equal(one: Learner, other: Learner) -> bool:
    return all(map(torch.equal, weights(one), weights(other)))


@pytest.mark.parametrize("gate", [True, False])
def test_over_one_turn_the_critic_changes_no_bit(gate: bool) -> None:
    plain, with_critic = learner(), learner(HashedParts(), critic={"scope": "joint", "gate": gate})
    for seed in range(3):
        rollouts = chains(turns=1, seed=seed)
        plain.update(rollouts)
        metrics = with_critic.update(rollouts)
    assert equal(plain, with_critic)
    assert metrics["critic/cut_parts"] == 0 and "critic/loss" not in metrics


def test_views_take_no_random_numbers_and_change_no_rollout() -> None:
    plain, viewed = chains(views=False), chains()
    assert all(group.view is None and not group.views for one in plain for group in one.groups)
    bare = [
        replace(one, groups=tuple(replace(g, view=None, views=()) for g in one.groups))
        for one in viewed
    ]
    assert bare == plain


def test_a_random_critic_leaves_the_gate_closed_and_does_no_harm() -> None:
    plain, random = learner(), learner(Noise(0), critic={"scope": "joint", "learning_rate": 0.1})
    closed = 0
    for seed in range(12):
        rollouts = chains(seed=seed)
        plain.update(rollouts)
        before = weights(random)
        shut = copy.deepcopy(random)
        metrics = random.update(rollouts)
        if metrics["critic/gate"] == 0:
            closed += 1
            shut.critic = None  # one that never had a critic takes the same step, bit for bit
            shut.update(rollouts)
            assert equal(shut, random) and before
    assert closed >= 10


def test_a_critic_that_explains_the_future_adds_it_to_the_returns() -> None:
    features = HashedParts()
    options = CriticOptions(scope="joint", learning_rate=0.02, input="history")
    critic = Critic(options, {"team": features}, ["x", "y"], discount=0.5)
    for seed in range(30):
        outlooks, metrics = critic.assess(chains(seed=seed))
        critic.learn()
    assert metrics["critic/gate"] == 1 and metrics["turn_2/explained_variance"] > 0
    rollouts = chains(seed=99)
    outlooks, _ = critic.assess(rollouts)
    for outlook, rollout in zip(outlooks, rollouts, strict=True):
        for group, returns in zip(rollout.groups, outlook["x"], strict=True):
            future = returns - np.array(group.rewards)
            over = [view is None for view in group.views]
            assert all(future[over] == 0)
            assert all(future[np.logical_not(over)] != 0)
            assert group.turn == 0 or all(over)


def test_a_group_that_stopped_early_has_no_future_and_one_that_was_cut_off_has() -> None:
    stopped = chains(options=RolloutOptions(early_termination_threshold=-1.0))
    assert all(view is None for one in stopped for view in one.groups[0].views)

    class Limited(StateEnv):
        def step(self, actions: dict[str, str]) -> Any:
            prompts, rewards, _, _, infos = super().step(actions)
            every = dict.fromkeys
            return prompts, rewards, every(actions, False), every(actions, not self.agents), infos

    cut = chains(Limited(1))
    assert all(view is not None for one in cut for view in one.groups[0].views)
    assert all(len(one.groups) == 1 for one in cut)


def test_critics_read_the_state_and_all_histories_and_agents_neither() -> None:
    env, team, features = StateEnv(2), make_team(), HashedParts()
    rollouts = collect_rollouts(
        env, team, STARTS, group_size=4, rng=np.random.default_rng(0), views=True
    )
    learner(features, critic="joint").update(rollouts)
    assert all("secret of turn 1" in text for text in features.texts)
    assert any("[x answered in turn 1]" in t and "[y sees]" in t for t in features.texts)
    prompts = [p for policy in team.values() for batch in policy.batches for p in batch]
    assert prompts and not any("secret" in prompt for prompt in prompts)
    assert not any("secret" in str(group.prompts) for one in rollouts for group in one.groups)


def test_an_own_critic_reads_what_its_agent_read_and_wrote() -> None:
    features = HashedParts()
    learner(features, critic={"scope": "own", "input": "history"}).update(chains())
    assert any("[x " in text for text in features.texts)
    assert not any("[x " in text and "[y " in text for text in features.texts)


def test_each_part_of_a_text_is_cut_by_itself_and_counted() -> None:
    (rollout, *_) = chains()
    group = rollout.groups[0]
    view = group.views[0]
    assert view is not None
    view = view._replace(prompts={"x": "a" * 50, "y": "b" * 10})
    past = history(rollout, 0, 0)
    text, cut = critic_text("history", view, past, ["x", "y"], 25)
    assert cut == 1
    assert "a" * 10 + "\n...\n" + "a" * 10 + "\n\n[y sees]\n" + "b" * 10 in text
    only, _ = critic_text("prompts", view, past, ["x", "y"], 100)
    assert only == f"[x sees]\n{'a' * 50}\n\n[y sees]\n{'b' * 10}"
    # The state alone holds all other parts, and may be as long as they together: 1 + 4 + 2.
    long = view._replace(state="s" * 140)
    assert critic_text("state", long, past, ["x", "y"], 20)[0] == f"[state]\n{long.state}"
    assert critic_text("state", long, past, ["x", "y"], 18)[1] == 1


def test_what_a_state_has_word_for_word_is_not_read_twice_unless_it_may_be_chance() -> None:
    seen, written = "x reads this. " * 10, "y writes that. " * 10
    view = View(f"task 7\n{seen}\n{written}\nyes", {"x": seen, "y": "yes"})
    past = [Exchange({"x": seen, "y": "unknown " * 20}, {"x": "yes", "y": written})]
    text, _ = critic_text("history+state", view, past, ["x", "y"], 4000, {"x": written})
    assert text.count(seen) == 1
    for part in ("[y saw in turn 1]\nunknown", "[x answered in turn 1]\nyes", "[y sees]\nyes"):
        assert part in text
    assert text.count(written) == 2 and text.endswith(f"[x answers]\n{written}")
    # What the state lacks, as it was cut, is read.
    assert "[x sees]\nx reads" in critic_text("history+state", view, past, ["x", "y"], 145)[0]


def test_no_state_is_told_and_no_texts_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        learner(HashedParts(), critic="joint").update(chains(EchoEnv(2)))
    assert "histories alone" in caplog.text
    with pytest.raises(ValueError, match=r"critic.input=state, and the environment has none"):
        learner(HashedParts(), critic={"scope": "joint", "input": "state"}).update(
            chains(EchoEnv(2))
        )

    class Numbers(EchoEnv):
        def state(self) -> Any:
            return np.zeros(3)

    with pytest.raises(TypeError, match=r"state\(\) of Numbers returned a ndarray"):
        chains(Numbers(2))


def test_a_learner_with_a_critic_goes_on_exactly(tmp_path: Path) -> None:
    settings = {"critic": {"scope": "joint", "learning_rate": 0.05, "gate": False}}
    batches = [chains(seed=seed) for seed in range(8)]
    straight, first = learner(HashedParts(), **settings), learner(HashedParts(), **settings)
    plain = learner()
    for batch in batches:
        metrics = straight.update(batch)
        plain.update(batch)
    for batch in batches[:4]:
        first.update(batch)
    state = {
        "learner": first.state_dict(),
        "team": {n: p.state_dict() for n, p in first.policies.items()},
    }
    torch.save(state, tmp_path / "state.pt")
    stored = torch.load(tmp_path / "state.pt", weights_only=True)
    again = learner(HashedParts(), **settings)
    for name, policy in again.policies.items():
        policy.load_state_dict(stored["team"][name])
    again.load_state_dict(stored["learner"])
    for batch in batches[4:]:
        resumed = again.update(batch)
    assert equal(straight, again) and not equal(straight, plain)
    assert resumed == metrics and metrics["turn_2/explained_variance"] != 0


def test_processes_with_shares_of_a_batch_have_equal_critics() -> None:
    def critic(gather: Any) -> Critic:
        options = CriticOptions(scope="joint", learning_rate=0.05)
        return Critic(options, {"team": HashedParts()}, ["x", "y"], discount=1.0, gather=gather)

    shares: list[Any] = []

    def collect(items: Sequence[Any]) -> list[Any]:
        shares.append(list(items))
        return list(items)

    whole, alone = critic(list), critic(collect)
    for seed in range(3):
        rollouts = chains(seed=seed)
        whole.assess(rollouts)
        alone.assess(rollouts[:4])
        first = shares[-2]
        alone.assess(rollouts[4:])
        second = shares[-2]
        given = iter([first + second, [0]])
        alone._gather = lambda _, given=given: next(given)
        alone.assess(rollouts[4:])
        alone._gather = collect
        whole.learn()
        alone.learn()
    one, other = (c.state_dict()["heads"][0]["state"]["weight"] for c in (whole, alone))
    assert torch.equal(one, other) and one.any()


@pytest.mark.parametrize("plan", ["tree", "episodes"])
def test_plans_whose_returns_need_no_critic_refuse_one(plan: str) -> None:
    with pytest.raises(
        ValueError, match=rf"critic.scope=joint means nothing with rollout.mode={plan}"
    ):
        check_credit(TrainerOptions(mode=plan), LearnerOptions(critic="joint"))


@pytest.mark.parametrize("options", [{"td_lambda": 0.5}, {"gate": False}, {"input": "prompts"}])
def test_options_of_a_critic_mean_nothing_without_one(options: dict[str, Any]) -> None:
    message = f"section critic: {next(iter(options))}=.* means nothing with scope=none"
    with pytest.raises(ValueError, match=message):
        learner(critic=options)
    with pytest.raises(ValueError, match=message):
        LearnerOptions(critic={"scope": "none", **options})


def test_policies_without_features_are_refused_before_anything_is_sampled() -> None:
    with pytest.raises(TypeError, match=r"TinyPolicy has no features\(\)"):
        learner(critic="joint")


def test_the_trainer_records_views_only_for_a_critic() -> None:
    options = TrainerOptions()
    settings: dict[str, Any] = {"group_size": 2, "rng": np.random.default_rng(0)}
    (plain, *_) = collect_rollouts(StateEnv(2), make_team(), STARTS, options, **settings)
    (viewed, *_) = collect_rollouts(
        StateEnv(2), make_team(), STARTS, options, views=True, **settings
    )
    assert plain.groups[0].view is None and viewed.groups[0].view is not None


def test_a_run_with_a_critic_that_was_stopped_equals_one_that_was_not(tmp_path: Path) -> None:
    def trainer(folder: str, batches: Any) -> Run:
        return build(
            tmp_path / folder,
            batches,
            checkpoint_every=2,
            team=reading_team(),
            learner={"critic": {"scope": "joint", "gate": False}},
        )

    straight = trainer("straight", BATCHES)
    straight.run_updates()
    trainer("parts", BATCHES[:2]).run_updates()
    again = trainer("parts", BATCHES)
    assert again.resume() == 2
    again.run_updates()
    require_equal(straight, again)


DISCOUNT = 0.5


def single(reward: float, following: float) -> ChainTurn:
    return ChainTurn(np.array([reward]), np.array([following]), 0)


CHAIN = [single(1.0, 4.0), single(2.0, 6.0), single(3.0, 0.0)]
"""Three states, of which the later two are thought to be worth 4 and 6; the episode ends after the third."""


@pytest.mark.parametrize(
    ("trace", "targets"),
    [
        (0.0, [1 + 0.5 * 4, 2 + 0.5 * 6, 3]),
        (0.5, [1 + 0.5 * (0.5 * 4 + 0.5 * 4.25), 2 + 0.5 * (0.5 * 6 + 0.5 * 3), 3]),
        (1.0, [1 + 0.5 * 2 + 0.25 * 3, 2 + 0.5 * 3, 3]),
    ],
)
def test_targets_of_three_states_are_those_by_hand(trace: float, targets: list[float]) -> None:
    assert lambda_targets(CHAIN, DISCOUNT, trace) == pytest.approx(targets)


def test_an_episode_that_a_time_limit_cut_off_ends_with_the_value_of_its_last_state() -> None:
    assert lambda_targets([single(1.0, 4.0)], DISCOUNT, 0.95) == [3.0]


def test_several_joint_samples_give_their_mean_and_only_the_chosen_one_what_followed() -> None:
    turn = ChainTurn(np.array([1.0, 3.0]), np.array([4.0, 0.0]), 0)
    chain = [turn, single(10.0, 0.0)]
    assert lambda_targets(chain, 1.0, 0.5) == [(5 + 3) / 2 + 0.5 * (10 - 4), 10.0]
    assert turn.following.tolist() == [4.0, 0.0]


def test_the_correction_by_a_sample_that_was_drawn_at_random_is_right_on_average() -> None:
    rewards, following, truth = np.array([1.0, 3.0]), np.array([4.0, 1.0]), [7.0, 2.0]
    targets = [
        lambda_targets([ChainTurn(rewards, following, c), single(truth[c], 0.0)], 1.0, 1.0)[0]
        for c in range(2)
    ]
    assert np.mean(targets) == pytest.approx(np.mean(rewards + truth))


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


def test_explained_variance_is_one_up_to_a_constant_and_below_zero_for_noise() -> None:
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
