"""The panel of training diagnostics, and what it warns of."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.evaluation.experiments import experiments
from llm_decpomdp.benchmarks.report.diagnostics import (
    evaluation_rows,
    shown_tests,
    warnings_by_kind,
    warnings_of,
)
from llm_decpomdp.benchmarks.runs.results import read_results
from llm_decpomdp.utils.storage import RunFolder, append_json_line
from tests.benchmarks.report_runs import evaluate, finished, words

LEARNED = {"groups": 4, "groups_without_signal": 1, "grad_norm/aux_0+main_0": 0.5}


def add_updates(run: RunFolder, count: int, kl: float) -> RunFolder:
    for update in range(1, count + 1):
        agents = {"entropy/main_0": 1.0, "kl/main_0": kl * update}
        row = {"update": update, "kind": "train", "reward_mean": 1.0, **LEARNED, **agents}
        append_json_line(run.metrics, row)
    return run


def test_the_numbers_that_a_run_has_are_drawn_with_what_is_healthy(tmp_path: Path) -> None:
    run = add_updates(RunFolder(tmp_path / "run"), 12, 0.001)
    text = words(run)
    for present in ("KL to the reference", "gradient norm", "It falls slowly", "aux 0+main 0"):
        assert present in text
    assert "clip fraction" not in text and "explained variance" not in text
    assert "Doubts" not in text


def test_a_warning_is_at_the_top_and_its_reason_in_the_panel(tmp_path: Path) -> None:
    text = words(add_updates(RunFolder(tmp_path / "run"), 12, 0.1))
    assert "Doubts about the training: growing KL of main_0. The reasons are under" in text
    assert "Lower learning_rate or raise kl.coefficient" in text


def test_warnings_of_several_runs_name_the_run(tmp_path: Path) -> None:
    runs = [add_updates(RunFolder(tmp_path / name), 12, kl) for name, kl in (("a", 0.1), ("b", 0))]
    found = warnings_of(experiments(list(map(read_results, runs))))
    assert [name for name, _ in found] == ["a, growing KL of main_0"]


def test_warnings_of_one_kind_are_one_banner_that_names_the_run_of_a_suite(tmp_path: Path) -> None:
    folders = [tmp_path / arm / "training" for arm in ("aligned-seed-0", "aligned-seed-1")]
    runs = [read_results(add_updates(RunFolder(folder), 12, 0.1)) for folder in folders]
    ((kind, text),) = warnings_by_kind(experiments(runs)).items()
    assert kind == "growing KL"
    assert text.startswith(
        "aligned-seed-0, growing KL of main_0 (2 such warnings; this is the first):"
    )


@pytest.mark.parametrize(
    ("env", "key", "count"),
    [
        ("coophumaneval-v0", "sandbox_slice: 1", 1),
        ("coophumaneval-v0", "sandbox_slice: -2", -2),
        ("coophumaneval-v0", "sandbox_slice: all", 0),
        ("compose-v0", "sandbox_slice: 1", 0),
    ],
)
def test_the_configuration_tells_which_tests_prompts_show(env: str, key: str, count: int) -> None:
    text = f"env: {{id: {env}, num_turns: 2}}\nexternal: {{mode: level_feedback, {key}}}\n"
    assert shown_tests(text) == count
    assert shown_tests(text.replace("num_turns: 2", "num_turns: 1")) == 0
    assert shown_tests(text.replace("level_feedback", "plain")) == 0


def test_visible_and_hidden_tests_are_counted_apart(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    text = "env: {id: mbpp-v0, num_turns: 2}\nexternal: {mode: level_feedback, sandbox_slice: 1}\n"
    run.config.write_text(text, encoding="utf-8")
    evaluate(run, 0, [1.0, 2.0])  # of two tests the first passes
    (row,) = evaluation_rows(read_results(run))
    assert (row["visible_tests"], row["hidden_tests"]) == (1.0, 0.0)
    assert "visible tests pass, hidden ones fail" in {
        warning.name for _, warning in warnings_of(experiments([read_results(run)]))
    }


def test_a_run_without_these_numbers_has_its_lengths(tmp_path: Path) -> None:
    assert "completion length" in words(finished(RunFolder(tmp_path / "run")))
