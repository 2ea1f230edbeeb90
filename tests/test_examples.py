"""The examples run as they are, and the teams in them learn."""

from __future__ import annotations

import re

import pytest

from tests.support.processes import ROOT, python

LEARNERS = ("training_loop.py", "own_environment.py")
"""The examples that train from scratch, offline and in seconds."""


@pytest.mark.parametrize("name", [pytest.param(LEARNERS[0], marks=pytest.mark.slow), LEARNERS[1]])
def test_an_example_runs_offline_and_its_team_learns(name: str) -> None:
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    run = python(str(ROOT / "examples" / name), env=environment | {"PATH": ""}, timeout=120)
    rewards = [float(found) for found in re.findall(r"mean reward (\d\.\d\d)", run.stdout)]
    assert len(rewards) == 6
    assert rewards[-1] >= 0.9 and rewards[-1] > rewards[0], rewards
