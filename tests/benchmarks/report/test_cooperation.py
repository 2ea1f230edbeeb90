"""The panels that show what the commands `credit` and `crossplay` have left in folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.agents.scripted import Constant, Gold
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.analysis import credit_summary
from llm_decpomdp.benchmarks.analysis.credit import Credit
from llm_decpomdp.benchmarks.analysis.credit_summary import credit_folder
from llm_decpomdp.benchmarks.analysis.crossplay import cross_play
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.runs.results import stored_rows
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.report_runs import finished, html, words
from tests.benchmarks.stored_runs import run_of


@pytest.fixture
def gold(tmp_path: Path) -> RunFolder:
    """An evaluation of the data's answers on two tasks."""
    env = make("coophumaneval-v0", split="test[:2]", source="bundled", num_turns=1)
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    evaluate(env, dict.fromkeys(env.possible_agents, Gold()), starts, folder=tmp_path / "gold")
    return RunFolder(tmp_path / "gold")


def test_without_the_files_there_are_no_panels(tmp_path: Path) -> None:
    page = html(finished(RunFolder(tmp_path)))
    assert 'id="cooperation"' in page
    assert 'id="credit"' not in page
    assert 'id="crossplay"' not in page


def test_credit_is_shown_with_what_its_columns_say(gold: RunFolder) -> None:
    credit_folder(gold.path)
    text = words(gold)
    assert "gold: reward 4.00 (4.00 to 4.00), of a silent team 0.00" in text
    shares = "1.65 (1.65 to 1.65) 2.90 (2.90 to 2.90) 0.00 (0.00 to 0.00)"
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
    assert "reward: self-play 1.00 (1.00 to 1.00), cross-play 0.00 (0.00 to 0.00)" in text
    assert "the difference is \u22121.00" in text
