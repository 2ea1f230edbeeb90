"""A run's data when they are loaded again: the hub's of the same commit, others told of where they changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks.analysis.credit_summary import credit_folder
from llm_decpomdp.benchmarks.analysis.replay import open_episodes, regrade
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import load_config, load_stored_config
from llm_decpomdp.benchmarks.evaluation.request import EvalRequest, evaluate_team
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.setup import load_envs
from llm_decpomdp.benchmarks.runs.train import train
from llm_decpomdp.envs.datasets import loading as sources
from llm_decpomdp.utils.storage import RunFolder

OLD, NEW = "a" * 40, "b" * 40


def rows(number: int, added: int) -> list[dict[str, str]]:
    return [
        {
            "task_id": f"own/{index}",
            "prompt": f'def f{index}(x):\n    """Add {added}."""\n',
            "test": f"def check(candidate):\n    assert candidate(1) == {added + 1}\n",
            "entry_point": f"f{index}",
        }
        for index in range(number)
    ]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A hub whose branch `main` moves on; remembers what it was asked for."""
    state: dict[str, Any] = {"main": OLD, "asked": []}

    def give(
        repository: str, config: str | None, split: str, revision: str
    ) -> tuple[list[dict[str, str]], str]:
        state["asked"].append(revision)
        commit = state["main"] if revision == "main" else revision
        return rows(4, 1 if commit == OLD else 2), commit

    monkeypatch.setattr(sources, "hub_has", lambda repository: True)
    monkeypatch.setattr(sources, "hub_rows", give)
    return state


@pytest.fixture
def run(hub: dict[str, Any], quick: list[str]) -> Path:
    """A run on the hub's data, before the hub moved on."""
    items = ["dataset.source=auto", "dataset.train_split=test[2:]", "dataset.eval_split=test[:2]"]
    items += ["env.num_turns=1", "output.checkpoint_every=1", "output.report=false"]
    path = train(load_config(None, [*quick, *items]), "own").folder.path
    hub["main"] = NEW
    return path


def test_a_manifest_has_the_commit_and_both_splits_are_of_it(
    run: Path, hub: dict[str, Any]
) -> None:
    data = RunFolder(run).read_manifest()["data"]
    for part in ("train", "eval"):
        assert (data[part]["source"], data[part]["revision"]) == ("hub", OLD)
    assert hub["asked"] == ["main", OLD]


def test_a_run_goes_on_and_is_graded_again_with_the_commit_it_began_with(
    run: Path, hub: dict[str, Any]
) -> None:
    del hub["asked"][:]
    before = RunFolder(run).read_manifest()["data"]
    for env in load_envs(load_stored_config(run / "config.yaml"), before):
        assert env.tasks.revision == OLD
    resume(run)
    assert regrade(run).lines()[1:] == [
        "all agree: rewards, components, numbers, tests and prompts"
    ]
    credit_folder(run)
    assert set(hub["asked"]) == {OLD}


def test_an_evaluation_is_graded_again_with_the_commit_it_was_played_on(
    hub: dict[str, Any], quick: list[str], tmp_path: Path
) -> None:
    items = ["dataset.source=hub", "dataset.eval_split=test[:2]", "env.num_turns=1"]
    folder = tmp_path / "e"
    evaluate_team(EvalRequest(overrides=[*quick, *items], baseline="random", output=folder))
    hub["main"] = NEW
    assert open_episodes(folder).changes_of_data() == []
    assert not regrade(folder).differences


def test_a_team_that_plays_other_data_than_its_run_did_is_warned_of(
    run: Path, hub: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluate_team(EvalRequest(team=run, output=tmp_path / "now"))
    (told,) = [one.getMessage() for one in caplog.records if "differ" in one.getMessage()]
    for part in (OLD, NEW, f"dataset.source=hub@{OLD} takes what it was", str(run)):
        assert part in told
    caplog.clear()
    pinned = EvalRequest(
        team=run, overrides=[f"dataset.source=hub@{OLD}"], output=tmp_path / "then"
    )
    evaluate_team(pinned)
    evaluate_team(EvalRequest(team=run, split="test[:1]", output=tmp_path / "other"))
    assert not [one for one in caplog.records if "differ" in one.getMessage()]


def test_a_file_that_was_changed_is_told_of(quick: list[str], tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    write = lambda added: path.write_text("\n".join(map(json.dumps, rows(4, added))))  # noqa: E731
    write(1)
    items = [f"dataset.source={path}", "dataset.train_split=all[2:]", "dataset.eval_split=all[:2]"]
    items += ["env.num_turns=1", "output.checkpoint_every=1", "output.report=false"]
    run = train(load_config(None, [*quick, *items]), "own").folder.path
    write(2)
    with pytest.raises(ConfigError, match=r"cannot go on: the train data differ: 2 rows of coop"):
        resume(run)
    changes = regrade(run).data
    assert [change.partition(":")[0] for change in changes] == [
        "the train data differ",
        "the eval data differ",
    ]
    assert str(path) in changes[0]
