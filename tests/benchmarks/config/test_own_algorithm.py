"""An algorithm of a user's own is named by its import path, as `module:NAME`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_decpomdp.algorithms import ALGORITHMS, NAMES
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.inputs import find_config
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.train import train

SOURCE = """
import numpy as np
from llm_decpomdp.algorithms import Algorithm

def half(returns):
    return np.full_like(returns, 0.5)

HALF = Algorithm("half", baseline=half, description="Half a point.")
NUMBER = 3
"""


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name of an algorithm in a module in the current folder."""
    (tmp_path / "mine_of_a_user.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "mine_of_a_user:HALF"
    sys.modules.pop("mine_of_a_user", None)


def test_it_trains_and_its_run_folder_resumes_it(
    half: str, quick: list[str], tmp_path: Path
) -> None:
    own = [f"algorithm.name={half}", "output.checkpoint_every=1", "output.report=false"]
    result = train(load_config(find_config("demo"), [*quick, *own]), "demo")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["algorithm"] == half
    assert manifest["description"]["algorithm"] == "Half a point."
    updates = result.summary["updates"]
    longer = resume(tmp_path / "run", [f"algorithm.max_updates={updates + 1}"])
    assert longer.summary["updates"] == updates + 1
    assert longer.config.algorithm.name == half


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent_module:HALF", "algorithm.name: .*there is no module 'absent_module'"),
        ("mine_of_a_user:WHOLE", "mine_of_a_user has no algorithm 'WHOLE': assign an .*Algorithm"),
        ("mine_of_a_user:NUMBER", "mine_of_a_user has no algorithm 'NUMBER'"),
        ("magrp", "algorithm.name: .*did you mean 'magrpo'.* One of your own is 'module:NAME'"),
    ],
)
def test_what_is_no_algorithm_is_refused_with_the_remedy(
    half: str, name: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, [f"algorithm.name={name}"])


def test_it_is_found_as_the_others_are_and_not_among_them(half: str) -> None:
    assert ALGORITHMS[half].name == "half"
    assert half not in ALGORITHMS and len(ALGORITHMS) == len(NAMES)
