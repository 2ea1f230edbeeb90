"""Runs of a centralised team, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.runs.results import read_results
from llm_decpomdp.utils.storage import RunFolder
from llm_decpomdp.wrappers.centralized import TEAM
from tests.support.commands import call

GRPO = ["algorithm.name=grpo", "env.centralised=true", "output.save_final_model=true"]


@pytest.fixture
def run(quick: list[str], tmp_path: Path) -> Path:
    """The folder of a short training, with its final team."""
    overrides = [*quick, *GRPO, "algorithm.max_updates=1"]
    assert call("train", "--config", "demo", "--override", *overrides) == 0
    return tmp_path / "run"


def test_one_agent_is_trained_evaluated_played_and_credited(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = read_results(RunFolder(run))
    assert results.train[0]["untagged"] == 1.0
    assert set(results.scores[0].characters) == {TEAM}
    assert load_config(run / "config.yaml").env.centralised
    assert (run / "report.html").is_file() and (run / "final_model" / TEAM).is_dir()
    evaluation = tmp_path / "evaluation"
    assert call("eval", "--team", str(run), "--output", str(evaluation), "--tasks", "1") == 0
    gold = ["--env-option", "centralised=true", "--source", "bundled", "--policy", "gold"]
    assert call("play", "coophumaneval-v0", *gold, "--seed", "0") == 0
    assert "<aux_0>" in capsys.readouterr().out
    for command in (["credit", str(evaluation)], ["rescore", str(run)], ["export", str(run)]):
        assert call(*command) == 0, command


def test_what_is_about_several_agents_is_refused(
    quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for baseline in ("sequential_pipeline", "single_agent_matched"):
        overrides = [*quick, "env.centralised=true"]
        assert call("eval", "--config", "demo", "--baseline", baseline, "--override", *overrides)
        assert "drop env.centralised" in " ".join(capsys.readouterr().err.split())
    team = ["env.centralised=true", "team={aux_0: a, main_0: b}"]
    assert call("train", "--config", "demo", "--override", *quick, *team)
    assert TEAM in capsys.readouterr().err
