"""Pairs with another team's samples, from the command line: `algorithm.comparator`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from llm_decpomdp.agents.saved_team import load_saved_team
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.runs.setup import resolve
from llm_decpomdp.utils.storage import read_json_lines
from tests.support.commands import call

PROBE = ["env.id=probe-noisy-partners-v0", "env.num_agents=2", "dataset.source=auto"]
SHORT = ["output.report=false", "evaluation.num_tasks=0", "algorithm.normalize_advantages=false"]
PAIRS = ["algorithm.name=madpo", "algorithm.pair_min_gap=0", "algorithm.max_updates=2"]
PAIRS += ["algorithm.num_train_epochs=2", "algorithm.num_generations=6"]


def rows_of(run: Path) -> list[dict[str, Any]]:
    timed = ("_seconds", "_per_second")
    rows = read_json_lines(run / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.endswith(timed)} for row in rows]


def weights(run: Path) -> list[torch.Tensor]:
    team = load_saved_team(run / "final_model")
    return [weight for agent in team for weight in team[agent].parameters()]  # type: ignore[attr-defined]


def test_a_run_compares_with_a_saved_team_and_goes_on_where_it_stopped(
    quick: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = [*quick, *PROBE, *SHORT, "output.save_final_model=true"]
    first = [*settings, "output.name=first", "algorithm.max_updates=1"]
    assert call("train", "--config", "demo", "--override", *first) == 0
    monkeypatch.chdir(tmp_path)
    options = [*settings, *PAIRS, "algorithm.comparator=first/final_model"]
    line = ["train", "--config", "demo", "--override", *options]
    capsys.readouterr()
    assert call(*line, "--dry-run") == 0
    twice = capsys.readouterr().out
    assert call(*line, "algorithm.comparator=current", "--dry-run") == 0
    once = capsys.readouterr().out
    samples = [int(text.split(" joint samples")[0].split(": ")[-1]) for text in (once, twice)]
    assert samples[1] == 2 * samples[0]
    assert call(*line, "output.name=whole") == 0
    config = yaml.safe_load((tmp_path / "whole" / "config.yaml").read_text())
    assert config["algorithm"]["preferences"]["opponent"] == str(tmp_path / "first" / "final_model")
    train_rows = [row for row in rows_of(tmp_path / "whole") if row["kind"] == "train"]
    assert all(row["comparator_tokens"] > 0 for row in train_rows)
    parts = ["output.name=parts", "output.checkpoint_every=1", "algorithm.max_updates=1"]
    assert call(*line, *parts) == 0
    longer = ["--override", "algorithm.max_updates=2"]
    assert call("train", "--resume", str(tmp_path / "parts"), *longer) == 0
    assert rows_of(tmp_path / "parts") == rows_of(tmp_path / "whole")
    for a, b in zip(weights(tmp_path / "parts"), weights(tmp_path / "whole"), strict=True):
        assert torch.equal(a, b)


def test_a_comparator_that_is_none_is_refused(quick: list[str], tmp_path: Path) -> None:
    named = load_config(None, [*quick, *PROBE, *PAIRS, "algorithm.comparator=histroy"])
    with pytest.raises(ConfigError, match="histroy is neither current, nor history, nor a team"):
        resolve(named)
    stored = ["algorithm.name=madpo", "algorithm.pairs_source=/tmp/pairs.jsonl"]
    with pytest.raises(ConfigError, match="comparator=history means nothing with pairs_source"):
        load_config(None, [*stored, "algorithm.comparator=history"])
    team = tmp_path / "team"
    team.mkdir()
    (team / "team.json").write_text('{"format": 1, "agents": {"z": "p"}, "policies": {}}')
    other = load_config(None, [*quick, *PROBE, *PAIRS, f"algorithm.comparator={team}"])
    with pytest.raises(ConfigError, match="plays z, and the environment has player_0, player_1"):
        resolve(other)
