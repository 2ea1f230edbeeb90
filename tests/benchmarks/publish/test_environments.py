"""Entries of an environment for hubs; the slow tests of `tests/integrations` load them with each library."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import tomllib
import yaml

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.publish.environments import HUBS, publish_environment
from tests.support.commands import call
from tests.support.processes import ROOT

OPTIONS = {"num_secrets": 3}


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "llm_decpomdp-0.1.0-py3-none-any.whl"
    path.write_bytes(b"")
    return path


def test_each_hub_has_a_package_without_unregistered_names(tmp_path: Path, wheel: Path) -> None:
    folders = publish_environment("probe-relay-v0", tmp_path / "out", OPTIONS, wheel)
    assert tuple(folders) == HUBS
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for hub, folder in folders.items():
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        assert project["dependencies"] == extras[hub]
        assert (folder / wheel.name).is_file()
        text = (folder / "README.md").read_text()
        assert f"pip install ./{wheel.name} ." in text
        assert "| default | probe-relay | `all` | 3 | bundled |" in text
        for path in folder.rglob("*.py"):
            ast.parse(path.read_text())
    server = (folders["openenv"] / "server" / "app.py").read_text()
    assert "OPTIONS: dict[str, Any] = {'num_secrets': 3}" in server
    manifest = yaml.safe_load((folders["openenv"] / "openenv.yaml").read_text())
    assert (manifest["name"], manifest["app"]) == ("probe_relay_v0", "server.app:app")
    assert f"./{wheel.name} ." in (folders["openenv"] / "Dockerfile").read_text()
    entry = tomllib.loads((folders["inspect"] / "pyproject.toml").read_text())["project"]
    assert entry["entry-points"]["inspect_ai"] == {"probe_relay_v0": "probe_relay_v0"}


def test_mistakes_are_named_before_anything_is_written(
    tmp_path: Path, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--output", str(tmp_path / "out"))
    cases = {
        "--wheel names the wheel": ("publish", "probe-halves-v0", *out),
        "takes only --output": ("publish", "probe-halves-v0", "--push", "me/env", *out),
        "'turns'": (
            "publish",
            "probe-halves-v0",
            "--wheel",
            str(wheel),
            "--env-option",
            "turns=2",
            *out,
        ),
        "are for environments": ("publish", str(tmp_path), "--wheel", str(wheel), *out),
    }
    for message, command in cases.items():
        assert call(*command) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError, match="already exists"):
        publish_environment("probe-halves-v0", tmp_path / "out", {}, wheel)
