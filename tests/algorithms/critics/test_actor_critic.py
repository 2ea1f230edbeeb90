"""Actor-critics: advantages over a critic's value of the state, by the names `iac` and `maac`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.critics.actor_critic import BaselineCritic
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.rollouts.views import View
from llm_decpomdp.policy import Completion
from studies.hypotheses.training import Noise
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.critics.readers import HashedParts, reading_team
from tests.algorithms.critics.test_critic import StateEnv, chains, equal, weights
from tests.algorithms.runs import build, make_team

DISCOUNT = 0.5
REWARDS, VALUES = (1.0, 2.0, 3.0), (5.0, 4.0, 6.0)
"""A chain of three states, and what each is thought to be worth."""


class Known:
    """A head that says the same of every state."""

    explained, mean = 0.0, 0.0

    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, features: Tensor) -> Tensor:
        return torch.full((len(features),), self.value, dtype=torch.float64)

    def evaluate(self, pairs: Tensor) -> float:
        return 1.0


def line(rewards: Sequence[float], size: int = 1) -> Rollout:
    """A chain of one agent with equal rewards of all joint samples of a turn, of which the first goes on."""
    states = [View("", {"x": f"state {turn}"}) for turn in range(len(rewards))]
    groups = [
        Group(
            turn=turn,
            parent=Parent(turn - 1, 0) if turn else None,
            prompts={"x": f"state {turn}"},
            completions={"x": (Completion("", (1,)),) * size},
            joint=tuple((g,) for g in range(size)),
            rewards=(reward,) * size,
            infos=({},) * size,
            chosen=0,
            view=states[turn],
            views=((states[turn + 1] if turn + 1 < len(states) else None),) * size,
        )
        for turn, reward in enumerate(rewards)
    ]
    return Rollout(Start(seed=0), tuple(groups))


def critic(trace: float = 0.95, **options: Any) -> BaselineCritic:
    settings = CriticOptions(scope="own", input="history", td_lambda=trace, **options)
    return BaselineCritic(settings, {"x": HashedParts(size=16)}, ["x"], discount=DISCOUNT)


def learner(name: str, features: Any = None, team: Any = None, **options: Any) -> Learner:
    settings = LearnerOptions(**{"learning_rate": 0.05, **options})
    return Learner(team or make_team(), ALGORITHMS[name], settings, features or HashedParts())


@pytest.mark.parametrize(
    ("trace", "advantages"),
    [
        (0.0, [1 + 0.5 * 4 - 5, 2 + 0.5 * 6 - 4, 3 - 6]),
        (0.5, [-2 + 0.25 * (1 + 0.25 * -3), 1 + 0.25 * -3, -3]),
        (1.0, [1 + 0.5 * 2 + 0.25 * 3 - 5, 2 + 0.5 * 3 - 4, 3 - 6]),
    ],
)
def test_advantages_on_a_chain_of_three_states_are_those_of_td_lambda_by_hand(
    trace: float, advantages: list[float]
) -> None:
    one = critic(trace, gate=False)
    one._heads = {("x", turn): Known(value) for turn, value in enumerate(VALUES)}  # type: ignore[misc]
    (outlook,), _ = one.assess([line(REWARDS)])
    assert [values.tolist() for values in outlook["x"]] == [
        pytest.approx([value]) for value in advantages
    ]


def test_a_joint_sample_that_does_not_go_on_ends_with_the_value_of_its_state() -> None:
    one = critic(1.0, gate=False)
    one._heads = {("x", turn): Known(value) for turn, value in enumerate(VALUES)}  # type: ignore[misc]
    (outlook,), _ = one.assess([line(REWARDS, size=2)])
    assert outlook["x"][0].tolist() == [1 + 0.5 * 2 + 0.25 * 3 - 5, 1 + 0.5 * 4 - 5]


def test_while_the_gate_is_closed_a_turn_is_compared_with_its_running_mean() -> None:
    one = critic()
    for reward in (1.0, 3.0):
        one.assess([line([reward])])
        one.learn()
    (outlook,), metrics = one.assess([line([7.0])])
    assert metrics["critic/gate"] == 0 and outlook["x"][0].tolist() == [7.0 - 2.0]


def test_the_first_batch_is_compared_with_itself_and_a_sample_without_others_with_nothing() -> None:
    batch = [line([reward]) for reward in (1.0, 2.0, 6.0)]
    outlooks, _ = critic().assess(batch)
    assert [outlook["x"][0].item() for outlook in outlooks] == [1 - 4, 2 - 3.5, 6 - 1.5]
    (alone,), _ = critic().assess([line([5.0])])
    assert alone["x"][0].tolist() == [0.0]


def test_processes_compare_the_first_batch_over_all_of_it() -> None:
    batch = [line([reward]) for reward in (1.0, 2.0, 6.0)]
    share = critic()
    replies = iter([[], [(0, [(0, np.array([reward]))]) for reward in (1.0, 2.0, 6.0)], [0]])
    share._gather = lambda _: next(replies)
    (outlook,), _ = share.assess(batch[:1])
    assert outlook["x"][0].tolist() == [1 - 4]


@pytest.mark.parametrize("name", ["iac", "maac"])
def test_what_always_earns_the_same_teaches_nothing(name: str) -> None:
    one = learner(name)
    before = [weight.clone() for weight in weights(one)]
    for seed in range(4):
        rollouts = [line_of_team(one, 0.1, seed) for _ in range(3)]
        assert one.update(rollouts)["groups_without_signal"] == 3
    assert all(map(torch.equal, before, weights(one)))


def line_of_team(one: Learner, reward: float, seed: int) -> Rollout:
    """A chain of one turn with this reward throughout."""
    (rollout, *_) = chains(turns=1, seed=seed)
    (group,) = rollout.groups
    return replace(rollout, groups=(replace(group, rewards=(reward,) * len(group.rewards)),))


def test_over_one_turn_a_centralised_critic_that_knows_nothing_is_marloo_to_the_last_bit() -> None:
    (rollout, *_) = chains(turns=1)
    marloo, maac = learner("marloo"), learner("maac")
    marloo.update([rollout])
    maac.update([rollout])
    assert equal(marloo, maac)


def test_over_one_turn_a_critic_of_the_future_changes_no_bit_of_marloo() -> None:
    plain = learner("marloo")
    with_critic = learner("marloo", critic={"scope": "joint", "gate": False})
    for seed in range(3):
        plain.update(chains(turns=1, seed=seed))
        with_critic.update(chains(turns=1, seed=seed))
    assert equal(plain, with_critic)


def alone(seed: int, group_size: int = 1) -> list[Rollout]:
    """Chains of a single agent over two turns."""
    starts = [Start(seed=n) for n in range(6)]
    team = {"x": make_team()["x"]}
    rng = np.random.default_rng(seed)
    env = EchoEnv(2, agents=("x",))
    return collect_rollouts(env, team, starts, group_size=group_size, rng=rng, views=True)


def test_with_one_agent_both_are_one_actor_critic() -> None:
    iac, maac = (
        learner(name, team={"x": make_team()["x"]}, critic={"input": "history", "gate": False})
        for name in ("iac", "maac")
    )
    for seed in range(4):
        iac.update(alone(seed))
        maac.update(alone(seed))
    assert equal(iac, maac)


def test_with_one_agent_the_gradient_is_that_of_actor_critic_by_hand() -> None:
    one = learner("iac", Noise(0), team={"x": make_team()["x"]}, critic={"td_lambda": 0.5})
    one.update(alone(0))
    assert one.critic is not None
    v = {turn: head.mean for (_, turn), head in one.critic._heads.items()}
    rollouts = alone(1)
    one.accumulate(rollouts)
    policy = one.policies["x"]
    found = [p.grad.clone() for p in policy.parameters()]  # type: ignore[union-attr]
    loss = torch.zeros(())
    for rollout in rollouts:
        for index, group in enumerate(rollout.groups):
            advantage = group.rewards[0] - v[group.turn]
            if index + 1 < len(rollout.groups):
                advantage += 0.5 * v[1] + 0.5 * rollout.groups[1].rewards[0]
            logs, mask = policy.log_probs(group.prompts["x"], group.completions["x"])
            loss = loss - advantage * (logs * mask).sum() / len(rollouts)
    expected = torch.autograd.grad(loss, list(policy.parameters()))
    for gradient, by_hand in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, by_hand)


def test_independent_critics_read_no_state_and_the_team_s_reads_all_from_turn_one() -> None:
    own, joint = HashedParts(), HashedParts()
    learner("iac", own).update(chains())
    learner("maac", joint).update(chains())
    assert "[x sees]\na" in own.texts and "[y sees]\na" in own.texts
    assert not any("secret" in text or ("[x " in text and "[y " in text) for text in own.texts)
    assert "[state]\nsecret of turn 0\n\n[x sees]\na\n\n[y sees]\na" in joint.texts


def test_the_team_s_critic_learns_once_from_a_group_and_not_once_for_each_agent() -> None:
    rollouts = chains()
    one = learner("maac")
    one.accumulate(rollouts)
    assert one.critic is not None
    records = [record for found in one.critic._pending.values() for record in found]
    assert len(records) == sum(len(rollout.groups) for rollout in rollouts)


@pytest.mark.parametrize(
    "name", ["coma", *(pytest.param(name, marks=pytest.mark.slow) for name in ("iac", "maac"))]
)
def test_an_actor_critic_goes_on_exactly(name: str) -> None:
    straight, first, again = (learner(name, critic={"gate": False}) for _ in range(3))
    for seed in range(4):
        straight.update(chains(seed=seed))
    for seed in range(2):
        first.update(chains(seed=seed))
    for policy, other in zip(again.policies.values(), first.policies.values(), strict=True):
        policy.load_state_dict(other.state_dict())
    again.load_state_dict(first.state_dict())
    for seed in range(2, 4):
        again.update(chains(seed=seed))
    assert equal(straight, again) and not equal(straight, first)


@pytest.mark.parametrize("name", ["maac", "coma"])
def test_rollouts_without_states_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="use views=True"):
        learner(name).update(chains(views=False))


@pytest.mark.parametrize(
    ("name", "scope", "other"),
    [("iac", "joint", "maac"), ("maac", "own", "iac"), ("coma", "none", "magrpo")],
)
def test_another_critic_is_refused_by_its_algorithm(name: str, scope: str, other: str) -> None:
    with pytest.raises(
        ValueError, match=rf"{name} has critic.scope=.*, and critic.scope={scope} .*{other}"
    ):
        learner(name, critic=scope)


def test_one_completion_is_enough_where_nothing_is_compared_within_a_group() -> None:
    rollouts, updates = RolloutOptions(), LearnerOptions()
    alone = ("iac", "maac", "mareinforce", "rae")
    for name in ALGORITHMS:
        algorithm = ALGORITHMS[name]
        if name in alone:
            algorithm.check_rollouts("xy", updates, rollouts, 1)
            whitened = LearnerOptions(normalize_advantages=True)
            with pytest.raises(ValueError, match="one completion has none"):
                algorithm.check_rollouts("xy", whitened, rollouts, 1)
        else:
            with pytest.raises(ValueError, match=f"{name} compares .* at least 2, got 1"):
                algorithm.check_rollouts("xy", updates, rollouts, 1)


def test_a_run_that_refills_updates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"max_resample_rounds=1 looks for .* which the critic has not read"
    ):
        build(tmp_path, algorithm="iac", team=reading_team(), max_resample_rounds=1)


@pytest.mark.parametrize("name", ["iac", "maac"])
def test_an_actor_critic_of_single_samples_learns_to_say_a(name: str) -> None:
    team = make_team()
    one = learner(name, team=team, learning_rate=0.1)
    rng, starts = np.random.default_rng(0), [Start(seed=n) for n in range(12)]
    rewards = []
    for _ in range(12):
        rollouts = collect_rollouts(StateEnv(1), team, starts, group_size=1, rng=rng, views=True)
        rewards.append(np.mean([rollout.groups[0].rewards for rollout in rollouts]))
        one.update(rollouts)
    assert np.mean(rewards[-3:]) > np.mean(rewards[:3]) + 1
