"""Suites from end to end, in processes, with policies that load no model; those with models are slow."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.suites import cost
from llm_decpomdp.benchmarks.suites.job import DONE, FAILED, Job
from llm_decpomdp.benchmarks.suites.leaderboard import read_leaderboard
from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.benches import SUITE, bench, results, suite


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the suite after one call, whose exit code was 1."""
    folder = tmp_path_factory.mktemp("bench")
    assert bench(suite(folder), "--output", str(folder / "out"), "--cores", "2") == 1
    return folder / "out"


def test_failed_arm_is_reported_and_others_finish(finished: Path) -> None:
    states = {
        path.parent.name: json.loads(path.read_text()) for path in finished.glob("*/status.json")
    }
    assert {name: status["state"] for name, status in states.items()} == {
        **dict.fromkeys(("random-seed-0", "random-seed-1", "random-seed-2", "gold-seed-0"), DONE),
        "broken-seed-0": FAILED,
    }
    error = states["broken-seed-0"]["error"]
    assert error.startswith("Traceback")
    assert error.strip().endswith("there is one agent: set env.num_agents")
    page = (finished / "report.html").read_text()
    assert "Traceback" in page and "there is one agent: set env.num_agents" in page
    assert "Failed: broken, seed 0." in (finished / "leaderboard.md").read_text()
    (job,) = read_leaderboard(finished).failed
    assert (job.name, job.error) == ("broken, seed 0", error.strip())


@pytest.mark.slow
def test_one_process_at_a_time_finds_the_same_as_several(finished: Path, tmp_path: Path) -> None:
    arguments = ("--cores", "1", "--only", "random", "--only", "gold")
    assert bench(suite(tmp_path), "--output", str(tmp_path / "out"), *arguments) == 0
    expected = {name: found for name, found in results(finished).items() if "broken" not in name}
    assert results(tmp_path / "out") == expected
    assert len(expected) == 8
    said = [expected[f"random-seed-{seed}/episodes.jsonl"] for seed in (0, 1, 2)]
    assert len(set(said)) == 3


def test_second_call_repeats_only_failed_jobs(finished: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    shutil.copytree(finished, output)
    before = {path: path.stat().st_mtime_ns for path in output.glob("*/status.json")}
    assert bench(suite(tmp_path), "--output", str(output)) == 1
    again = {path.parent.name for path, then in before.items() if path.stat().st_mtime_ns > then}
    assert again == {"broken-seed-0"}
    mended = SUITE.replace("env.num_agents=1", "env.num_agents=2").replace(
        "method: naive_concatenation", "method: gold"
    )
    assert bench(suite(tmp_path, mended), "--output", str(output)) == 0
    more = mended.replace("samples: 2", "samples: 3")
    assert bench(suite(tmp_path, more), "--output", str(output), "--only", "gold") == 0
    rows = list(read_json_lines(output / "gold-seed-0" / "episodes.jsonl"))
    assert [row["sample"] for row in rows] == [0, 1] * 3 + [2] * 3


def test_a_suite_that_changed_is_refused_before_anything_is_done(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = SUITE.replace("bundled]", "bundled, env.num_turns=2]")
    before = results(finished)
    assert bench(suite(tmp_path, changed), "--output", str(finished)) == 2
    told = capsys.readouterr().err
    assert "env.num_turns was 1 and is 2" in told and "remove that folder" in told
    assert results(finished) == before
    assert json.loads((finished / "suite.json").read_text())["cells"][0]["override"] == [
        "dataset.source=bundled"
    ]


def test_a_dry_run_counts_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bench("laptop", "--dry-run") == 0
    told = capsys.readouterr().out
    assert "16 problems of coophumaneval test[:16] (bundled), a stand-in\n" in told
    line = next(line for line in told.splitlines() if "│ magrpo " in line)
    numbers = [cell.strip() for cell in line.split("│")[4:-1]]
    # 14 updates of 2 starts and 8 samples, 3 evaluations of 16; two agents, 56 tokens, three seeds
    training = 3 * (14 * 2 * 8 + 3 * 16) * 2 * 56
    assert numbers == ["42", "672", f"{training:,}", "192", f"{192 * 2 * 56:,}", "4.3"]
    assert list(tmp_path.iterdir()) == []


def test_dry_run_names_broken_arms_and_computes_each_cost_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arms: list[str] = []

    def compute(job: Job) -> cost.JobCost:
        arms.append(job.arm.name)
        return job_cost(job)

    job_cost, output = cost.job_cost, tmp_path / "out"
    monkeypatch.setattr(cost, "job_cost", compute)
    assert bench(suite(tmp_path), "--dry-run", "--output", str(output)) == 1
    told = capsys.readouterr().out
    assert "PROBLEM: broken: naive_concatenation needs a team" in told
    assert not output.exists()
    assert sorted(arms) == ["broken", "gold", "random"]


def test_dry_run_logs_a_warning_of_shared_data_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv("LLM_DECPOMDP_DATA", str(tmp_path / folder))
        text = "config: demo\noverride: [dataset.source=auto]\nmethod: gold\narms: [{name: a}, {name: b}]\n"
        assert bench(suite(tmp_path, text), "--dry-run", "--output", str(tmp_path / "out")) == 0
        assert caplog.text.count(f"{folder} has no") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a suite"),
        (["smok"], "unknown suite 'smok'; did you mean 'smoke'"),
        (["smoke", "--only", "gld"], "unknown arm 'gld'; did you mean 'gold'"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(*arguments) == 2
    told = capsys.readouterr().err.strip()
    assert message in told and "\n" not in told


def test_list_tells_what_the_suites_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--list") == 0
    assert re.search("^smoke +Every part once", capsys.readouterr().out, re.MULTILINE)


def test_folder_of_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "run"
    output.mkdir()
    (output / "config.yaml").write_text("seed: 1\n")
    assert bench("smoke", "--only", "gold", "--output", str(output)) == 2
    assert f"{output} already holds a run" in capsys.readouterr().err
    assert [path.name for path in output.iterdir()] == ["config.yaml"]
