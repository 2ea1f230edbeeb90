"""Arms that train the team of another arm further."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.cli.suite_job import work
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.suites.job import (
    DONE,
    Job,
    make_jobs,
    refuse_others,
    require_initial_teams,
)
from llm_decpomdp.benchmarks.suites.pool import JobPool, Running
from llm_decpomdp.benchmarks.suites.suite import load_suite

SUITE = """
config: demo
tasks: 1
override: [env.id=probe-lazy-v0, model.name=tiny-random, algorithm.max_updates=1, output.report=false]
arms:
  - {name: begin, method: train}
  - {name: further, method: train, initial_team: begin}
"""


def read(tmp_path: Path, text: str) -> list[Job]:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return make_jobs(load_suite(path), tmp_path / "out")


def test_an_arm_trains_the_team_of_an_earlier_arm(tmp_path: Path) -> None:
    begin, further = read(tmp_path, SUITE)
    assert "initial_team" not in begin.identity
    assert further.identity["initial_team"] == "begin"
    with pytest.raises(ConfigError, match=r"further trains the team of begin.* add --only begin"):
        require_initial_teams([further])
    require_initial_teams([begin, further])
    refuse_others([begin, further])
    assert not begin.folder.exists()
    for job in (begin, further):
        job.write()
        work(job)
    require_initial_teams([further])
    refuse_others([begin, further])
    changed = SUITE.replace(
        "{name: begin, method: train}", "{name: begin, method: train, greedy: true}"
    )
    with pytest.raises(ConfigError, match=r"further-seed-0 holds results .* another begin had"):
        refuse_others([read(tmp_path, changed)[1], read(tmp_path, changed)[0]])
    begin.end(DONE)
    shutil.rmtree(begin.final_team)
    with pytest.raises(ConfigError, match=r"does not exist: remove .*begin-seed-0, and train"):
        require_initial_teams([begin, further])


def test_the_run_names_its_initial_team(tmp_path: Path) -> None:
    begin, further = read(tmp_path, SUITE)
    for job in (begin, further):
        job.write()
        work(job)
    manifest = json.loads((further.training.path / "manifest.json").read_text())
    assert manifest["from"]["team"] == str(begin.final_team.resolve())
    config = (further.training.path / "config.yaml").read_text()
    assert str(begin.final_team.resolve()) in config


def test_a_job_stands_behind_that_of_its_initial_team(tmp_path: Path) -> None:
    text = SUITE.replace("begin, method: train", "begin, method: train, seeds: [0, 1, 2]")
    jobs = read(tmp_path, text.replace("team: begin", "team: begin, seeds: [2, 1]"))
    names = [f"{job.arm.name}-{job.seed}" for job in jobs]
    assert names == ["begin-0", "begin-1", "further-1", "begin-2", "further-2"]


class Recorder(JobPool):
    """A pool that starts no process."""

    def _start_job(self, job: Job, cores: frozenset[int]) -> Running:
        return Running(job, None, cores, tempfile.TemporaryFile())  # type: ignore[arg-type]


def test_a_job_waits_for_its_initial_team(tmp_path: Path) -> None:
    text = f"{SUITE}  - {{name: other, method: random}}\n"
    with (tmp_path / "lock").open("w") as lock:
        pool = Recorder([0, 1, 2], lock, lambda *_: None)
        pending = read(tmp_path, text)
        pool._start(pending)
        assert [running.job.arm.name for running in pool._running] == ["begin", "other"]
        pool._running.clear()
        pool._start(pending)
        assert [running.job.arm.name for running in pool._running] == ["further"]


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ("[{method: train}, {method: gold, initial_team: train}]", "gold does not train: drop"),
        ("[{method: train, initial_team: train}]", "unknown arm 'train'"),
        ("[{method: gold}, {method: train, initial_team: gold}]", "'gold' does not train: name"),
        (
            "[{name: a, method: train, initial_team: b}, {name: b, method: train}]",
            "a: initial_team: 'b' must stand above 'a'",
        ),
        (
            "[{name: a, method: train, initial_team: b}, {method: train}]",
            "unknown arm 'b'",
        ),
        (
            "[{method: train}, {name: a, method: train, initial_team: train, seeds: [0, 1]}]",
            "initial_team: train has no seed 1",
        ),
    ],
)
def test_wrong_initial_teams_are_refused(arms: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, f"config: demo\narms: {arms}\n")


def test_an_entry_of_several_configurations_names_its_initial_team_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    entries = "{name: a, method: train}, {name: b, method: train, initial_team: a}"
    path.write_text(f"config: [demo, magrpo_he_config]\narms: [{entries}]\n")
    arms = {arm.name: arm.initial_team for arm in load_suite(path).arms}
    assert arms == {
        "a-demo": None,
        "a-magrpo_he": None,
        "b-demo": "a-demo",
        "b-magrpo_he": "a-magrpo_he",
    }
