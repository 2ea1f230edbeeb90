"""The league of a suite that is written by hand: three teams on six tasks, each with a word to be written."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.agents.scripted import Constant, Gold
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.play import REWARD
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.evaluation.statistics import student_quantile
from llm_decpomdp.benchmarks.report.document import report
from llm_decpomdp.benchmarks.report.suites import write_suite_report
from llm_decpomdp.benchmarks.suites.leaderboard import (
    LeaderboardRow,
    read_leaderboard,
    table_cells,
    to_markdown,
    to_tables,
    write_leaderboard,
)
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Policy, Team
from tests.benchmarks.evaluations import starts_of
from tests.benchmarks.report.test_browser import CHROMIUM, PHONE, show

Make = Callable[..., DecPOMDPEnv]

WORD = "apple"  # the first task's
TEAMS: Mapping[str, Mapping[int, Callable[[], Policy]]] = {
    "untrained": {0: lambda: Constant("nothing"), 1: lambda: Constant("nothing")},
    "learned": {0: lambda: Constant(WORD), 1: Gold},
    "gold": {0: Gold},
}
"""The policy of both agents by cell and seed; `learned` has seeds that differ."""

DONE = {"state": "done", "amount": {"tasks": None, "samples": 1}}
"""How a job of these suites ends."""


def team(policy: Callable[[], Policy]) -> Team:
    return {"left_0": policy(), "right_0": policy()}


@pytest.fixture
def output(make_word_env: Make, tmp_path: Path) -> Path:
    """The folder of a suite: `learned` wants a third seed, which has failed; `late` was not measured yet."""
    env = make_word_env(num_turns=1)
    starts = starts_of(env)
    for name, seeds in TEAMS.items():
        for seed, policy in seeds.items():
            folder = tmp_path / f"{name}-seed-{seed}"
            evaluate(env, team(policy), starts, folder=folder, seed=seed, about={"cell": name})
            (folder / "status.json").write_text(json.dumps(DONE))
    failed = tmp_path / "learned-seed-2"
    failed.mkdir()
    status = {"state": "failed", "error": "Traceback\nMemoryError: <b>all</b> is full\n"}
    (failed / "status.json").write_text(json.dumps(status))
    cells = [
        cell("learned", "magrpo", 0, 1, 2),
        cell("untrained", "untrained", 0, 1),
        cell("gold", "gold", 0),
        cell("late", "gold", 7),
    ]
    suite = {"name": "words", "description": "Words.", "command": ["llm-decpomdp", "bench", "a b"]}
    (tmp_path / "suite.json").write_text(json.dumps({**suite, "cells": cells}))
    return tmp_path


def cell(name: str, method: str, *seeds: int) -> dict[str, Any]:
    return {"name": name, "method": method, "seeds": seeds, "tasks": None, "samples": 1}


def lines(output: Path) -> dict[str, LeaderboardRow]:
    (table,) = read_leaderboard(output).tables
    return {line.name: line for line in table.lines}


def test_the_best_comes_first_and_all_are_compared_with_the_untrained_cell(output: Path) -> None:
    (table,) = read_leaderboard(output).tables
    assert [line.name for line in table.lines] == ["gold", "learned", "untrained"]
    assert (table.against, table.tasks) == ("untrained", 6)
    assert lines(output)["untrained"].comparisons == {}


def test_the_numbers_are_those_of_a_calculation_by_hand(output: Path) -> None:
    """`learned` earns 1 on one task with its first seed, and on all six with its second."""
    found = lines(output)
    reward = found["learned"].estimates[REWARD]
    assert reward.value == pytest.approx((1 / 6 + 1) / 2)
    of_seeds = student_quantile(0.95, 1) * (1 - 1 / 6) / 2  # for the means 1/6 and 1
    assert reward.high is not None and of_seeds < reward.high - reward.value < 1.01 * of_seeds
    assert found["gold"].estimates[REWARD].value == 1.0
    assert found["untrained"].estimates["pass@1"].value == 0.0
    assert found["untrained"].estimates["pass@1"].high == pytest.approx(1 - 0.05 ** (1 / 6))
    comparison = found["learned"].comparisons[REWARD]
    assert comparison.difference.value == pytest.approx(7 / 12)
    # of all pairs of seeds and tasks, 7 of 12 are won, and the rest are ties
    assert comparison.improvement.value == pytest.approx((7 + 0.5 * 5) / 12)
    assert found["gold"].comparisons[REWARD].improvement.value == 1.0


def test_a_line_knows_its_seeds_and_the_command_that_makes_it_again(output: Path) -> None:
    learned = lines(output)["learned"]
    assert (learned.seeds, learned.planned) == ((0, 1), 3)
    assert learned.command == "llm-decpomdp bench 'a b' --only learned"


def test_what_is_missing_is_told(output: Path) -> None:
    league = read_leaderboard(output)
    assert [job.name for job in league.failed] == ["learned, seed 2"]
    assert [job.name for job in league.missing] == ["late, seed 7"]
    text = to_markdown(league)
    assert "Failed: learned, seed 2." in text and "Not measured yet: late, seed 7." in text


def test_the_table_can_be_pasted_and_has_seeds_and_intervals(output: Path) -> None:
    league = read_leaderboard(output)
    head, rows = table_cells(league.tables[0])
    assert head[:4] == ["arm", "seeds", "reward", "against untrained"]
    assert head[4:] == ["P(better)", "seeds needed", "tests passed", "pass@1"]
    gold = ["gold", "1", "1.00", "+1.00", "1.00 (0.61 to 1.00)"]
    assert rows[0][:5] == gold
    assert rows[1][1] == "2 of 3" and rows[1][2].startswith("0.58 (")
    assert rows[1][5] == str(lines(output)["learned"].comparisons[REWARD].seeds_needed)
    assert rows[2][3:6] == ["—", "—", "—"]
    text = to_markdown(league)
    assert "**word_v0, 6 problems (words test), one episode per problem and seed**" in text
    marked = [line for line in text.splitlines() if line.startswith("|")]
    assert len(marked) == 5 and {line.count("|") for line in marked} == {9}
    assert "Made by `llm-decpomdp bench 'a b'`" in text
    (shown,) = to_tables(league)
    assert [column.header for column in shown.columns][-1] == "tests passed"


def test_the_csv_has_every_number_of_every_cell(output: Path) -> None:
    write_leaderboard(read_leaderboard(output), output)
    with (output / "leaderboard.csv").open() as file:
        found = {(row["arm"], row["measure"]): row for row in csv.DictReader(file)}
    row = found["learned", REWARD]
    assert (row["seeds"], row["tasks"], row["against"]) == ("2", "6", "untrained")
    assert float(row["value"]) == float(row["difference"]) == pytest.approx(7 / 12)
    assert float(row["difference_low"]) <= 7 / 12 <= float(row["difference_high"])
    assert found["untrained", REWARD]["difference"] == ""
    assert ("gold", "tests_passed") in found


def test_other_tasks_have_a_separate_table(output: Path, make_word_env: Make) -> None:
    env = make_word_env()
    folder = output / "late-seed-7"
    evaluate(env, team(Gold), [Start(task_id="word/3")], folder=folder, seed=7)
    (folder / "status.json").write_text(json.dumps(DONE))
    first, second = read_leaderboard(output).tables
    assert (first.tasks, second.tasks) == (6, 1)
    (late,) = second.lines
    assert second.against == "late" and late.comparisons == {}


def test_other_teams_come_last(output: Path, make_word_env: Make) -> None:
    path = output / "gold-seed-0" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["identity"]["team"] = ["main_0"]
    path.write_text(json.dumps(manifest))
    (table,) = read_leaderboard(output).tables
    assert [line.name for line in table.lines] == ["learned", "untrained", "gold"]
    assert set(table.lines[-1].comparisons) == {"tests_passed", "pass@1"}
    page = write_suite_report(output).read_text()
    assert "Teams of other agents (gold) have another maximum" in page


def test_a_saved_team_with_its_agents_in_another_order_is_the_same_team(output: Path) -> None:
    for seed in (0, 1):
        path = output / f"learned-seed-{seed}" / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["identity"]["team"].reverse()
        path.write_text(json.dumps(manifest))
    assert REWARD in lines(output)["learned"].comparisons


def test_a_table_asks_for_tasks_where_there_are_enough_seeds(output: Path) -> None:
    (table,) = read_leaderboard(output).tables
    (line,) = (line for line in table.lines if line.name == "learned")
    found = replace(line.comparisons[REWARD], seeds_needed=None, more_tasks=True)
    changed = replace(line, comparisons={REWARD: found})
    head, rows = table_cells(replace(table, lines=(changed,)))
    assert rows[0][head.index("seeds needed")] == "more tasks"


def test_jobs_that_have_measured_another_amount_are_missing(output: Path) -> None:
    less = {**DONE, "amount": {"tasks": 3, "samples": 1}}
    (output / "learned-seed-1" / "status.json").write_text(json.dumps(less))
    assert lines(output)["learned"].seeds == (0,)
    missing = [job.name for job in read_leaderboard(output).missing]
    assert missing == ["learned, seed 1", "late, seed 7"]


def test_reference_has_the_same_environment(output: Path, make_word_env: Make) -> None:
    path = output / "suite.json"
    suite = json.loads(path.read_text())
    suite["cells"] += [cell("talks", "untrained", 0), cell("talked", "magrpo", 0)]
    path.write_text(json.dumps(suite))
    env = make_word_env(num_turns=2)
    starts = starts_of(env)
    for name, policy in (("talks", lambda: Constant("nothing")), ("talked", Gold)):
        folder = output / f"{name}-seed-0"
        evaluate(env, team(policy), starts, folder=folder, about={"cell": name})
        (folder / "status.json").write_text(json.dumps(DONE))
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["identity"]["environment"] = {"id": "word-v0", "num_turns": 2}
        (folder / "manifest.json").write_text(json.dumps(manifest))
    found = lines(output)
    assert {name: line.against for name, line in found.items()} == {
        **dict.fromkeys(("learned", "gold"), "untrained"),
        **{"untrained": None, "talks": None, "talked": "talks"},
    }
    league = read_leaderboard(output)
    head, rows = table_cells(league.tables[0])
    assert head[2:4] == ["reward at the end", "against untrained"]
    shown = {row[0]: row[3] for row in rows}
    assert shown["talked"].endswith("against talks") and "against" not in shown["learned"]
    assert "The reward at the end is that of an episode's last turn." in to_markdown(league)
    write_leaderboard(league, output)
    with (output / "leaderboard.csv").open() as file:
        against = {(row["arm"], row["measure"]): row["against"] for row in csv.DictReader(file)}
    assert against["talked", REWARD] == "talks"
    assert "Teams of other agents" not in write_suite_report(output).read_text()


def test_a_cell_is_compared_with_the_one_that_it_names(output: Path) -> None:
    path = output / "suite.json"
    suite = json.loads(path.read_text())
    suite["cells"][2]["against"] = "learned"
    path.write_text(json.dumps(suite))
    found = lines(output)
    assert (found["gold"].against, found["learned"].against) == ("learned", "untrained")
    assert found["gold"].comparisons[REWARD].difference.value == pytest.approx(5 / 12)
    suite["cells"] = [entry for entry in suite["cells"] if entry["name"] != "learned"]
    path.write_text(json.dumps(suite))
    assert lines(output)["gold"].against == "untrained"  # the other one is not measured


def test_the_report_has_the_league_its_commands_and_failures(output: Path) -> None:
    path = report([output], None, False)
    assert path == output / "report.html"
    page = path.read_text()
    assert 'data-name="leaderboard-1"' in page
    assert "llm-decpomdp bench &#39;a b&#39; --only learned" in page
    assert "MemoryError: &lt;b&gt;all&lt;/b&gt; is full" in page
    assert "not measured yet" in page.lower()
    assert '<a href="gold-seed-0">gold-seed-0</a>' in page
    assert 'id="transcripts"' in page and 'id="learning"' not in page


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_fits_a_phone_and_opens_without_errors(output: Path) -> None:
    name, view = write_suite_report(output).name, "task=word/3"
    ((page, width),) = show(output, [f"{name}#{view}"])
    assert width == PHONE
    assert "5 of 30 episodes" in page  # one of each cell and seed
    assert "evaluation · learned, seed 1" in page


def test_a_folder_without_a_suite_or_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no suite: make one with llm-decpomdp bench"):
        read_leaderboard(tmp_path)
    suite = {"name": "x", "description": "", "command": ["c"], "cells": [cell("a", "gold", 0)]}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    with pytest.raises(ConfigError, match="is finished yet: go on with c"):
        report([tmp_path], None, False)
    with pytest.raises(ConfigError, match="--files is for the folders of its trainings"):
        report([tmp_path], None, True)
