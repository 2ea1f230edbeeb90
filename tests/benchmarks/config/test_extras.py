"""Every command without the packages of the extra `train`: what needs none works, others say what to install."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from llm_decpomdp.utils.extras import install_command, missing_packages
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.report_runs import finished
from tests.benchmarks.stored_runs import run_of
from tests.support.processes import python

WITHOUT = """
import contextlib, importlib.machinery, importlib.metadata, io, json, sys
ABSENT = ("torch", "transformers", "peft", "accelerate", "matplotlib")
version = importlib.metadata.version

def hidden(name):
    if name in ABSENT:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else super().find_spec(name, path, target)

importlib.metadata.version = hidden
sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Finder
from llm_decpomdp.benchmarks.cli.main import main

for arguments in json.load(sys.stdin):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        try:
            main(arguments)
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    print(json.dumps([code, shown.getvalue()]))
"""
"""Runs commands in a process that has none of the packages."""

INSTALL = "pip install 'torch>="
PLAY = ("play", "coophumaneval-v0", "--source", "bundled")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Exit code and output of each command."""
    folder = tmp_path_factory.mktemp("extras")
    played = str(run_of(folder / "played").path)
    learned = str(finished(RunFolder(folder / "learned")).path)
    commands = {
        "list": ["list"],
        "doctor": ["doctor"],
        "play": [*PLAY, "--policy", "gold"],
        "play a model": [*PLAY, "--policy", "tiny-random"],
        "train": ["train", "--config", "demo"],
        "resume": ["train", "--resume", played],
        "demo": ["demo"],
        "eval": ["eval", "--config", "demo", "--output", str(folder / "eval")],
        "eval a baseline": [
            *("eval", "--config", "demo", "--baseline", "random", "--tasks", "1"),
            *("--output", str(folder / "random")),
        ],
        "eval a team without models": [
            *("eval", "--config", "demo", "--tasks", "1", "--output", str(folder / "constant")),
            *("--override", "team={aux_0: same, main_0: same}"),
            "policies={same: {kind: constant, text: hello}}",
        ],
        "eval a run": ["eval", "--team", played],
        "bench": ["bench", "smoke", "--dry-run"],
        "report": ["report", learned],
        "report files": ["report", learned, "--files"],
        "export": ["export", played],
        "export pairs": ["export", played, "--pairs", "--to", "jsonl"],
        "credit": ["credit", played],
        "rescore": ["rescore", played],
        "necessity": ["necessity", played, played],
        "crossplay": ["crossplay", played, learned],
        "audit": ["audit", "tldr-v1", "--source", "bundled"],
    }
    done = python("-c", WITHOUT, input=json.dumps(list(commands.values())))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: (code, text) for name, (code, text) in zip(commands, rows, strict=True)}


@pytest.mark.parametrize(
    "command",
    [
        *(
            "list",
            "doctor",
            "play",
            "eval a baseline",
            "eval a team without models",
            "report",
            "report files",
            "export",
            "export pairs",
        ),
        *("credit", "rescore", "audit"),
    ],
)
def test_what_needs_no_model_works(outcomes: dict[str, tuple[int, str]], command: str) -> None:
    code, shown = outcomes[command]
    assert code == 0, shown


@pytest.mark.parametrize("command", ["play a model", "train", "resume", "demo", "eval", "bench"])
def test_models_or_figures_need_extras(outcomes: dict[str, tuple[int, str]], command: str) -> None:
    code, shown = outcomes[command]
    assert code == 1
    assert INSTALL in shown and "Traceback" not in shown


@pytest.mark.parametrize("command", ["eval a run", "necessity", "crossplay"])
def test_a_run_that_does_not_fit_is_told_before_packages_are_missed(
    outcomes: dict[str, tuple[int, str]], command: str
) -> None:
    code, shown = outcomes[command]
    assert code == 2
    assert shown.startswith("error: ")


def test_a_report_says_where_its_figures_would_stand(outcomes: dict[str, tuple[int, str]]) -> None:
    page = Path(outcomes["report"][1].strip()).read_text(encoding="utf-8")
    assert "Mean team reward over the updates: not drawn, as matplotlib is not installed" in page
    assert "<svg" not in page


def test_an_old_python_is_told_that_learners_need_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    assert missing_packages(["torch"]) == (
        "this needs torch, which is not installed: learners need Python 3.11 or newer"
    )
    assert missing_packages(["openai"]) == (
        f"this needs openai, which is not installed: {install_command('expert')}"
    )
