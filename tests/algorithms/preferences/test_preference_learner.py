"""The learner from preferences: gradients, metrics, steps."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.preferences.learner import completion_weights, pair_losses
from llm_decpomdp.algorithms.rollouts.collection import align, collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Parent, Rollout, Start
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.preferences.teams import (
    START,
    ReferencedTiny,
    group_of,
    learner_of,
    recurrent,
    rollout_of,
    unigram,
)
from tests.algorithms.runs import build, make_team, require_equal

A, B, END = 1, 2, 0
ROWS = {  # an end alone, an answer of one token that was cut off, and whole ones
    "x": [[A, B, END], [END], [B]],
    "y": [[B, END], [A, A, END], [B, END]],
}
JOINT = align(3, 2).joint
REWARDS = [3.0, 1.0, 2.0]


def of(rows: Any = ROWS, rewards: Any = REWARDS) -> Rollout:
    return rollout_of(rows, align(len(rewards), len(rows)).joint, rewards)


def moved(policy: ReferencedTiny, by: float) -> None:
    """Take the weights away from the reference."""
    with torch.no_grad():
        policy.model.bias += by * torch.tensor([1.0, -2.0, 0.5])


def closed_form(
    team: dict[str, ReferencedTiny],
    references: dict[str, torch.Tensor],
    pairs: list[tuple[int, int]],
    rows: dict[str, list[list[int]]],
    beta: float,
    alpha: float,
) -> torch.Tensor:
    """The loss of the joint policy, as a whole: the mean over pairs of winner and loser."""
    losses = []
    for winner, loser in pairs:
        margin, likelihood = torch.zeros(()), torch.zeros(())
        for agent, policy in team.items():
            if rows[agent][winner] == rows[agent][loser]:
                continue
            now = policy.model.bias.log_softmax(-1)
            ratio = now - references[agent].log_softmax(-1)
            margin = margin + ratio[rows[agent][winner]].sum() - ratio[rows[agent][loser]].sum()
            likelihood = likelihood + now[rows[agent][winner]].sum()
        losses.append(-logsigmoid(beta * margin) - alpha * likelihood)
    return torch.stack(losses).mean()


@pytest.mark.parametrize("alpha", [0.0, 0.2])
@pytest.mark.parametrize("rows", [ROWS, {**ROWS, "y": [[B, END], [A], [A]]}])
def test_the_gradient_is_that_of_the_joint_loss(rows: Any, alpha: float) -> None:
    team = {"x": unigram(), "y": unigram()}
    learner = learner_of(team, dpo_beta=0.7, nll_coefficient=alpha)
    references = {agent: policy.model.bias.detach().clone() for agent, policy in team.items()}
    moved(team["x"], 0.3), moved(team["y"], -0.2)
    two = replace(of(rows), groups=(*of(rows).groups, group_of(rows, JOINT, [2.0, 2.0, 1.0])))
    found = [pair for of_group in learner.pairs(two) for pair in of_group]
    assert len(found) == 2
    indices = [
        tuple(
            next(j for j in range(3) if all(list(side[a].tokens) == rows[a][j] for a in rows))
            for side in (pair.winner, pair.loser)
        )
        for pair in found
    ]
    learner.accumulate([two])
    loss = closed_form(team, references, indices, rows, 0.7, alpha)  # type: ignore[arg-type]
    expected = torch.autograd.grad(loss, [team["x"].model.bias, team["y"].model.bias])
    for policy, gradient in zip(team.values(), expected, strict=True):
        assert gradient.abs().max() > 0.01
        torch.testing.assert_close(policy.model.bias.grad, gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("branches", [2, 3])
def test_equal_pairs_of_all_groups_of_a_tree_teach_what_one_of_them_does(branches: int) -> None:
    rows = {agent: [*of_agent, *of_agent][:branches] for agent, of_agent in ROWS.items()}
    root = replace(of(rows, [2.0, 0.0, 1.0][:branches]).groups[0], chosen=None)
    later = [replace(root, turn=1, parent=Parent(0, sample)) for sample in range(branches)]
    gradients = []
    for groups in ([root], [root, *later]):
        team = {"x": unigram(), "y": unigram()}
        metrics = learner_of(team, pairs_per_group=1).accumulate([Rollout(START, tuple(groups))])
        assert metrics["pairs"] == len(groups)
        gradients.append([policy.model.bias.grad for policy in team.values()])
    for alone, tree in zip(*gradients, strict=True):
        torch.testing.assert_close(alone, tree)


def test_one_set_of_weights_of_two_agents_gets_the_gradient_of_both() -> None:
    shared, pair = unigram(), {"x": unigram(), "y": unigram()}
    learner_of({"x": shared, "y": shared}).accumulate([of()])
    learner_of(pair).accumulate([of()])
    assert pair["x"].model.bias.grad is not None and pair["y"].model.bias.grad is not None
    torch.testing.assert_close(
        shared.model.bias.grad, pair["x"].model.bias.grad + pair["y"].model.bias.grad
    )


def test_who_said_the_same_in_both_samples_has_no_gradient() -> None:
    team = {"x": unigram(), "y": unigram()}
    rows = {"x": [[A, END], [A, END]], "y": [[A], [B]]}
    metrics = learner_of(team, nll_coefficient=0.5).accumulate([of(rows, [1.0, 0.0])])
    assert team["x"].model.bias.grad is None and team["y"].model.bias.grad is not None
    assert (metrics["equal_answers/x"], metrics["equal_answers/y"]) == (1, 0)
    assert metrics["loss/x"] == metrics["grad_norm/x"] == 0 < metrics["loss/y"]
    assert "winner_nll/x" not in metrics


def test_metrics_are_those_before_the_step_by_hand() -> None:
    team = {"x": unigram(), "y": unigram()}
    learner = learner_of(team, dpo_beta=0.5, nll_coefficient=0.1)
    now = team["x"].model.bias.log_softmax(-1).detach()
    nll = float(-(now[A] + now[B] + now[END]))
    first = learner.update([of()])  # the first sample against the second: y said B END and A A END
    assert first["pairs"] == first["groups"] == 1 and first["groups_without_signal"] == 0
    assert first["pair_gap"] == 2 and first["completion_tokens"] == 3 + 1 + 2 + 3
    assert first["pair_margin"] == first["pair_accuracy"] == 0
    assert first["pair_loss"] == pytest.approx(math.log(2))
    assert first["winner_nll/x"] == pytest.approx(nll / 3)
    assert first["loss/x"] == pytest.approx(math.log(2) + 0.1 * nll)
    assert first["winner_log_ratio/x"] == first["loser_log_ratio/y"] == 0
    then = learner.update([of()])
    ratios = {key: value for key, value in then.items() if "log_ratio" in key}
    assert then["pair_accuracy"] == 1
    assert then["pair_margin"] == pytest.approx(
        0.5 * sum(v if key.startswith("winner") else -v for key, v in ratios.items())
    )
    assert then["pair_loss"] < first["pair_loss"]


def test_winners_may_become_less_likely_with_their_losers_unless_their_likelihood_counts() -> None:
    for alpha, rarer in ((0.0, True), (0.5, False)):
        learner = learner_of({"x": unigram(), "y": unigram()}, nll_coefficient=alpha)
        first, *_, last = (learner.update([of()]) for _ in range(5))
        assert last["pair_margin"] > first["pair_margin"]
        assert (last["winner_nll/x"] > first["winner_nll/x"]) == rarer
        assert (last["winner_log_ratio/x"] < 0) == rarer


def test_a_batch_without_pairs_changes_nothing_and_is_counted() -> None:
    team = {"x": unigram(), "y": unigram()}
    learner, before = learner_of(team), team["x"].model.bias.detach().clone()
    equal = of(ROWS, [1.0, 1.0, 1.0])
    metrics = learner.update([equal])
    assert torch.equal(team["x"].model.bias, before)
    assert metrics["pairs"] == metrics["loss/x"] == 0
    assert metrics["groups"] == metrics["groups_without_signal"] == 1
    assert "pair_margin" not in metrics
    assert learner.has_learning_signal(of()) and not learner.has_learning_signal(equal)
    assert not learner_of(team, turn_gradient_weights=(0.0,)).has_learning_signal(of())


def test_several_steps_with_a_batch_go_on_from_each_other() -> None:
    one, several = {"x": unigram(), "y": unigram()}, {"x": unigram(), "y": unigram()}
    learner = learner_of(one)
    for _ in range(3):
        metrics = learner.update([of()])
    assert learner_of(several, num_iterations=3).update([of()]) == pytest.approx(metrics)
    assert torch.equal(one["x"].model.bias, several["x"].model.bias)


def test_partners_that_are_not_trained_are_in_no_margin_and_make_no_pair_alone() -> None:
    partner = unigram()
    partner.model.bias.requires_grad_(False)
    team = {"x": unigram(), "y": partner}
    metrics = learner_of(team).accumulate([of()])
    assert metrics["pairs"] == 1 and partner.model.bias.grad is None
    assert not any(key.endswith("/y") for key in metrics)
    alone = {"x": [[A], [A]], "y": [[A], [B]]}
    assert not learner_of(team).has_learning_signal(of(alone, [1.0, 0.0]))


@pytest.mark.parametrize(
    "option",
    [
        {"loss": "token_mean"},
        {"normalize_advantages": True},
        {"num_iterations": 2, "objective": "cispo"},
        {"objective": {"clip_range": 0.1}},
        {"kl": {"coefficient": 0.1}},
        {"truncation": "mask"},
        {"joint_aggregation": "max"},
        {"negative_advantage_weight": 0.5},
        {"step_advantage_weight": 1.0},
        {"critic": "joint"},
        {"critic": {"gate": False}},
    ],
)
def test_options_that_mean_nothing_with_pairs_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=rf"{list(option)[-1]}(\.\w+)?=.* means nothing with madpo[:,] "
    ):
        learner_of({"x": unigram()}, **option)


@pytest.mark.parametrize(
    ("option", "value"), [("pair_kind", "single"), ("dpo_beta", 0.5), ("opponent", "history")]
)
def test_options_of_pairs_are_refused_where_none_are_made(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"magrpo has no options of its own, got {option}={value}"):
        ALGORITHMS["magrpo"].configure(**{option: value})


def test_rollouts_without_pairs_are_refused(tmp_path: Path) -> None:
    settings = {"algorithm": "madpo", "team": {"x": recurrent(1), "y": recurrent(2)}}
    with pytest.raises(ValueError, match=r"pair_kind=single needs .* joint_mode=common"):
        build(tmp_path / "a", learner={"pair_kind": "single"}, **settings)
    with pytest.raises(ValueError, match="madpo compares answers to the same prompts"):
        build(tmp_path / "b", mode="episodes", **settings)
    with pytest.raises(
        ValueError, match="up to 4,096 joint samples, and pairs are made of at most"
    ):
        build(tmp_path / "c", joint_mode="cross", group_size=64, **settings)


def test_policies_without_a_reference_and_learners_of_advantages_are_refused() -> None:
    with pytest.raises(TypeError, match=r"madpo needs policies that keep a reference.*use magrpo"):
        learner_of(make_team())
    learner = Learner({"x": unigram()}, ALGORITHMS["madpo"], LearnerOptions(learning_rate=0.1))
    with pytest.raises(TypeError, match="learn with PreferenceLearner"):
        learner.accumulate([of({"x": ROWS["x"]})])


def test_a_run_that_is_resumed_equals_one_that_never_stopped(tmp_path: Path) -> None:
    def run(folder: str, **options: Any) -> Any:
        return build(
            tmp_path / folder,
            team={"x": recurrent(1), "y": recurrent(2)},
            algorithm="madpo",
            learner={"pair_selection": "random", "num_iterations": 2},
            eval_starts=[],
            **options,
        )

    batches = [[Start(seed=n), Start(seed=n + 1)] for n in range(4)]
    straight = run("straight", batches=batches)
    summary = straight.run_updates()
    assert summary["updates"] == 4 and summary["last_train"]["pairs"] > 0
    run("parts", batches=batches[:2], checkpoint_every=2).run_updates()
    parts = run("parts", batches=batches, checkpoint_every=2)
    assert parts.resume() == 2
    parts.run_updates()
    require_equal(straight, parts)
    episodes = [e for e in read_json_lines(straight.folder.episodes) if e["phase"] == "train"]
    assert len(episodes) == 8


def test_the_reference_is_the_team_at_the_start() -> None:
    """The reference stays where the run began, however far the team moves."""
    team = {"x": recurrent(1), "y": recurrent(2)}
    learner = learner_of(team, dpo_beta=2.0)
    rollouts = collect_rollouts(
        EchoEnv(1), team, [Start(seed=0)], group_size=4, rng=np.random.default_rng(0)
    )
    completions = rollouts[0].groups[0].completions["x"]
    before, _ = team["x"].log_probs("a", completions)
    for _ in range(3):
        learner.update(rollouts)
    after, _ = team["x"].reference_log_probs("a", completions)
    assert torch.equal(before.detach(), after)
    assert not torch.equal(team["x"].log_probs("a", completions)[0].detach(), after)


SIGNS = torch.tensor([[1.0, -1.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 1.0, -1.0]], dtype=torch.float64)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("beta", [0.1, 2.0])
def test_weights_of_completions_are_the_derivative_of_the_loss(beta: float, alpha: float) -> None:
    torch.manual_seed(0)
    log_probs = (-torch.rand(3, dtype=torch.float64)).requires_grad_()
    reference, others = torch.randn(2, 3, dtype=torch.float64)
    weights = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    margins = beta * (SIGNS.T @ (log_probs - reference) + others)
    wins = (SIGNS > 0).double()
    loss = (weights * (-logsigmoid(margins) - alpha * wins.T @ log_probs)).sum()
    (gradient,) = torch.autograd.grad(loss, log_probs)
    found = completion_weights(SIGNS, margins.detach(), weights, beta, alpha)
    torch.testing.assert_close(found, gradient, rtol=1e-12, atol=1e-12)


def test_far_margins_weigh_nothing_or_all() -> None:
    margins = torch.tensor([-800.0, 0.0, 800.0], dtype=torch.float64)
    assert pair_losses(margins).tolist() == [800.0, pytest.approx(math.log(2)), 0.0]
    winners = completion_weights(torch.eye(3).double(), margins, torch.ones(3).double(), 0.5, 0.0)
    assert winners.tolist() == [-0.5, -0.25, 0.0]
