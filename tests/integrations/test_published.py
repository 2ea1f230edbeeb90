"""verifiers, OpenEnv and Inspect load the packages of an environment, each in an environment of its own."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.publish.environments import publish_environment

pytestmark = pytest.mark.slow

OPTIONS = {"num_secrets": 3}


@pytest.fixture
def package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """The folder of the library that the test names, on the path."""
    wheel = tmp_path / "llm_decpomdp-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"")
    folder = publish_environment("probe-relay-v0", tmp_path / "out", OPTIONS, wheel)[request.param]
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.mark.parametrize("package", ["verifiers"], indirect=True)
def test_verifiers_finds_tasks_and_seats(package: Path) -> None:
    loaders = pytest.importorskip("verifiers.v1.utils.loaders")
    config = loaders.resolve_env_config({"taskset": {"id": "probe-relay-v0"}})
    assert config.taskset.env_options == OPTIONS
    seats = set(config.model_extra)
    assert seats == set(config.taskset.team().possible_agents)
    taskset = loaders.taskset_class("probe-relay-v0")(config.taskset)
    assert len(list(taskset.load())) == OPTIONS["num_secrets"]


@pytest.mark.parametrize("package", ["openenv"], indirect=True)
def test_openenv_accepts_the_folder_and_serves_it(package: Path) -> None:
    pytest.importorskip("openenv.core")
    command = [sys.executable, "-m", "openenv.cli", "validate", str(package), "--level", "static"]
    report = subprocess.run(command, capture_output=True, text=True)
    assert report.returncode == 0 and "Verdict: PASS" in report.stdout, report.stdout
    assert importlib.import_module("server.app").app.title


@pytest.mark.parametrize("package", ["inspect"], indirect=True)
def test_inspect_makes_the_task_with_its_options(package: Path) -> None:
    pytest.importorskip("inspect_ai")
    module = importlib.import_module("probe_relay_v0")
    assert len(module.probe_relay_v0().dataset) == OPTIONS["num_secrets"]
    assert len(module.probe_relay_v0(num_secrets=2).dataset) == 2
