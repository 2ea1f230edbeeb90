"""RAE: running means by hand, first visits, single completions, and states."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.advantages import GroupAdvantages, GroupValues
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rae import AgentRole, RoleConditionedAdvantage
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Group, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from tests.algorithms.conftest import EchoEnv, TinyPolicy, Unigram
from tests.algorithms.runs import make_team

RAE = ALGORITHMS["rae"]
A, B, C = (Start(task_id=name) for name in "abc")
ROWS = [(1, 0), (2, 1, 0)]


def make_rae(decay: float = 0.95) -> RoleConditionedAdvantage:
    algorithm = RAE.configure(decay=decay)
    assert isinstance(algorithm, RoleConditionedAdvantage)
    return algorithm


def values_of(start: Start, turn: int, **values: Any) -> GroupValues:
    group = Group(turn, None, {}, {}, (), (), ())
    return GroupValues(start, group, 1.0, {a: np.array(v, float) for a, v in values.items()})


def advantages(algorithm: RoleConditionedAdvantage, start: Start, turn: int, value: float) -> float:
    (found,) = algorithm.advantages([values_of(start, turn, x=[value])], LearnerOptions())
    return float(found["x"][0])


def learn(algorithm: RoleConditionedAdvantage, *groups: GroupValues) -> None:
    algorithm.update_state(algorithm.summarize([GroupAdvantages(**vars(g)) for g in groups]))


def test_values_are_those_of_the_recursion() -> None:
    rewards = np.random.default_rng(0).normal(size=(30, 3))
    algorithm, expected = make_rae(), float(rewards[0].mean())
    learn(algorithm, values_of(A, 0, x=rewards[0]))
    for row in rewards[1:]:
        (found,) = algorithm.advantages([values_of(A, 0, x=row)], LearnerOptions())
        np.testing.assert_allclose(found["x"], row - expected, atol=1e-12)
        expected = 0.95 * expected + 0.05 * float(row.mean())
        learn(algorithm, values_of(A, 0, x=row))
    assert algorithm.means[AgentRole("x", 0, A)] == pytest.approx(expected, abs=1e-12)


def test_roles_are_apart_and_a_new_task_takes_the_mean_of_the_role() -> None:
    algorithm = make_rae(0.5)
    assert advantages(algorithm, A, 0, 3.0) == 0.0
    learn(algorithm, values_of(A, 0, x=[1.0]), values_of(B, 0, x=[3.0]))
    learn(algorithm, values_of(A, 1, x=[7.0]), values_of(A, 0, y=[9.0]))
    assert [advantages(algorithm, start, 0, 10.0) for start in (A, B, C)] == [9.0, 7.0, 8.0]
    assert advantages(algorithm, C, 1, 10.0) == 3.0
    assert not algorithm.advantages([values_of(A, 1, y=[3.0])], LearnerOptions())[0]["y"].any()
    learn(algorithm, values_of(A, 0, x=[5.0]))
    assert [advantages(algorithm, start, 0, 10.0) for start in (A, B, C)] == [7.0, 7.0, 6.5]


def test_equal_returns_leave_a_mean_exactly_there_and_order_changes_nothing() -> None:
    algorithm = make_rae()
    for _ in range(100):
        learn(algorithm, values_of(A, 0, x=[0.3]))
    assert algorithm.means[AgentRole("x", 0, A)] == 0.3
    groups = [values_of(A, 0, x=[value]) for value in np.random.default_rng(1).normal(size=50)]
    one, other = make_rae(0.9), make_rae(0.9)
    learn(one, *groups), learn(other, *groups[::-1])
    assert one.means == other.means
    with pytest.raises(ValueError, match="decay must be below 1, got 1"):
        make_rae(1.0)


def policy() -> TinyPolicy:
    return TinyPolicy(Unigram(3), "ab", 3)


def test_a_single_completion_learns_from_its_past(make_chain: Any) -> None:
    reader = policy()
    learner = Learner({"x": reader}, RAE, LearnerOptions(learning_rate=0.1))
    first = learner.update([make_chain(reader, [((2.0,), {"x": ROWS[:1]})])])
    assert first["groups_without_signal"] == 1 and first["grad_norm/x"] == 0
    learner.accumulate([make_chain(reader, [((5.0,), {"x": ROWS[:1]})])])
    twin = reader.model.bias.detach().clone().requires_grad_()  # type: ignore[attr-defined]
    loss = -3.0 * twin.log_softmax(0)[list(ROWS[0])].sum()
    expected = torch.autograd.grad(loss, twin)[0]
    torch.testing.assert_close(reader.model.bias.grad, expected)  # type: ignore[attr-defined]


def test_nothing_is_learned_of_a_batch_before_its_step(make_chain: Any) -> None:
    reader = policy()
    learner = Learner({"x": reader}, RAE, LearnerOptions(learning_rate=0.0))
    low, high = (make_chain(reader, [((r,), {"x": ROWS[:1]})]) for r in (1.0, 3.0))
    learner.update([low])
    learner.accumulate([high])
    assert learner.has_learning_signal(high) and not learner.has_learning_signal(low)
    learner.step()
    assert learner.has_learning_signal(low)


@pytest.mark.parametrize("plan", ["chain", "episodes"])
def test_a_state_continues_exactly(plan: str) -> None:
    def batch(team: Any, seed: int) -> Any:
        rng, options = np.random.default_rng(seed), RolloutOptions(mode=plan)
        starts = [Start(seed=seed), Start(seed=seed + 1)]
        return collect_rollouts(EchoEnv(2), team, starts, options, group_size=2, rng=rng)

    def learner(team: Any) -> Learner:
        return Learner(team, RAE, LearnerOptions(learning_rate=0.05))

    team = make_team()
    straight = learner(team)
    for seed in (0, 0, 1):
        straight.update(batch(team, seed))
    file = io.BytesIO()
    torch.save(
        {n: p.state_dict() for n, p in team.items()} | {"learner": straight.state_dict()}, file
    )
    file.seek(0)
    state = torch.load(file, weights_only=True)
    twins = make_team()
    for name, twin in twins.items():
        twin.load_state_dict(state[name])
    resumed = learner(twins)
    resumed.load_state_dict(state["learner"])
    for seed in (1, 2):
        assert straight.update(batch(team, seed)) == resumed.update(batch(twins, seed))
    assert straight.state_dict()["algorithm"] == resumed.state_dict()["algorithm"]


def test_a_team_learns_with_one_completion_a_start() -> None:
    team = {"x": policy(), "y": policy()}
    learner = Learner(team, RAE, LearnerOptions(learning_rate=0.05))
    rng, rewards = np.random.default_rng(0), []
    for _ in range(60):
        starts = [Start(task_id="a"), Start(task_id="b")] * 8
        rollouts = collect_rollouts(EchoEnv(1), team, starts, group_size=1, rng=rng)
        rewards.append(np.mean([rollout.groups[0].rewards for rollout in rollouts]))
        learner.update(rollouts)
    assert np.mean(rewards[-5:]) > 2 * np.mean(rewards[:5]) > 0


def test_options_that_compare_within_a_group_are_refused() -> None:
    for values in ({"normalize_advantages": True}, {"step_advantage_weight": 1.0}):
        with pytest.raises(ValueError, match="rae compares with earlier updates"):
            Learner({"x": policy()}, RAE, LearnerOptions(**values))  # type: ignore[arg-type]
    Learner({"x": policy()}, RAE, LearnerOptions(normalize_advantages="role"))
    with pytest.raises(
        ValueError,
        match=r"max_resample_rounds=1 means nothing with rae, where groups with equal rewards .* drop it",
    ):
        RAE.check_rollouts("x", LearnerOptions(), RolloutOptions(max_resample_rounds=1), 4)


def test_learners_share_no_state_and_old_checkpoints_continue(make_chain: Any) -> None:
    reader = policy()
    one, other = (Learner({"x": reader}, RAE, LearnerOptions()) for _ in range(2))
    one.update([make_chain(reader, [((2.0,), {"x": ROWS[:1]})])])
    assert isinstance(other.algorithm, RoleConditionedAdvantage) and not other.algorithm.means
    state = one.state_dict()
    state["running"] = state.pop("algorithm")  # as checkpoints of earlier versions have it
    other.load_state_dict(state)
    assert other.state_dict()["algorithm"] == one.state_dict()["algorithm"]
