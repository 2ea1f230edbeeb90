"""Warm starts from the command line: `llm-decpomdp train --warm-start gold|FILE`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.agents import load_saved_team
from llm_decpomdp.algorithms.training.sft_data import draw_share
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import RunFolder, read_json_lines
from tests.benchmarks.runs.conftest import Runs
from tests.support.commands import call

HALVES = ["env.id=probe-halves-v0", "evaluation.num_tasks=3", "algorithm.learning_rate=0"]
TAUGHT = ["warm_start.epochs=150", "warm_start.learning_rate=0.02", "warm_start.batch_size=3"]
OUTSIDE = ["dataset.source=auto", "output.save_final_model=true"]


def train(*arguments: str, override: list[str]) -> int:
    return call("train", "--config", "demo", *arguments, "--override", *override)


@pytest.mark.parametrize("adapters", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_team_learns_its_references_before_its_first_update(
    quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], adapters: bool
) -> None:
    lora = ["model.lora={r: 4, lora_alpha: 64}"] if adapters else []
    override = [*quick, *HALVES, *TAUGHT, *OUTSIDE, *lora]
    assert train("--warm-start", "gold", override=override) == 0
    folder = RunFolder(tmp_path / "run")
    rows = list(read_json_lines(folder.metrics))
    lessons = [row for row in rows if row["kind"] == "warm_start"]
    assert [row["step"] for row in lessons] == list(range(1, 151))
    assert {row["completion_tokens"] for row in lessons} == {12}  # a letter and the end, six times
    before = next(row for row in rows if row["kind"] == "untrained")
    after = next(row for row in rows if row["kind"] == "eval")
    assert before["reward_mean"] < 0.2 and lessons[-1]["nll/player_0"] < lessons[0]["nll/player_0"]
    if not adapters:
        assert after["reward_mean"] > 0.8
        team = load_saved_team(tmp_path / "run" / "final_model")
        assert sum(team["player_0"].act("a") == "b" for _ in range(10)) > 7
    lines = capsys.readouterr().out
    assert lines.index("evaluation before the warm start") < lines.index("warm start: 150 steps")
    assert "evaluation after the warm start:" in lines
    assert "evaluation before training" not in lines
    report = (tmp_path / "run" / "report.html").read_text()
    assert "Warm start: 150 steps of supervised training on given completions." in report
    assert load_config(folder.config).warm_start.source == "gold"


def test_a_file_of_completions_teaches_and_a_run_from_it_does_not_repeat_it(
    runs: Runs, quick: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "lessons.jsonl"
    lesson = {"agent": "player_1", "prompt": "a", "completion": "b"}
    path.write_text(f"{json.dumps(lesson)}\n" * 4)
    more = ["warm_start.share=0.5", "warm_start.batch_size=1", "output.save_final_model=true"]
    short = ["algorithm.max_updates=1", "output.report=false", "dataset.source=auto"]
    override = [*quick, *HALVES, *more, *short]
    assert train("--warm-start", str(path), override=override) == 0
    rows = runs.rows()
    lessons = [row for row in rows if row["kind"] == "warm_start"]
    assert len(lessons) == 2 and "nll/player_0" not in lessons[0]
    again = str(tmp_path / "again")
    assert call("train", "--from", str(tmp_path / "run"), "--output", again) == 0
    kinds = {row["kind"] for row in read_json_lines(tmp_path / "again" / "metrics.jsonl")}
    assert kinds == {"train", "eval"}


@pytest.mark.parametrize(
    ("source", "more", "reason"),
    [
        ("gold", ["env.num_agents=3"], "the environment has none for 'aux_0'"),
        ("none.jsonl", [], "none.jsonl': give gold, passes or a JSONL file"),
        ("gold", [], "raise max_new_tokens"),
    ],
)
def test_a_source_without_lessons_is_refused_with_the_remedy(
    quick: list[str], capsys: pytest.CaptureFixture[str], source: str, more: list[str], reason: str
) -> None:
    assert train("--warm-start", source, override=[*quick, *more]) != 0
    text = capsys.readouterr().err.replace("│", " ")
    assert reason in " ".join(text.split())


def test_a_dry_run_counts_its_lessons(quick: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    override = [*quick, "warm_start.share=0.5", "warm_start.epochs=2"]
    assert train("--warm-start", "gold", "--dry-run", override=override) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("warm start"))
    assert line.endswith("demonstrations of gold, 2 times")


def test_own_passes(quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passing = ["warm_start.min_reward=0", "warm_start.samples=2", "warm_start.rounds=2"]
    override = [*quick, *HALVES, *passing, "dataset.source=auto", "model.max_new_tokens=2"]
    assert train("--warm-start", "passes", "--dry-run", override=override) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("warm start"))
    assert "3 problems, 2 episodes of each in each of 2 rounds: 12 episodes, 48 tokens" in line
    failing = [*override, "warm_start.min_reward=null", "output.name=failing"]
    assert train("--warm-start", "passes", override=failing) != 0
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "none of 6 episodes of 3 problems passed" in error and "begin with gold" in error
    ending = [*override, "model.max_new_tokens=40", "warm_start.samples=40"]
    assert train("--warm-start", "passes", override=ending) == 0
    lines = capsys.readouterr().out
    assert (
        "own passes: 2 rounds of 120 sampled episodes; passed, first to last round: 100.0%" in lines
    )
    report = (tmp_path / "run" / "report.html").read_text()
    assert "supervised training on the team&#39;s own passing samples, 2 rounds." in report


def test_a_prefilled_team_imitates_what_follows_and_reinforcement_leaves_these_problems_out(
    quick: list[str], tmp_path: Path
) -> None:
    override = [
        *quick,
        "env.id=compose-v0",
        "env.options={convention: name, types: numbers}",
        "dataset.train_split=train[:6]",
        "dataset.eval_split=test[:1]",
        "model.stop=['zz']",
        "model.prefill=def",
        "warm_start.share=0.5",
        "warm_start.disjoint=true",
        "output.report=false",
    ]
    override = [item for item in override if "max_" not in item]
    override += ["model.max_new_tokens=60", "algorithm.max_updates=3"]
    assert train("--warm-start", "gold", override=override) == 0
    run = tmp_path / "run"
    rows = list(read_json_lines(run / "metrics.jsonl"))
    (lesson,) = (row for row in rows if row["kind"] == "warm_start")
    env = make("compose-v0", convention="name", types="numbers", split="train[:6]")
    tasks = [task.task_id for task in env.tasks.tasks]
    imitated = draw_share(tasks, 0.5, 0)
    texts = [str(r.reference(env.tasks.find(task))) for task in imitated for r in env.roles]
    assert lesson["completion_tokens"] == sum(len(t) - len("def") + 1 for t in texts)  # and the end
    episodes = list(read_json_lines(run / "episodes.jsonl"))
    played = {e["start"]["task_id"] for e in episodes if e["phase"] == "train"}
    assert played == set(tasks) - set(imitated)
    answers = [
        t for e in episodes for g in e["groups"] for a in g["completions"].values() for t in a
    ]
    assert all(text.startswith("def") for text in answers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "gold"}, "no problem for reinforcement with share=1"),
        ({"source": "a.jsonl", "share": 0.5}, "which problems the lines of source=a.jsonl are of"),
    ],
)
def test_problems_that_cannot_be_kept_apart_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WarmStartOptions(disjoint=True, **options)
