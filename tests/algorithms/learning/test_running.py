"""Running baselines of roles: their values by hand, first visits, single completions, and states."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.baselines import none
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.running import Role, RunningBaseline, Visit
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from tests.algorithms.conftest import EchoEnv, TinyPolicy, Unigram
from tests.algorithms.runs import make_team

RAE = ALGORITHMS["rae"]
A, B, C = (Start(task_id=name) for name in "abc")
ROWS = [(1, 0), (2, 1, 0)]


def learned(baseline: RunningBaseline, *visits: Visit) -> RunningBaseline:
    baseline.observe(visits)
    baseline.learn()
    return baseline


def test_values_are_those_of_the_recursion() -> None:
    rewards = np.random.default_rng(0).normal(size=(30, 3))
    baseline, expected = RunningBaseline(0.95), float(rewards[0].mean())
    learned(baseline, Visit(Role("x", 0, A), rewards[0]))
    for row in rewards[1:]:
        (of_x,) = baseline.differences(A, 0, {"x": row}).values()
        np.testing.assert_allclose(of_x, row - expected, atol=1e-12)
        expected = 0.95 * expected + 0.05 * float(row.mean())
        learned(baseline, Visit(Role("x", 0, A), row))
    assert baseline.value(Role("x", 0, A)) == pytest.approx(expected, abs=1e-12)


def test_roles_are_apart_and_a_new_task_takes_the_mean_of_the_role() -> None:
    baseline = RunningBaseline(0.5)
    assert baseline.value(Role("x", 0, A)) is None
    assert not baseline.differences(A, 0, {"x": np.array([3.0])})["x"].any()
    learned(baseline, Visit(Role("x", 0, A), [1.0]), Visit(Role("x", 0, B), [3.0]))
    learned(baseline, Visit(Role("x", 1, A), [7.0]), Visit(Role("y", 0, A), [9.0]))
    found = [baseline.value(Role("x", 0, start)) for start in (A, B, C)]
    assert found == [1.0, 3.0, 2.0]
    assert baseline.value(Role("x", 1, C)) == 7.0 and baseline.value(Role("y", 1, A)) is None
    learned(baseline, Visit(Role("x", 0, A), [5.0]))
    assert [baseline.value(Role("x", 0, start)) for start in (A, B, C)] == [3.0, 3.0, 3.5]


def test_equal_returns_leave_a_baseline_exactly_there_and_order_changes_nothing() -> None:
    baseline = RunningBaseline(0.95)
    for _ in range(100):
        learned(baseline, Visit(Role("x", 0, A), [0.3]))
    assert baseline.value(Role("x", 0, A)) == 0.3
    visits = [Visit(Role("x", 0, A), [value]) for value in np.random.default_rng(1).normal(size=50)]
    one, other = RunningBaseline(0.9), RunningBaseline(0.9)
    learned(one, *visits), learned(other, *visits[::-1])
    assert one.value(Role("x", 0, A)) == other.value(Role("x", 0, A))
    with pytest.raises(ValueError, match="from 0 to below 1, got 1"):
        RunningBaseline(1.0)


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
    assert learner.teaches(high) and not learner.teaches(low)
    learner.step()
    assert learner.teaches(low)


@pytest.mark.parametrize("plan", ["chain", "episodes"])
def test_a_state_continues_exactly(plan: str) -> None:
    def batch(team: Any, seed: int) -> Any:
        rng, options = np.random.default_rng(seed), RolloutOptions(plan=plan)
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
    assert straight.state_dict()["running"] == resumed.state_dict()["running"]


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
        with pytest.raises(ValueError, match="rae compares with what was earned before"):
            Learner({"x": policy()}, RAE, LearnerOptions(**values))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"no start teaches nothing: set refill=0, got 1"):
        RAE.check_rollouts("x", LearnerOptions(), RolloutOptions(refill=1), 4)
    own = Algorithm("slow", baseline=none, decay=0.99)
    assert Learner({"x": policy()}, own, LearnerOptions())._running is not None
