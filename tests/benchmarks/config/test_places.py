"""Problems and models of one's own: two files, and paths that lead to them from anywhere."""

from __future__ import annotations

import json
import logging
import re
import shlex
import shutil
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.cli.console import prepare_process
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.evaluation.request import EvalRequest, resolve_request
from llm_decpomdp.benchmarks.runs.data import load_envs
from llm_decpomdp.benchmarks.suites.job import make_jobs
from llm_decpomdp.benchmarks.suites.suite import load_suite
from llm_decpomdp.utils.storage import RunFolder
from tests.support.commands import call
from tests.support.processes import ROOT

TEST = "def check(candidate):\n    assert candidate() == {number}\n"


def write(path: Path, numbers: range) -> Path:
    """A file with a problem for each number."""
    rows = [
        {
            "task_id": f"own/{number}",
            "prompt": "def f():\n",
            "entry_point": "f",
            "test": TEST.format(number=number),
        }
        for number in numbers
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with problems, seen from a folder beside it."""
    folder, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (folder / "data").mkdir(parents=True)
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    write(folder / "data" / "mine.jsonl", range(8))
    return folder


def test_a_file_of_ones_own_is_train_test_and_all(project: Path) -> None:
    source = f"dataset.source={project / 'data' / 'mine.jsonl'}"
    config = load_config(None, [source, "dataset.train_split=train[:6]"])
    train_env, _ = load_envs(config)
    assert len(train_env.tasks) == 6
    both = ["dataset.train_split=all[:75%]", "dataset.eval_split=test[75%:]"]
    assert [len(env.tasks) for env in load_envs(load_config(None, [source, *both]))] == [6, 2]
    empty = (
        r"\(dataset.train_split=test\[16:\]\).*it has 8 rows; train, test or all takes all of them"
    )
    with pytest.raises(RunError, match=empty):
        load_envs(load_config(None, [source]))


def test_each_split_may_have_a_file_of_its_own_and_has_the_whole_of_it(project: Path) -> None:
    mine, other = project / "data" / "mine.jsonl", write(project / "data" / "x.json", range(0))
    other.write_text(json.dumps([json.loads(line) for line in mine.read_text().splitlines()[6:]]))
    two = [f"dataset.train_source={mine}", f"dataset.eval_source={other}"]
    config = load_config(None, two)
    assert (config.dataset.train_split, config.dataset.eval_split) == ("all", "all")
    train_env, eval_env = load_envs(config)
    assert (len(train_env.tasks), len(eval_env.tasks)) == (8, 2)
    assert (train_env.tasks.source, eval_env.tasks.source) == (str(mine), str(other))
    sliced = load_config(None, [*two, "dataset.train_split=train[:6]"])
    assert len(load_envs(sliced)[0].tasks) == 6
    splits = load_config(find_config("demo"), two).dataset  # whose own splits are of other problems
    assert (splits.train_split, splits.eval_split) == ("all", "all")
    one = load_config(None, ["dataset.source=bundled", f"dataset.eval_source={other}"])
    train_env, eval_env = load_envs(one)
    assert (train_env.tasks.source, eval_env.tasks.source) == ("bundled", str(other))
    assert train_env.tasks.split == "test[16:]"
    # One id must not mean two problems.
    other.write_text(mine.read_text().replace("candidate() == 3", "candidate() == 33"))
    other = other.rename(other.with_suffix(".jsonl"))
    two = [two[0], f"dataset.eval_source={other}"]
    with pytest.raises(RunError, match=f"the task 'own/3' of {mine} is another problem than that"):
        load_envs(load_config(None, two))


def test_tasks_in_both_splits_are_told(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    mine = f"dataset.source={project / 'data' / 'mine.jsonl'}"
    load_envs(load_config(None, [mine, "dataset.train_split=all", "dataset.eval_split=all[:2]"]))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "2 of the 2 held-out tasks are trained on too" in record.getMessage()
    assert "dataset.eval_split=all[:2] be slices that do not overlap" in record.getMessage()


def test_paths_in_a_file_start_at_its_folder(project: Path, tiny_model: str) -> None:
    shutil.copytree(tiny_model, project / "tiny")
    file = project / "mine.yaml"
    file.write_text(
        "dataset: {source: data/mine.jsonl, train_split: all, eval_split: all}\n"
        "model: {name: ./tiny}\n"
        "policies: {aux_0: {name: tiny}, main_0: {kind: endpoint, name: tiny, base_url: http://x/v1}}\n"
    )
    for named in (file, Path("../project/mine.yaml")):
        config = load_config(named)
        assert config.dataset.source == str(project / "data" / "mine.jsonl")
        assert config.model.name == config.policies["aux_0"]["name"] == str(project / "tiny")
        assert config.policies["main_0"]["name"] == "tiny"
    file.write_text("model: {name: Qwen/Qwen3-1.7B}\npolicies: {aux_0: {name: tiny-random}}\n")
    assert load_config(file).model.name == "Qwen/Qwen3-1.7B"


def test_paths_on_a_command_line_start_at_the_current_folder(
    project: Path, tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_model, project / "tiny")
    monkeypatch.chdir(project)
    items = ["dataset.source=data/mine.jsonl", "policies.aux_0.name=tiny"]
    config = load_config(find_config("demo"), items, {"model.name": "./tiny"})
    assert config.dataset.source == str(project / "data" / "mine.jsonl")
    assert config.model.name == config.policies["aux_0"]["name"] == str(project / "tiny")
    options = resolve_request(
        EvalRequest(env="humaneval-v0", env_options=["source=data/mine.jsonl"])
    )
    assert options.env_options["source"] == str(project / "data" / "mine.jsonl")


def test_paths_in_a_suite_start_at_its_folder(project: Path) -> None:
    (project / "own.yaml").write_text("dataset: {source: data/mine.jsonl, train_split: all}\n")
    (project / "suite.yaml").write_text(
        "seeds: 0\n"
        "cells:\n"
        "  - {name: a, config: own.yaml, override: dataset.eval_split=all}\n"
        "  - {name: b, config: demo, override: dataset.eval_source=data/mine.jsonl}\n"
    )
    one, other = make_jobs(load_suite(project / "suite.yaml"), project / "runs")
    mine = str(project / "data" / "mine.jsonl")
    assert one.config.dataset.source == other.config.dataset.eval_source == mine
    assert len(other.config.make_eval_env().tasks) == 8


def test_a_missing_file_is_told_with_the_place_that_was_looked_at(project: Path) -> None:
    file = project / "mine.yaml"
    file.write_text("dataset: {source: data/mein.jsonl}\n")
    data = project / "data"
    told = f"there is no file {data / 'mein.jsonl'}; did you mean '{data / 'mine.jsonl'}'"
    with pytest.raises(RunError, match=told):
        load_envs(load_config(file))
    with pytest.raises(ConfigError, match=f"there is no file {Path.cwd() / 'nope.yaml'}; unknown"):
        find_config("./nope.yaml")


def test_a_stored_team_is_found_from_anywhere(
    project: Path, quick: list[str], tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_model, project / "tiny")
    monkeypatch.chdir(project)
    own = ["model.name=./tiny", "model.lora={r: 2}", "dataset.source=data/mine.jsonl"]
    own += ["dataset.train_split=all", "dataset.eval_split=all[:2]", "output.save_final_model=true"]
    result = train(load_config(None, [*quick, *own, "output.report=false"]), "own")
    stored = json.loads((result.folder.path / "final_model" / "team.json").read_text())
    assert {one["base_model"] for one in stored["policies"].values()} == {str(project / "tiny")}
    monkeypatch.chdir("/")
    setting = resolve_request(EvalRequest(team=result.folder.path))
    assert len(setting.make_env().tasks) == 2


def test_the_recipe_for_problems_of_ones_own_works(
    project: Path, quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "data.md").read_text()
    (row,) = re.findall(r"```json\n(.*)\n```", page)
    commands = re.search(r"## Your own problems.*?```bash\n(.*?)```", page, re.DOTALL)
    assert commands is not None
    audit, training = map(shlex.split, commands[1].splitlines())
    monkeypatch.chdir(project)
    rows = [{**json.loads(row), "task_id": f"mine/{number}"} for number in range(5)]
    Path("problems.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    own = [item for item in quick if not item.startswith("dataset")]
    for command in (audit[1:], [*training[1:], *own, "output.report=false"]):
        assert call(*command) == 0
    data = RunFolder(Path(str(own[-2]).partition("=")[2]) / "run").read_manifest()["data"]
    assert (data["train"]["rows"], data["eval"]["rows"]) == (4, 1)
    assert data["train"]["source"] == str(project / "problems.jsonl")


def test_a_warning_says_that_it_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    prepare_process()
    logging.getLogger("llm_decpomdp.x").warning("tasks overlap")
    logging.getLogger("llm_decpomdp.x").info("update 1")
    assert capsys.readouterr().err == "warning: tasks overlap\nupdate 1\n"
