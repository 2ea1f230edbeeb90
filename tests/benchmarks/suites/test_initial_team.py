"""Arms that train the team of another arm further."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.cli.suite_job import work
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.suites.job import Job, make_jobs, require_initial_teams
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
    assert not begin.folder.exists()
    for job in (begin, further):
        job.write()
        work(job)
    require_initial_teams([further])
    manifest = json.loads((further.training.path / "manifest.json").read_text())
    assert manifest["from"]["team"] == str(begin.final_team.resolve())
    config = (further.training.path / "config.yaml").read_text()
    assert str(begin.final_team.resolve()) in config


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
        ("[{method: train, initial_team: train}]", "unknown arm 'train'.*stand before this arm"),
        ("[{method: gold}, {method: train, initial_team: gold}]", "unknown arm 'gold'"),
        (
            "[{method: train}, {name: a, method: train, initial_team: train, seeds: [0, 1]}]",
            "initial_team: train has no seed 1",
        ),
    ],
)
def test_wrong_initial_teams_are_refused(arms: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, f"config: demo\narms: {arms}\n")
