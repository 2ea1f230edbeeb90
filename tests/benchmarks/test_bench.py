"""Suites from end to end, in processes, with policies that load no model; those with models are slow."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks.__main__ import main
from llm_decpomdp.benchmarks.bench.job import DONE, FAILED
from llm_decpomdp.benchmarks.bench.league import read_league
from llm_decpomdp.storage import read_json_lines

SUITE = """# Who says something at random.
config: demo
override: [dataset.source=bundled]
tasks: 3
samples: 2
cells:
  - {method: random, seeds: [0, 1, 2]}
  - {name: broken, method: naive_concatenation, override: env.num_agents=1}
  - {method: gold}
"""

LONG = """# Long enough to be stopped in the middle.
config: demo
override: [dataset.source=bundled]
tasks: 3
samples: 60
cells: [{method: random, seeds: [0, 1]}]
"""

two_at_once = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2,
    reason="looks into /proc for two processes at once",
)

PATIENCE = 60
"""Seconds until a process that should end by itself is said to hang."""

TRAINED = """# A training that can be stopped.
config: demo
override:
  - model.name=tiny-random
  - model.max_new_tokens=4
  - dataset.source=bundled
  - algorithm.max_updates=6
  - algorithm.num_generations=2
  - evaluation.num_tasks=1
  - output.checkpoint_every=1
  - output.report=false
tasks: 2
cells: [{method: train}]
"""


def call(*arguments: str) -> int:
    """The exit code of `bench`, run here."""
    with pytest.raises(SystemExit) as stop:
        main(["bench", *arguments])
    code = stop.value.code
    assert isinstance(code, int)
    return code


def suite(folder: Path, text: str = SUITE) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    return str(path)


def results(output: Path) -> dict[str, Any]:
    """All that the jobs of a suite have found, without times: episodes to the byte, and summaries."""
    found: dict[str, Any] = {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.glob("*/**/episodes.jsonl")
    }
    for path in output.glob("*/summary.json"):
        summary = json.loads(path.read_text())
        del summary["seconds"], summary["seconds_per_episode"]
        found[str(path.relative_to(output))] = summary
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the suite after one call, whose exit code was 1."""
    folder = tmp_path_factory.mktemp("bench")
    assert call(suite(folder), "--output", str(folder / "out"), "--cores", "2") == 1
    return folder / "out"


def test_a_broken_cell_does_not_stop_the_others_and_its_traceback_stands_in_the_report(
    finished: Path,
) -> None:
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
    assert "Failed: broken, seed 0." in (finished / "league.md").read_text()
    (job,) = read_league(finished).failed
    assert (job.name, job.error) == ("broken, seed 0", error.strip())


def test_one_process_at_a_time_finds_the_same_as_several(finished: Path, tmp_path: Path) -> None:
    arguments = ("--cores", "1", "--only", "random", "--only", "gold")
    assert call(suite(tmp_path), "--output", str(tmp_path / "out"), *arguments) == 0
    expected = {name: found for name, found in results(finished).items() if "broken" not in name}
    assert results(tmp_path / "out") == expected
    assert len(expected) == 8
    said = [expected[f"random-seed-{seed}/episodes.jsonl"] for seed in (0, 1, 2)]
    assert len(set(said)) == 3


def test_what_is_there_is_not_done_again_what_failed_is_and_more_samples_are_added(
    finished: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    shutil.copytree(finished, output)
    before = {path: path.stat().st_mtime_ns for path in output.glob("*/status.json")}
    assert call(suite(tmp_path), "--output", str(output)) == 1
    again = {path.parent.name for path, then in before.items() if path.stat().st_mtime_ns > then}
    assert again == {"broken-seed-0"}
    mended = SUITE.replace("env.num_agents=1", "env.num_agents=2").replace(
        "method: naive_concatenation", "method: gold"
    )
    assert call(suite(tmp_path, mended), "--output", str(output)) == 0
    more = mended.replace("samples: 2", "samples: 3")
    assert call(suite(tmp_path, more), "--output", str(output), "--only", "gold") == 0
    rows = list(read_json_lines(output / "gold-seed-0" / "episodes.jsonl"))
    assert [row["sample"] for row in rows] == [0] * 3 + [1] * 3 + [2] * 3


def test_a_suite_that_changed_is_refused_before_anything_is_done(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = SUITE.replace("bundled]", "bundled, env.num_turns=2]")
    before = results(finished)
    assert call(suite(tmp_path, changed), "--output", str(finished)) == 2
    told = capsys.readouterr().err
    assert "env.num_turns was 1 and is 2" in told and "remove that folder" in told
    assert results(finished) == before
    assert json.loads((finished / "suite.json").read_text())["cells"][0]["override"] == [
        "dataset.source=bundled"
    ]


def start(folder: Path, text: str, *, background: bool = False) -> subprocess.Popen[bytes]:
    """A bench of a suite; in the `background` of a script it ignores SIGINT, as all that it starts do."""
    command = [sys.executable, "-m", "llm_decpomdp.benchmarks", "bench", suite(folder, text)]
    return subprocess.Popen(
        [*command, "--output", str(folder / "out"), "--cores", "2"],
        stderr=subprocess.PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN) if background else None,
    )


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.02)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def workers(folder: Path) -> list[int]:
    """The processes of jobs in a folder."""
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if f"bench.cell\0{folder}".encode() in _read(path)
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the long suite finds when nothing stops it."""
    folder = tmp_path_factory.mktemp("unharmed")
    assert call(suite(folder, LONG), "--output", str(folder / "out")) == 0
    return results(folder / "out")


def jobs(folder: Path) -> list[Path]:
    """The folders of both seeds of the long suite; on a busy machine one may be far ahead."""
    return [folder / "out" / f"random-seed-{seed}" for seed in (0, 1)]


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The long suite, with some episodes of both seeds played."""
    process = start(tmp_path, LONG)
    times = [folder / "times.jsonl" for folder in jobs(tmp_path)]
    wait_for(lambda: all(3 < lines(path) for path in times), process)
    yield process
    process.kill()
    process.wait()


def rest(tmp_path: Path) -> dict[str, Any]:
    """What the long suite has found after it was started again."""
    assert call(suite(tmp_path, LONG), "--output", str(tmp_path / "out")) == 0
    return results(tmp_path / "out")


@two_at_once
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_bench_that_is_stopped_takes_its_jobs_with_it_and_goes_on_as_if_it_had_not_been(
    number: signal.Signals,
    begun: subprocess.Popen[bytes],
    unharmed: dict[str, Any],
    tmp_path: Path,
) -> None:
    begun.send_signal(number)
    assert begun.wait(PATIENCE) == (-number if number == signal.SIGKILL else 130)
    until = time.monotonic() + PATIENCE
    while left := workers(tmp_path / "out"):
        assert time.monotonic() < until, left
        time.sleep(0.02)
    cut = [folder for folder in jobs(tmp_path) if 0 < lines(folder / "episodes.jsonl") < 180]
    assert cut and not any((folder / "status.json").exists() for folder in cut)
    assert rest(tmp_path) == unharmed


@two_at_once
def test_a_bench_in_the_background_is_stopped_with_its_jobs(
    unharmed: dict[str, Any], tmp_path: Path
) -> None:
    process = start(tmp_path, LONG, background=True)
    times = [folder / "times.jsonl" for folder in jobs(tmp_path)]
    wait_for(lambda: all(3 < lines(path) for path in times), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 130
    assert not any((folder / "status.json").exists() for folder in jobs(tmp_path))
    assert rest(tmp_path) == unharmed


@two_at_once
def test_a_job_that_is_killed_fails_alone_and_is_made_good(
    begun: subprocess.Popen[bytes], unharmed: dict[str, Any], tmp_path: Path
) -> None:
    seed, worker = next(
        (seed, worker) for seed, folder in enumerate(jobs(tmp_path)) for worker in workers(folder)
    )
    os.kill(worker, signal.SIGKILL)
    told = begun.communicate()[1].decode()
    assert begun.returncode == 1
    ended = "The process ended without a traceback: killed by SIGKILL"
    assert f"FAILED: random, seed {seed}: {ended}" in told
    assert f"done: random, seed {1 - seed}" in told
    assert rest(tmp_path) == unharmed


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the training suite finds when nothing stops it."""
    folder = tmp_path_factory.mktemp("trained")
    assert start(folder, TRAINED).wait() == 0
    return results(folder / "out")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_training_that_is_stopped_goes_on_as_if_it_had_not_been(
    number: signal.Signals, trained: dict[str, Any], tmp_path: Path
) -> None:
    process = start(tmp_path, TRAINED)
    metrics = tmp_path / "out" / "train-seed-0" / "training" / "metrics.jsonl"
    wait_for(lambda: lines(metrics) >= 4, process)
    process.send_signal(number)
    process.wait()
    assert start(tmp_path, TRAINED).wait() == 0
    found = results(tmp_path / "out")
    assert found == trained
    assert {name.partition("/")[2] for name in found} == {
        *("episodes.jsonl", "summary.json", "training/episodes.jsonl")
    }
    assert not (metrics.parent / "checkpoints").exists()
    assert "continuing after update" in (metrics.parents[1] / "log.txt").read_text()


def test_a_dry_run_counts_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("laptop", "--dry-run") == 0
    told = capsys.readouterr().out
    assert (
        "16 problems of coophumaneval test[:16] (bundled), a stand-in: the benchmark's own" in told
    )
    line = next(line for line in told.splitlines() if "│ magrpo " in line)
    numbers = [cell.strip() for cell in line.split("│")[4:-1]]
    # 14 updates of 2 starts and 8 samples, 3 evaluations of 16; two agents, 56 tokens, three seeds
    training = 3 * (14 * 2 * 8 + 3 * 16) * 2 * 56
    assert numbers == ["42", "672", f"{training:,}", "192", f"{192 * 2 * 56:,}"]
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_names_the_cell_that_cannot_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert call(suite(tmp_path), "--dry-run", "--output", str(output)) == 1
    told = capsys.readouterr().out
    assert "PROBLEM: broken: naive_concatenation is about a team" in told
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a suite"),
        (["smok"], "unknown suite 'smok'; did you mean 'smoke'"),
        (["smoke", "--only", "gld"], "unknown cell 'gld'; did you mean 'gold'"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments) == 2
    told = capsys.readouterr().err.strip()
    assert message in told and "\n" not in told


def test_list_tells_what_the_suites_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--list") == 0
    assert "smoke   Every part once" in capsys.readouterr().out


@two_at_once
def test_processes_of_one_core_have_different_ones(
    begun: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    sets = [os.sched_getaffinity(worker) for worker in workers(tmp_path / "out")]
    usable = os.sched_getaffinity(0)
    assert [len(cores) for cores in sets] == [1, 1] and set().union(*sets) <= usable
    assert sets[0].isdisjoint(sets[1]) == (len(usable) > 1)
    assert begun.poll() is None
