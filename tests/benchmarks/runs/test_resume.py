"""Runs that go on for longer, with other checkpoints, and with nothing else changed."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.benchmarks.cli.main import main
from llm_decpomdp.benchmarks.config.catalogue import find_config
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.config.schema import KEYS
from llm_decpomdp.benchmarks.runs.resume import CHANGEABLE, resume
from llm_decpomdp.benchmarks.runs.train import train
from tests.algorithms.runs import rows

LOUD = ["algorithm.name=mareinforce", "algorithm.truncated=penalise"]
LOUD += ["algorithm.truncation_penalty=1", "algorithm.normalize_advantages=false"]
KEPT = ["output.checkpoint_every=1", "output.report=false", "evaluation.num_tasks=1"]


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


def begin(quick: list[str], *more: str) -> None:
    train(load_config(find_config("demo"), [*quick, *KEPT, *LOUD, *more]), "demo")


def test_a_finished_run_goes_on_for_longer_as_if_it_had_been_meant_to(
    quick: list[str], tmp_path: Path
) -> None:
    begin(quick, "output.name=straight", "algorithm.max_updates=4")
    begin(quick)
    longer = ["--override", "algorithm.max_updates=4", "output.keep_checkpoints=1"]
    assert call("train", "--resume", str(tmp_path / "run"), *longer) == 0
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert rows(tmp_path / "run" / name) == rows(tmp_path / "straight" / name)
    states = []
    for run in ("run", "straight"):
        found = checkpoint.latest(tmp_path / run / "checkpoints")
        assert found is not None and found.name == "update-000004"
        states.append(checkpoint.load(found)[1]["policies"]["aux_0"]["weights"])
    assert all(states[0][name].equal(weight) for name, weight in states[1].items())
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1
    stored = load_config(tmp_path / "run" / "config.yaml")
    assert (stored.algorithm.max_updates, stored.output.keep_checkpoints) == (4, 1)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["resumed"] == [{"after": 2, "overrides": longer[1:]}]


def test_a_run_with_a_lag_warns_where_it_is_to_last_longer_than_it_sampled_for(
    quick: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(quick, "algorithm.lag=1", "algorithm.correction=mask", "algorithm.max_updates=2")
    with caplog.at_level(logging.WARNING):
        resume(tmp_path / "run", ["algorithm.max_updates=4"])
    (message,) = [record.message for record in caplog.records if "algorithm.lag" in record.message]
    assert "was to end after update 2: the next ones learn from present weights" in message
    trained = [row for row in rows(tmp_path / "run" / "metrics.jsonl") if row["kind"] == "train"]
    assert [row["lag"] for row in trained] == [0, 1, 0, 1]
    assert all(row["ratio/aux_0"] > 0 for row in trained)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.learning_rate=0.5", "keeps its algorithm.learning_rate; it may change"),
        ("policies={aux_0: {temperature: 0.1}}", "keeps its policies.aux_0; it may change"),
        ("seed=4", "--from FOLDER"),
        ("algorithm.max_updates=1", "2 updates are done, and the new budget is 1: raise"),
        ("algorithm.max_updates=10000", "num_train_epochs=[0-9]+: raise that too"),
        ("algorithm.max_update=9", "did you mean 'algorithm.max_updates'"),
    ],
)
def test_other_changes_are_refused_and_the_safe_ones_named(
    quick: list[str], tmp_path: Path, override: str, message: str
) -> None:
    begin(quick)
    before = (tmp_path / "run" / "config.yaml").read_text()
    with pytest.raises(ConfigError, match=message) as error:
        resume(tmp_path / "run", [override])
    if "may change" in message:
        assert all(key in str(error.value) for key in CHANGEABLE)
    assert (tmp_path / "run" / "config.yaml").read_text() == before
    assert {*CHANGEABLE} < {*KEYS}


def test_a_limit_that_would_have_left_out_other_problems_is_refused(
    quick: list[str], tmp_path: Path
) -> None:
    begin(quick, "model.on_long_prompt=truncate_left")
    with pytest.raises(ConfigError, match="2 updates are done: keep the limit of prompts"):
        short = ["model.max_prompt_tokens=900", "model.on_long_prompt=skip"]
        resume(tmp_path / "run", short)


def test_what_happens_to_long_prompts_may_change_for_one_policy(
    quick: list[str], tmp_path: Path
) -> None:
    begin(quick)
    more = ["policies={aux_0: {on_long_prompt: truncate_left}}", "algorithm.max_updates=3"]
    assert resume(tmp_path / "run", more).summary["updates"] == 3


def test_a_falling_learning_rate_is_said_to_fall_to_another_end(
    quick: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(quick, "algorithm.lr_schedule=linear")
    with caplog.at_level(logging.WARNING, "llm_decpomdp"):
        resume(tmp_path / "run", ["algorithm.max_updates=3"])
    assert "algorithm.lr_schedule=linear now falls to the end of 3 updates" in caplog.text
