"""Problems whose prompts do not fit into a model: found before the first update, skipped, cut, and got past."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.runs.conftest import Runs

TEST = "def check(candidate):\n    assert candidate(1) == 1\n"


def problem(name: str, text: str) -> dict[str, str]:
    prompt = f'def f(x):\n    """{text}"""\n'
    return {"task_id": name, "prompt": prompt, "entry_point": "f", "test": TEST}


@pytest.fixture
def overrides(quick: list[str], tmp_path: Path) -> list[str]:
    """A run of six updates on five problems, of which the third is far too long, and one that is held out."""
    rows = [problem(f"mine/{n}", "word " * (10_000 if n == 2 else 3)) for n in range(6)]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    more = [f"dataset.source={data}", "dataset.train_split=test[:5]", "dataset.eval_split=test[5:]"]
    more += [
        "env.id=humaneval-v0",
        "env.num_turns=1",
        "algorithm.max_updates=6",
        "output.report=false",
    ]
    return [*quick, *more]


def episodes(folder: Path) -> list[dict[str, Any]]:
    return [row for row in read_json_lines(folder / "episodes.jsonl") if row["phase"] == "train"]


def played(folder: Path) -> list[str]:
    return [row["start"]["task_id"] for row in episodes(folder)]


def test_long_first_prompts_are_named_before_the_run(overrides: list[str], tmp_path: Path) -> None:
    told = r"mine/2: aux_0 sees 5\d,\d{3} tokens of at most 16,380; mine/2: main_0 sees"
    with pytest.raises(RunError, match=told):
        train(load_config(None, overrides), "mine")
    assert not (tmp_path / "run").exists()
    held_out = ["dataset.train_split=test[3:5]", "dataset.eval_split=test[:3]"]
    with pytest.raises(RunError, match=r"mine/2: .*set on_long_prompt to skip or truncate_left"):
        train(load_config(None, [*overrides, *held_out, "evaluation.num_tasks=3"]), "mine")
    train(load_config(None, [*overrides, *held_out, "evaluation.num_tasks=2"]), "mine")


def test_a_problem_that_is_skipped_is_not_trained_on_and_stands_in_the_manifest(
    runs: Runs, overrides: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(load_config(None, [*overrides, "model.on_long_prompt=skip"]), "mine")
    assert "1 of 5 training problems are left out" in caplog.text and "mine/2: aux_0" in caplog.text
    tasks = played(tmp_path / "run")
    assert len(tasks) == 6 and sorted(tasks[:4]) == [f"mine/{n}" for n in (0, 1, 3, 4)]
    assert runs.manifest()["left_out"] == ["mine/2"]
    with pytest.raises(ConfigError, match=r"the run .* is finished"):
        resume(tmp_path / "run")


def test_cut_prompts_are_counted(runs: Runs, overrides: list[str], tmp_path: Path) -> None:
    more = ["model.on_long_prompt=truncate_left", "model.max_prompt_tokens=200"]
    train(load_config(None, [*overrides, *more]), "mine")
    rows = runs.rows("train")
    assert {row["long_prompts/main_0"] for row in rows} == {1}
    assert "mine/2" in played(tmp_path / "run")
    first = runs.manifest()["first_prompts"]["main_0"]
    assert first["tokens"] == 200
    assert episodes(tmp_path / "run")[0]["groups"][0]["prompts"]["main_0"].endswith(first["text"])


def test_an_evaluation_answers_a_prompt_that_it_skips_by_nothing(
    runs: Runs, overrides: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    more = ["dataset.train_split=test[3:5]", "dataset.eval_split=test[:3]"]
    more += ["evaluation.num_tasks=3", "model.on_long_prompt=skip"]
    train(load_config(None, [*overrides, *more]), "mine")
    assert "first prompts of held-out problems are too long" in caplog.text
    rows = runs.rows("eval")
    assert all(row["n"] == 3 and row["long_prompts/aux_0"] == 1 for row in rows)


def test_a_run_without_a_problem_that_fits_does_not_begin(overrides: list[str]) -> None:
    more = ["model.on_long_prompt=skip", "model.max_prompt_tokens=3"]
    with pytest.raises(RunError, match="no problem is left to train on"):
        train(load_config(None, [*overrides, *more]), "mine")


def test_a_run_that_begins_to_skip_goes_on_as_if_it_had_always_done_so(
    runs: Runs, overrides: list[str], tmp_path: Path
) -> None:
    straight = [*overrides, "model.on_long_prompt=skip", "output.name=straight"]
    train(load_config(None, straight), "mine")
    order = played(tmp_path / "straight")
    begun = [*overrides, "model.on_long_prompt=truncate_left", "output.checkpoint_every=1"]
    train(load_config(None, [*begun, "algorithm.max_updates=1"]), "mine")
    assert played(tmp_path / "run") == order[:1], "the seed must begin with another problem"
    more = ["model.on_long_prompt=skip", "algorithm.max_updates=6"]
    resume(tmp_path / "run", more)
    assert episodes(tmp_path / "run") == episodes(tmp_path / "straight")
    manifest = runs.manifest()
    assert manifest["resumed"] == [{"after": 1, "overrides": more}]
    assert manifest["left_out"] == ["mine/2"]
    assert load_config(tmp_path / "run" / "config.yaml").model.on_long_prompt == "skip"


def test_a_run_that_feedback_has_stopped_gets_past_it(overrides: list[str], tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    rows = [problem(f"mine/{n}", "word " * (400 if n == 2 else 3)) for n in range(6)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    two_turns = ["env.num_turns=2", "external.original_prompt=true", "model.max_prompt_tokens=2600"]
    two_turns += ["evaluation.num_tasks=0"]
    with pytest.raises(RunError, match=r"^mine/2, (aux|main)_0: a prompt of") as stop:
        train(load_config(None, [*overrides, *two_turns]), "mine")
    told = f"--resume {tmp_path / 'run'} --override model.on_long_prompt=skip"
    assert str(stop.value).endswith(told) and ". Update" in str(stop.value)
    with pytest.raises(RunError, match=r"^mine/2, "):
        resume(tmp_path / "run")
    result = resume(tmp_path / "run", ["model.on_long_prompt=skip"])
    assert result.summary["updates"] == 6
    (skipped,) = (row for row in episodes(tmp_path / "run") if row["start"]["task_id"] == "mine/2")
    assert [g["finish_reasons"]["main_0"] for g in skipped["groups"]][1] == ["skip", "skip"]


def test_what_is_sent_is_logged_and_kept(
    runs: Runs, chat_model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = [f"model.name={chat_model}", "model.system_prompt=Be brief.", "output.report=false"]
    more += ["policies={aux_0: {chat_template_kwargs: {mood: calm}}}", "evaluation.num_tasks=0"]
    with caplog.at_level(logging.INFO, "llm_decpomdp"):
        runs.train(*more)
    sent = "prompts are user messages of the chat template after a system prompt of 9 characters"
    assert f"aux_0: {sent}, mood='calm'" in caplog.messages and f"main_0: {sent}" in caplog.messages
    kept = runs.manifest()["first_prompts"]
    first = episodes(tmp_path / "run")[0]["groups"][0]["prompts"]
    assert kept["main_0"]["text"] == f"[system]Be brief.[user]{first['main_0']}[assistant]"
    assert kept["aux_0"]["text"].endswith("[calm][assistant]")
    assert kept["main_0"]["tokens"] == len(kept["main_0"]["text"])


def test_a_model_without_a_template_is_said_to_be_asked_as_it_is(
    runs: Runs, quick: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    more = ["evaluation.num_tasks=0", "output.report=false", "model.shared=true"]
    with caplog.at_level(logging.INFO, "llm_decpomdp"):
        runs.train(*more)
    told = "prompts are sent without a chat template, because the model has none"
    assert caplog.messages.count(f"aux_0+main_0: {told}") == 1
    with pytest.raises(RunError, match="has no chat template that would read system_prompt"):
        again = [*quick, *more, "output.name=other", "model.system_prompt=x"]
        train(load_config(None, again), "mine")


def test_a_long_prompt_that_was_not_looked_at_ends_in_one_line(
    overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_decpomdp.algorithms.rollouts.checks.ENOUGH", 0)  # nothing is
    with pytest.raises(RunError, match=r"mine/2, (aux|main)_0: a prompt of .* too long"):
        train(load_config(None, overrides), "mine")
    monkeypatch.setattr("llm_decpomdp.algorithms.rollouts.checks.ENOUGH", 64)
    result = resume(tmp_path / "run", ["model.on_long_prompt=skip"])
    assert result.summary["updates"] == 6
