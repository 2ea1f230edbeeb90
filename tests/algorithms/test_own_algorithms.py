"""Algorithms written outside the package (examples/algorithms): they train, and RAE equals the built-in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp import make
from llm_decpomdp.algorithms import ALGORITHMS, Algorithm, LearnerOptions, LossOutputs, Start
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from tests.algorithms.preferences.teams import unigram
from tests.algorithms.steps import ROWS
from tests.support.processes import ROOT
from tools.performance.models.probe_trials import ProbeTrial, new_team

OWN = ("rae:RAE", "gigpo:GIGPO", "kl_in_reward:KL_IN_REWARD")


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def own(name: str) -> Any:
    return ALGORITHMS[f"examples.algorithms.{name}"]


def play(team: Any, env: Any, plan: str, seed: int) -> Any:
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks[:2]]
    options, rng = RolloutOptions(mode=plan), np.random.default_rng(seed)
    return collect_rollouts(env, team, starts, options, group_size=4, rng=rng)


@pytest.mark.parametrize("name", OWN)
def test_an_own_algorithm_trains_on_a_probe(name: str) -> None:
    probe = "probe-turns-v0"
    env = make(probe)
    team = new_team(ProbeTrial(probe), env, seed=0)
    learner = own(name).make_learner(team, LearnerOptions(learning_rate=0.01))
    before = [p.detach().clone() for policy in team.values() for p in policy.parameters()]
    for seed in range(2):
        metrics = learner.update(play(team, env, "episodes" if "gigpo" in name else "chain", seed))
    after = [p for policy in team.values() for p in policy.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert all(np.isfinite(value) for value in metrics.values())
    if "kl" in name:
        agent = next(iter(team))
        assert metrics[f"kl_penalty/{agent}"] != 0 and learner.references


def test_the_files_are_short() -> None:
    lengths = [len(p.read_text().splitlines()) for p in Path("examples/algorithms").glob("*.py")]
    assert len(lengths) == len(OWN) and max(lengths) <= 60


def test_own_rae_has_the_advantages_of_the_built_in_one() -> None:
    env = make("probe-turns-v0")
    team = new_team(ProbeTrial("probe-turns-v0"), env, seed=0)
    learners = [
        algorithm.make_learner(team, LearnerOptions(learning_rate=0.0))
        for algorithm in (own("rae:RAE"), ALGORITHMS["rae"])
    ]
    for seed in range(4):
        rollouts = play(team, env, "chain", seed)
        own_groups, built_in = (learner._advantages(rollouts, None) for learner in learners)
        for one, other in zip(own_groups, built_in, strict=True):
            assert one.advantages.keys() == other.advantages.keys()
            for agent, values in one.advantages.items():
                np.testing.assert_allclose(values, other.advantages[agent], atol=1e-12)
        for learner in learners:
            learner.update(rollouts)
    assert any(group.has_signal for group in built_in)
    states = [learner.state_dict()["algorithm"] for learner in learners]
    learners[0].algorithm.load_state_dict(states[0])
    assert learners[0].state_dict()["algorithm"] == states[0]
    assert [row[-1] for row in states[0]["means"]] == pytest.approx(
        [row["mean"] for row in states[1]["means"]]
    )


def test_a_completion_that_is_alone_in_its_state_has_no_step_advantage() -> None:
    env = make("probe-turns-v0")
    team = new_team(ProbeTrial("probe-turns-v0"), env, seed=0)
    rollouts = play(team, env, "episodes", 0)
    plain, step = (
        own("gigpo:GIGPO").configure(step_weight=w).make_learner(team, LearnerOptions())
        for w in (0.0, 1.0)
    )
    groups = zip(plain._advantages(rollouts, None), step._advantages(rollouts, None), strict=True)
    for one, other in groups:
        if one.group.turn == 0:  # all episodes have the same prompts there
            for agent, values in one.advantages.items():
                np.testing.assert_allclose(other.advantages[agent], 2 * values, atol=1e-12)


def test_with_one_step_the_kl_penalty_has_the_gradient_of_the_kl_loss(make_chain: Any) -> None:
    def gradient(algorithm: Any, **options: Any) -> torch.Tensor:
        policy = unigram()
        learner = algorithm.make_learner({"x": policy}, LearnerOptions(**options))
        with torch.no_grad():  # away from the reference
            policy.model.bias += torch.tensor([0.3, -0.2, 0.1])
        learner.accumulate([make_chain(policy, [((1.0, 0.0, 2.0), {"x": ROWS})])])
        found: torch.Tensor = policy.model.bias.grad
        return found.clone()

    expected = gradient(ALGORITHMS["magrpo"], kl={"coefficient": 0.05})
    torch.testing.assert_close(gradient(own("kl_in_reward:KL_IN_REWARD")), expected)
    plain = gradient(own("kl_in_reward:KL_IN_REWARD").configure(beta=0.0))
    torch.testing.assert_close(plain, gradient(ALGORITHMS["magrpo"]))
    assert not torch.allclose(plain, expected)


def test_outputs_of_a_loss_that_are_no_scalar_or_have_other_shapes_are_named(
    make_chain: Any,
) -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda inputs: inputs.log_probs.sum(), "a Tensor"),
        (lambda inputs: LossOutputs(inputs.log_probs.sum(-1)), r"'loss': \(3,\)"),
        (lambda inputs: LossOutputs(0.5), r"'loss': \('float',\)"),
        (
            lambda inputs: LossOutputs(inputs.log_probs.sum(), {"mine": inputs.advantages}),
            r"'mine': \(3,\)",
        ),
    ]
    for loss, match in wrong:
        mine = type("Mine", (Algorithm,), {"loss": lambda self, inputs, of=loss: of(inputs)})
        policy = unigram()
        learner = mine("mine").make_learner({"x": policy}, LearnerOptions())
        with pytest.raises(TypeError, match=rf"mine\.loss must return .*\(3, 3\); got .*{match}"):
            learner.accumulate([make_chain(policy, [((1.0, 0.0, 2.0), {"x": ROWS})])])
