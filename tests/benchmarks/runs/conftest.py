from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.benchmarks.runs.train import Result, train
from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.conftest import quick_overrides


@dataclass
class Runs:
    """Runs of seconds, by default in the folder `run`, and their files."""

    quick: list[str]
    path: Path
    made: Path
    """The folder of runs that tests share; see `copy`."""

    @property
    def model(self) -> str:
        """The folder of the tiny model."""
        return self.quick[0].removeprefix("model.name=")

    def config(self, *overrides: str, config: str | None = None) -> Config:
        """Read and check a configuration."""
        file = None if config is None else find_config(config)
        return load_config(file, [*self.quick, *overrides])

    def train(self, *overrides: str, config: str | None = None) -> Result:
        """Train by a configuration, or by the defaults."""
        return train(self.config(*overrides, config=config), config or "mine")

    def copy(self, *overrides: str, config: str | None = None) -> None:
        """Leave what `train` leaves, by a copy where another test has trained by the same arguments."""
        key = (config, *overrides)
        if key not in MADE:
            MADE[key] = Path(tempfile.mkdtemp(dir=self.made))
            Runs(quick_overrides(self.model, MADE[key]), MADE[key], self.made).train(
                *overrides, config=config
            )
        shutil.copytree(MADE[key], self.path, dirs_exist_ok=True)
        for path in self.path.glob("*/*"):  # configuration and manifest name their folder
            if path.suffix in (".yaml", ".json"):
                path.write_text(path.read_text().replace(str(MADE[key]), str(self.path)))

    def rows(self, kind: str | None = None, run: str = "run") -> list[dict[str, Any]]:
        """The metrics of a kind, or all."""
        rows = read_json_lines(self.path / run / "metrics.jsonl")
        return [row for row in rows if kind in (None, row["kind"])]

    def episodes(self, phase: str | None = None, run: str = "run") -> list[dict[str, Any]]:
        """The episodes of a phase, or all."""
        rows = read_json_lines(self.path / run / "episodes.jsonl")
        return [row for row in rows if phase in (None, row["phase"])]

    def manifest(self, run: str = "run") -> dict[str, Any]:
        """The manifest."""
        text: dict[str, Any] = json.loads((self.path / run / "manifest.json").read_text())
        return text


MADE: dict[tuple[str | None, ...], Path] = {}
"""Folders of the runs that tests share, by the arguments of `Runs.copy`."""


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def runs(quick: list[str], tmp_path: Path, made: Path) -> Runs:
    return Runs(quick, tmp_path, made)
