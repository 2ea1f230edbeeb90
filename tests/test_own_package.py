"""The example package, built and installed by pip, adds its names to the commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.packages import EXAMPLE
from tests.support.processes import ROOT, python


@pytest.mark.slow
def test_the_example_package_is_installed_and_its_names_are_used(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(EXAMPLE, source)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    path = os.pathsep.join([str(ROOT), str(site)])
    here = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}}
    command = ("-m", "llm_decpomdp")
    assert "terse_agents:terse (terse-agents 0.1.0)" in python(*command, "list", **here).stdout
    names = ["env.id=terse-v0", "algorithm.name=mamedian", "external.mode=cheerful"]
    partner = ["team={player_0: learner, player_1: partner}", "policies.partner.kind=parrot"]
    quick = ["model.name=tiny-random", "algorithm.max_updates=2", "output.name=own"]
    quick += ["output.trackers={lines: true}", "output.checkpoint_every=1"]
    python(*command, "train", "--config", "demo", "--override", *names, *partner, *quick, **here)
    assert "terse-v0" in (tmp_path / "runs" / "own" / "lines.txt").read_text()
    longer = ("--resume", "runs/own", "--override", "algorithm.max_updates=3")
    python(*command, "train", *longer, **here)
    python(*command, "eval", "--baseline", "parrots", "--env", "terse-v0", **here)
    shutil.rmtree(site)
    failure = python(*command, "train", *longer[:2], check=False, **here)
    assert failure.returncode != 0 and "pip install terse-agents" in failure.stderr
