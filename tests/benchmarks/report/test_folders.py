"""Reports of several folders, and of the files of other commands in them."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.agents.scripted import Constant, Gold
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.analysis import credit_summary
from llm_decpomdp.benchmarks.analysis.credit import Credit
from llm_decpomdp.benchmarks.analysis.credit_summary import credit_folder
from llm_decpomdp.benchmarks.analysis.crossplay import cross_play
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.evaluation import run as evaluation
from llm_decpomdp.benchmarks.evaluation.experiments import (
    LONGEST,
    Experiment,
    config_differences,
    experiments,
    headings,
)
from llm_decpomdp.benchmarks.report import suites
from llm_decpomdp.benchmarks.report.charts import _band
from llm_decpomdp.benchmarks.report.document import report
from llm_decpomdp.benchmarks.runs.results import read_results, stored_rows
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import RunFolder, write_atomically
from tests.benchmarks.report_runs import MANIFEST, evaluate, finished, html, words
from tests.benchmarks.stored_runs import run_of


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return finished(RunFolder(tmp_path / "run"))


def test_runs_that_differ_by_the_seed_are_one_experiment(tmp_path: Path) -> None:
    runs = [finished(RunFolder(tmp_path / f"s{seed}"), seed) for seed in range(3)]
    other = finished(RunFolder(tmp_path / "other"), 0)
    other.config.write_text("algorithm:\n  name: grpo\nseed: 0\n", encoding="utf-8")
    found = experiments([read_results(run) for run in (*runs, other)])
    assert [len(experiment.runs) for experiment in found] == [3, 1]
    assert [experiment.name for experiment in found] == [
        "algorithm.name=magrpo",
        "algorithm.name=grpo",
    ]


def test_a_run_that_repeats_a_seed_is_no_further_seed(tmp_path: Path) -> None:
    runs = [finished(RunFolder(tmp_path / f"run-{n}"), seed) for n, seed in enumerate((0, 1, 0, 0))]
    found = experiments([read_results(run) for run in runs])
    folders = [[run.path.name for run in experiment.runs] for experiment in found]
    assert folders == [["run-0", "run-1"], ["run-2"], ["run-3"]]
    assert [experiment.name for experiment in found] == ["run-0", "run-2", "run-3"]


def test_seeds_without_common_tasks_have_no_interval_to_speak_of(tmp_path: Path) -> None:
    runs = [finished(RunFolder(tmp_path / f"s{seed}"), seed) for seed in range(2)]
    runs[1].episodes.write_text("", encoding="utf-8")
    text = words(*runs)
    assert "It increased with 2 of 2 seeds" in text
    assert "The interval" not in text and "In brackets" not in text


def test_seeds_have_a_band_a_table_and_one_interval(tmp_path: Path) -> None:
    runs = [finished(RunFolder(tmp_path / f"s{seed}"), seed, extra=seed / 10) for seed in range(3)]
    text = words(*runs)
    assert re.search(r"Over 3 seeds, .* by \+1\.3\d \(\+[01]\.\d\d to \+", text)
    assert "It increased with 3 of 3 seeds" in text
    assert text.count("over tasks and seeds.") == 2
    assert re.search(r"s1 1 6 0\.75 \(\S+ to \S+\) 2\.12 \(\S+ to \S+\) \+1\.3\d", text)


def test_several_configurations_are_compared_with_the_first(tmp_path: Path) -> None:
    weak = finished(RunFolder(tmp_path / "weak"))
    strong = finished(RunFolder(tmp_path / "strong"), extra=1.0)
    strong.config.write_text("algorithm:\n  name: marloo\n", encoding="utf-8")
    text = words(weak, strong)
    assert "the best first" in text
    assert "gain against name=magrpo" in text
    assert re.search(
        r"algorithm.name=marloo 1 0\.75 .* 3\.02 .* \+1\.00 \(\+1\.00 to \+1\.00\)", text
    )
    assert text.index("algorithm.name=marloo 1") < text.index("algorithm.name=magrpo 1")


def test_configurations_of_different_environments_are_not_ranked(tmp_path: Path) -> None:
    first, second = (
        finished(RunFolder(tmp_path / n), extra=x) for n, x in (("a", 0.0), ("b", 1.0))
    )
    second.config.write_text("env:\n  id: mbpp-v0\n", encoding="utf-8")
    second.write_manifest({**MANIFEST, "environment": "mbpp-v0"})
    text = words(first, second)
    assert "not ranked, as rewards of different environments (coophumaneval-v0, mbpp-v0)" in text
    assert text.index("env.id=None 1") < text.index("env.id=mbpp-v0 1")
    assert "against" not in text


def test_evaluations_and_a_single_training_are_named_by_their_folder(tmp_path: Path) -> None:
    trained, measured = finished(RunFolder(tmp_path / "pair")), RunFolder(tmp_path / "gold")
    evaluate(measured, 0, [1.0, 2.0])
    found = experiments([read_results(run) for run in (trained, measured)])
    assert [experiment.name for experiment in found] == ["pair", "gold"]


def test_names_above_columns_are_short_and_tell_experiments_apart() -> None:
    names = ["algorithm.name=magrpo, model.name=an-organisation/a-model", "eval-" + "x" * 40]
    found = headings([Experiment(name, ()) for name in names])
    assert found[names[0]] == ("name=magrpo", "name=an-or…n/a-model")
    assert max(len(line) for lines in found.values() for line in lines) == LONGEST
    alike = [Experiment(f"{'x' * 20}-{n}-{'x' * 20}", ()) for n in range(2)]
    assert [*headings(alike).values()] == [("…0-xxxxxxx…xxxxxxxxx",), ("…1-xxxxxxx…xxxxxxxxx",)]


def test_columns_of_several_experiments_have_the_whole_name_at_hand(tmp_path: Path) -> None:
    runs = [finished(RunFolder(tmp_path / f"{n}-{'x' * 30}")) for n in ("one", "two")]
    page = html(*runs)
    whole = f"one-{'x' * 30}"
    assert f'title="{whole}: before">one-xxxxxx…xxxxxxxxx<br>before</th>' in page
    assert f'title="{whole}">one-xxxxxx…xxxxxxxxx</th>' in page
    assert 'class="left"' not in page and 'class="right"' not in page


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")  # garbage of other tests
def test_figures_of_long_names_keep_their_room(tmp_path: Path) -> None:
    runs = [RunFolder(tmp_path / f"{'x' * 60}-{n}-{'x' * 60}") for n in ("one", "two")]
    for run in runs:
        evaluate(run, 0, [1.0, 2.0])
    report([run.path for run in runs], tmp_path / "page.html", True)


def test_a_folder_of_an_evaluation_has_a_report(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    evaluate(run, 0, [1.0, 2.0, 3.0])
    run.metrics.unlink()
    (row,) = read_results(run).evaluations
    assert row["reward_mean"] == pytest.approx(2.0)
    assert row["reward/tests"] == pytest.approx(1.5)
    assert row["reward_standard_error"] == pytest.approx(1 / 3**0.5)
    text = words(run)
    assert "mean team reward 2.00 (" in text
    assert 'id="learning"' not in html(run)


def test_files_hold_tables_and_figures(folder: RunFolder, tmp_path: Path) -> None:
    page = report([folder.path], tmp_path / "page.html", True)
    files = page.with_name("page_files")
    names = {path.name for path in files.iterdir()}
    figures = {f"{n}.{e}" for n in ("learning", "components", "tasks") for e in ("svg", "png")}
    assert names == {"metrics.csv", "episodes.csv", *figures}
    rows = list(csv.DictReader((files / "episodes.csv").open(encoding="utf-8")))
    assert len(rows) == 22
    assert (rows[5]["task"], rows[5]["reward"], rows[5]["seed"]) == ("eval/5", "0.5", "7")
    assert "#0067a5" in (files / "learning.svg").read_text(encoding="utf-8")


def test_several_runs_go_to_the_current_folder(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = finished(RunFolder(tmp_path / "other"))
    assert report([folder.path, other.path], None, False) == Path("report.html")
    assert report([folder.path], None, False) == folder.report


def test_a_folder_without_numbers_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/nothing does not exist: name the folder"):
        report([tmp_path / "nothing"], None, False)
    assert not (tmp_path / "nothing").exists()
    write_atomically(tmp_path / "metrics.jsonl", "")
    with pytest.raises(ConfigError, match="has no rows: train first"):
        report([tmp_path], None, False)


def test_unwritable_page_is_named(folder: RunFolder, tmp_path: Path) -> None:
    page = tmp_path / "nowhere" / "page.html"
    with pytest.raises(RunError, match=f"^cannot write {page}: No such file or directory$"):
        report([folder.path], page, False)
    (tmp_path / "page_files").write_text("")
    with pytest.raises(RunError, match=f"^cannot write {tmp_path}/page_files: File exists$"):
        report([folder.path], tmp_path / "page.html", True)


@pytest.mark.parametrize("given", [None, "page.html"])
def test_unwritable_page_of_a_suite_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    def fail(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "suite.json").write_text("{}")
    monkeypatch.setattr(suites, "write_suite_report", fail)
    page = tmp_path / (given or "report.html")
    with pytest.raises(RunError, match=f"^cannot write {page}: Permission denied$"):
        report([tmp_path], page if given else None, False)


@pytest.fixture
def gold(tmp_path: Path) -> RunFolder:
    """An evaluation of the data's answers on two tasks."""
    env = make("coophumaneval-v0", split="test[:2]", source="bundled", num_turns=1)
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    evaluation.evaluate(
        env, dict.fromkeys(env.possible_agents, Gold()), starts, folder=tmp_path / "gold"
    )
    return RunFolder(tmp_path / "gold")


def test_without_the_files_there_are_no_panels(tmp_path: Path) -> None:
    page = html(finished(RunFolder(tmp_path)))
    assert 'id="cooperation"' in page
    assert 'id="credit"' not in page
    assert 'id="crossplay"' not in page


def test_credit_is_shown_with_what_its_columns_say(gold: RunFolder) -> None:
    credit_folder(gold.path)
    text = words(gold)
    assert "gold: reward 4.00, of a silent team 0.00" in text
    shares = "1.65 2.90 0.00"
    assert f"agent Shapley difference gold gains lazy dispensable aux_0 {shares}" in text
    assert "own choice" not in text
    assert "the loss of reward if the agent returned an empty text" in text


def test_credit_of_several_folders(gold: RunFolder, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    for folder in (gold.path, run.path):
        credit_folder(folder)
    text = words(gold, run)
    assert "gold: aux_0 1.65" in text
    assert "run: main_0, turn 2 1.10" in text


def test_of_a_training_the_first_and_the_last_evaluation_are_shown(tmp_path: Path) -> None:
    run = finished(RunFolder(tmp_path))
    numbers: dict[str, float] = dict.fromkeys(("silent", "difference", "shapley"), 0.0)
    place: Any = {"line": 1, "phase": "eval", "task": "t", "turn": 1, "group": 1, "sample": 1}
    rest: Any = {"gold": None, "own": None, "passed": False, "passed_without": False}
    credits = [
        Credit(**place, **numbers, **rest, update=update, agent="aux_0", reward=float(update))
        for update in (0, 3, 6)
    ]
    stored_evaluation = [row for _, row in stored_rows(run.episodes) if row["phase"] == "eval"]
    credit_summary.write(tmp_path, credits, {"episodes": len(stored_evaluation)})
    text = words(run)
    name = tmp_path.name
    assert f"{name}, before training: aux_0 0.00 0.00 — {name}, after update 6: aux_0" in text
    assert f"{name}, after update 6: reward 6.00, of a silent team 0.00." in text
    assert "update 3:" not in text


def test_a_matrix_leads_from_each_cell_to_its_transcripts(tmp_path: Path) -> None:
    env = make("probe-rendezvous-v0")
    teams = {word: {agent: Constant(word) for agent in env.possible_agents} for word in "ab"}
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    cross_play(env, teams, starts, folder=tmp_path / "both")
    names = ["b+b", "a+b", "b+a"]  # one is not on the page
    page = html(*(RunFolder(tmp_path / "both" / "cells" / name) for name in names))
    matrix = page[page.index('<table data-name="last_reward_mean">') :]
    matrix = matrix[: matrix.index("</table>")]
    rows = re.findall(r"<tr>(.*?)</tr>", matrix, re.DOTALL)[1:]
    links = [re.findall(r'<td[^>]*>(?:<a href="#run=(\d)">)?([\d.]+)', row) for row in rows]
    assert links == [[("", "1.00"), ("1", "0.00")], [("2", "0.00"), ("0", "1.00")]]
    text = words(RunFolder(tmp_path / "both" / "cells" / "a+b"))
    assert "both: player_1 is from the run of the column" in text
    assert "reward: self-play 1.00, cross-play 0.00" in text
    assert "the difference is \u22121.00" in text


def test_the_keys_in_which_configurations_differ_are_listed(tmp_path: Path) -> None:
    runs = [finished(RunFolder(tmp_path / name), seed) for seed, name in enumerate("ab")]
    for run, rate in zip(runs, (1, 2), strict=True):
        text = f"learner: {{rate: {rate}, same: 3}}\nseed: {rate}\noutput: {{name: x}}\n"
        run.config.write_text(text, encoding="utf-8")
    assert config_differences(experiments(list(map(read_results, runs)))) == {
        "learner.rate": [1, 2]
    }
    text = words(*runs)
    assert "Differences of the configurations" in text and "learner.rate" in text
    assert "learner.same" not in text


def test_the_band_of_a_curve_is_an_interval_from_three_seeds_on() -> None:
    values = np.array([[1.0], [2.0], [3.0]])
    low, high = _band(values[:2])
    assert (low[0], high[0]) == (1.0, 2.0)
    low, high = _band(values)
    # Student's t for 2 degrees of freedom is 4.303.
    assert high[0] - 2.0 == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert low[0] == pytest.approx(4.0 - high[0])
