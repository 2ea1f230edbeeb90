"""Reward models: their texts, what they learn from pairs, how they are judged, and files that fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms.rewards.comparisons import (
    RewardModelOptions,
    Sample,
    read_comparisons,
    team_text,
)
from llm_decpomdp.algorithms.rewards.reward_model import (
    RewardModel,
    fit_reward_model,
    measures,
    split,
)
from llm_decpomdp.algorithms.rewards.scorer import load_scorer
from tests.algorithms.critics.readers import HashedParts, reading_team
from tests.algorithms.rewards.reward_models import (
    AGENTS,
    comparisons,
    letters_of,
    write_reward_model,
)
from tests.algorithms.runs import make_team


def test_each_part_of_a_text_is_cut_by_itself() -> None:
    sample = Sample({"x": "p" * 50, "y": "q"}, {"x": "r", "y": "s" * 50})
    text = team_text(sample, AGENTS, 16)
    parts = ["[x sees]\npppppp\n...\npppppp"[:24], "[y sees]\nq", "[x answers]\nr"]
    found = text.split("\n\n[")
    assert [parts[1], parts[2]] == [f"[{part}" for part in found[1:3]]
    assert found[0].startswith("[x sees]\nppppp\n...\nppppp") and len(found[0]) < 30
    assert found[3].endswith("sssss\n...\nsssss")
    assert team_text(sample, AGENTS[::-1], 99).startswith("[y sees]")


def test_a_tiny_model_learns_a_preference_and_holds_it_on_other_tasks() -> None:
    policy = tiny_causal_lm("abxyse nwr[]\n", context=256)
    policy.keep_reference()
    options = RewardModelOptions(penalty=1e-4, held_out=0.3)
    model = fit_reward_model(comparisons(300), AGENTS, policy.features, options)
    assert model.report["pairs"] == 300 and model.report["held_out_pairs"] == 90
    assert model.report["accuracy"] >= 0.9
    assert model.report["brier"] < 0.1 and model.report["calibration_error"] < 0.15
    new = comparisons(100, seed=5)
    better, worse = (
        model.scores(policy.features([model.text(sample) for sample in samples]))
        for samples in ([one.winner for one in new], [one.loser for one in new])
    )
    assert float((better > worse).float().mean()) >= 0.9
    noise = iter(np.random.default_rng(3).normal(size=10_000))
    blind = fit_reward_model(
        comparisons(300, lambda _: next(noise)), AGENTS, policy.features, options
    )
    assert 0.3 < blind.report["accuracy"] < 0.7


def test_scores_are_centred_and_weights_solve_the_loss() -> None:
    pairs, features = comparisons(60), HashedParts(size=16)
    options = RewardModelOptions(penalty=0.1)
    model = fit_reward_model(pairs, AGENTS, features, options)
    train, held_out = split(pairs, options.held_out, options.seed)
    scores = [
        model.scores(features([model.text(sample) for sample in samples]))
        for samples in ([one.winner for one in train], [one.loser for one in train])
    ]
    assert abs(float(torch.cat(scores).mean())) < 1e-5
    weight = model.weight.double().requires_grad_()
    z = [
        (features([model.text(s) for s in samples]).double() - model.mean) / model.scale
        for samples in ([one.winner for one in train], [one.loser for one in train])
    ]
    fit = -torch.nn.functional.logsigmoid((z[0] - z[1]) @ weight).mean()
    (gradient,) = torch.autograd.grad(fit + 0.05 * weight.square().sum(), weight)
    assert float(gradient.norm()) < 1e-5 and float(model.weight.norm()) > 0.1
    margins = [model.scores(features([model.text(s) for s in pair[1:]])) for pair in held_out]
    assert model.report["accuracy"] == np.mean([float(m[0] > m[1]) for m in margins])


def test_measures_by_hand() -> None:
    sure = np.log(0.87 / 0.13)  # P = 0.87
    found = measures(np.array([sure, sure, sure, -sure]))
    assert found["accuracy"] == 0.75
    assert found["brier"] == pytest.approx((3 * 0.13**2 + 0.87**2) / 4)
    assert found["loss"] == pytest.approx(-(3 * np.log(0.87) + np.log(0.13)) / 4)
    assert found["calibration_error"] == pytest.approx(0.87 - 0.75)
    coin = measures(np.zeros(4))
    assert (coin["accuracy"], coin["brier"], coin["calibration_error"]) == (0.5, 0.25, 0.0)


def test_tasks_are_held_out_whole(caplog: pytest.LogCaptureFixture) -> None:
    train, held_out = split(comparisons(50), 0.2, seed=1)
    tasks = [{one.task for one in part} for part in (train, held_out)]
    assert len(held_out) == 10 and not tasks[0] & tasks[1]
    assert split(comparisons(50), 0.2, seed=1) == (train, held_out)
    assert split(comparisons(50), 0.2, seed=2) != (train, held_out)
    assert not caplog.text
    assert [len(part) for part in split(comparisons(10, tasks=1), 0.2, seed=0)] == [8, 2]
    assert "all pairs are of task task 0" in caplog.text
    with pytest.raises(ValueError, match="at least 2 pairs"):
        split(comparisons(1), 0.2, seed=0)


def test_a_model_is_written_and_read_and_fits_only_its_features(tmp_path: Path) -> None:
    path = write_reward_model(tmp_path)
    model = RewardModel.load(path)
    assert model.agents == AGENTS and model.report["accuracy"] > 0.5
    assert model.fits(HashedParts(size=64)) and not model.fits(HashedParts(size=32))
    assert not model.fits(HashedParts(width=1.0, size=64))
    team = reading_team()
    judge = load_scorer(path, team, ["y", "x"])
    texts = [model.text(one.winner) for one in comparisons(3)]
    torch.testing.assert_close(
        judge.model.scores(judge.features(texts)), model.scores(HashedParts(size=64)(texts))
    )


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = write_reward_model(tmp_path)
    with pytest.raises(ValueError, match="reads the agents x, y, and the environment has x, z"):
        load_scorer(path, reading_team(), ["x", "z"])
    with pytest.raises(ValueError, match="no model of the team reads as the one"):
        load_scorer(path, make_team(), AGENTS)
    (tmp_path / "other").mkdir()
    other = write_reward_model(tmp_path / "other", HashedParts(width=1.0, size=64))
    with pytest.raises(ValueError, match="or train a reward model with this one"):
        load_scorer(other, reading_team(), AGENTS)
    path.write_text("not a model")
    with pytest.raises(ValueError, match="cannot read a reward model from"):
        load_scorer(path, reading_team(), AGENTS)
    torch.save({"weights": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="`reward-model` has written"):
        RewardModel.load(path)


def test_lines_are_read_pair_by_pair_and_others_are_refused(tmp_path: Path) -> None:
    samples = {"chosen_sample": 0, "rejected_sample": 1}
    place = {"run": "r", "rollout": 3, "group": 0, **samples, "task": "t", "environment": "echo"}
    of_x = {**place, "agent": "x", "prompt": "p", "chosen": "aa", "rejected": "b"}
    alone = {**of_x, "rejected_sample": 2, "others": json.dumps({"y": ["q", "same"]})}
    of_y = {**of_x, "agent": "y", "prompt": "q", "chosen": "a", "rejected": ""}
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, (of_x, alone, of_y))))
    both, one = read_comparisons(path, AGENTS, "echo")
    assert both.winner == Sample({"x": "p", "y": "q"}, {"x": "aa", "y": "a"})
    assert both.loser.answers == {"x": "b", "y": ""} and letters_of(both.winner) == 3
    assert (one.winner.answers["y"], one.loser.answers["y"]) == ("same", "same")
    broken = {
        json.dumps(of_x): "export the pairs again if they are older than `others`",
        json.dumps({**of_x, "environment": "else"}): "line 1: a pair of else",
        json.dumps({**place, "agent": "x"}): "line 1: no prompt, chosen, rejected",
        "[]": "line 1: no run",
        "": "holds no pairs",
        "{": "line 1: ",
    }
    for line, reason in broken.items():
        path.write_text(line)
        with pytest.raises(ValueError, match=reason):
            read_comparisons(path, AGENTS, "echo")
    with pytest.raises(ValueError, match="cannot read pairs"):
        read_comparisons(tmp_path / "none.jsonl", AGENTS, "echo")
