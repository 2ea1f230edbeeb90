"""New runs that begin with the team of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents.saved_team import load_saved_team
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.setup import load_config
from tests.benchmarks.runs.conftest import Runs
from tests.support.commands import call

SHORT = [
    "output.report=false",
    "output.save_final_model=false",
    "evaluation.num_tasks=0",
    "algorithm.max_updates=1",
]
LOUD = ["algorithm.name=mareinforce", "algorithm.truncation.mode=penalise"]
LOUD += ["algorithm.truncation.overlong_penalty=1", "algorithm.normalize_advantages=false"]
STILL = "algorithm.learning_rate=0"


def begin(runs: Runs, *more: str) -> None:
    """Train for an update that changes all weights, although nothing earns a reward."""
    runs.copy(*SHORT, *LOUD, "algorithm.learning_rate=0.1", *more, config="demo")


def weights(team: Any) -> dict[str, list[torch.Tensor]]:
    return {agent: [w.detach() for w in team[agent].parameters()] for agent in team}


def equal(one: dict[str, list[torch.Tensor]], other: dict[str, list[torch.Tensor]]) -> bool:
    pairs = ((a, b) for agent in one for a, b in zip(one[agent], other[agent], strict=True))
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("adapters", [False, True])
def test_new_runs_begin_with_another_final_team(runs: Runs, tmp_path: Path, adapters: bool) -> None:
    begin(runs, "output.save_final_model=true", *(["model.lora={r: 2}"] if adapters else []))
    before = weights(load_saved_team(tmp_path / "run" / "final_model"))
    if not adapters:
        assert not equal(before, dict.fromkeys(before, before["aux_0"]))
    line = ["train", "--from", str(tmp_path / "run"), "--output", str(tmp_path / "next")]
    assert call(*line, "--seed", "3", "--override", STILL) == 0
    assert equal(before, weights(load_saved_team(tmp_path / "next" / "final_model")))
    config = load_config(tmp_path / "next" / "config.yaml")
    assert (config.seed, config.algorithm.learning_rate) == (3, 0.0)
    assert config.policies["aux_0"]["name"] == str(tmp_path / "run" / "final_model" / "aux_0")
    manifest = runs.manifest("next")
    assert manifest["from"]["team"] == str(tmp_path / "run" / "final_model")
    assert manifest["config"] == "demo"
    updates = [json.loads(line) for line in (tmp_path / "next" / "metrics.jsonl").open()]
    assert [row["update"] for row in updates] == [1]


def test_a_run_that_kept_checkpoints_alone_will_do_and_the_new_run_stands_by_itself(
    runs: Runs, tmp_path: Path
) -> None:
    begin(runs, "output.checkpoint_every=1")
    found = checkpoint.latest(tmp_path / "run" / "checkpoints")
    assert found is not None
    trained = checkpoint.load(found)[1]["policies"]
    line = ["train", "--from", str(tmp_path / "run"), "--output", str(tmp_path / "next")]
    assert call(*line, "--override", "output.checkpoint_every=1") == 0
    (tmp_path / "run").rename(tmp_path / "gone")
    first = load_saved_team(tmp_path / "next" / "initial_model")
    for agent, policy in first.items():
        kept: Any = policy
        loaded = kept.state_dict()["weights"]
        assert all(loaded[name].equal(weight) for name, weight in trained[agent]["weights"].items())
    again = resume(tmp_path / "next", ["algorithm.max_updates=2"])
    assert again.summary["updates"] == 2


def test_a_team_that_shares_weights_may_part(runs: Runs, tmp_path: Path) -> None:
    begin(runs, "output.save_final_model=true", "model.shared=true")
    place = ["--from", str(tmp_path / "run"), "--output"]
    apart = ["--override", "model.shared=false", STILL]
    assert call("train", *place, str(tmp_path / "apart"), *apart) == 0
    before = weights(load_saved_team(tmp_path / "run" / "final_model"))
    assert equal(before, weights(load_saved_team(tmp_path / "apart" / "final_model")))


def test_what_does_not_go_with_another_team_is_refused(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(runs, "output.save_final_model=true")
    for option, value, message in (
        ("--override", "model.name=other", "'model.name=other': the models and the shape"),
        ("--override", "policies.aux_0.lora={r: 2}", "leave it out"),
        ("--override", "env.num_agents=3", "plays aux_0, main_0, and"),
        ("--override", "model.shared=true", "share the policy 'shared' have aux_0, main_0 in"),
        ("--resume", "x", "with nothing but --override"),
    ):
        assert call("train", "--from", str(tmp_path / "run"), option, value) == 2
        assert message in capsys.readouterr().err


def test_a_run_that_kept_nothing_says_what_would_have(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(runs)
    assert call("train", "--from", str(tmp_path / "run")) == 2
    assert "has kept no team: train with output.save_final_model=true" in capsys.readouterr().err
    (tmp_path / "nothing").mkdir()
    assert call("train", "--from", str(tmp_path / "nothing")) == 2
    assert "say how to train its team with --config" in capsys.readouterr().err


def test_a_dry_run_says_what_training_would_cost_and_writes_nothing(
    quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["train", "--config", "demo", "--dry-run", "--output", str(tmp_path / "there")]
    assert call(*line, "--override", *quick, "model.name=not-there") == 0
    shown = capsys.readouterr().out
    assert "magrpo, chain, on coophumaneval-v0: not-there" in shown
    assert "2 updates: " in shown and f"run folder: {tmp_path / 'there'}" in shown
    assert not (tmp_path / "there").exists()
    wrong = ["--override", "model.device=bogus"]
    assert call(*line, *wrong) == 2
    assert "this machine has no device" in capsys.readouterr().err
