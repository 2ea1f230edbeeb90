from __future__ import annotations

import io
import os
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from llm_decpomdp import __version__, answers, make
from llm_decpomdp.benchmarks.cli.console import REPEATS_PROGRESS
from llm_decpomdp.benchmarks.cli.main import spread
from llm_decpomdp.benchmarks.config.load import shipped
from llm_decpomdp.benchmarks.doctor import examine as doctor
from llm_decpomdp.envs.building.word import WordGame
from llm_decpomdp.envs.worlds.strategies import Strategy, say
from llm_decpomdp.registry import registered_ids
from tests.support.commands import call
from tests.support.processes import ROOT, python


def test_override_takes_several_values_and_can_be_repeated() -> None:
    line = "train --override a=1 b=2 --config x --override c=-3".split()
    expected = "train --override a=1 --override b=2 --config x --override c=-3".split()
    assert spread(line) == expected


def test_kinds_end_at_a_value_that_is_none() -> None:
    line = ["demonstrations", "--kinds", "expression", "loop body", "mbpp-v0", "branch"]
    expected = [
        "demonstrations",
        "--kinds",
        "expression",
        "--kinds",
        "loop body",
        "mbpp-v0",
        "branch",
    ]
    assert spread(line) == expected
    assert spread(["demonstrations", "--kinds", "loop", "mbpp-v0"])[2:] == ["loop", "mbpp-v0"]


def test_help_and_the_list_load_nothing_heavy() -> None:
    python(
        "-c",
        "import sys\nfrom llm_decpomdp.benchmarks.cli.main import main\n"
        "for line in ('--help', 'train --help', 'analyze --help', 'check --help', 'list'):\n"
        "    try:\n        main(line.split())\n    except SystemExit:\n        pass\n"
        "    heavy = {'torch', 'transformers', 'datasets', 'matplotlib'} & set(sys.modules)\n"
        "    assert not heavy, (line, heavy)\n",
    )


@pytest.mark.parametrize(
    ("module", "command"),
    [("llm_decpomdp", "train"), ("llm_decpomdp.benchmarks", "list")],  # `train` starts anew
)
def test_packages_run_as_the_program(module: str, command: str) -> None:
    shown = python("-m", module, command, "--help").stdout
    assert f"Usage: llm-decpomdp {command}" in Text.from_ansi(shown).plain


def test_help_begins_with_the_commands_to_start_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    text = Text.from_ansi(capsys.readouterr().out).plain
    panels = [text.index(name) for name in ("Start", "Train and measure", "During and after a run")]
    assert panels == sorted(panels)
    assert "analyze" in text and "check" in text and "rescore" not in text


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("analyze crossplay", "analyze crossplay [OPTIONS] RUN...\n"),
        ("analyze necessity", "analyze necessity [OPTIONS] TEAM SINGLE\n"),
        ("partners", "partners [OPTIONS] RUN...\n"),
        ("check rewards", "check rewards [OPTIONS] FOLDER|ENV_ID\n"),
        ("rescore", "rescore [OPTIONS] FOLDER|ENV_ID\n"),
        ("play", "play [OPTIONS] [env_id]\n"),
        ("eval", "eval [OPTIONS]\n"),
    ],
)
def test_help_names_arguments_by_their_roles(
    command: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*command.split(), "--help") == 0
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    text = "\n".join(line.strip() for line in lines)
    assert f"Usage: llm-decpomdp {usage}" in text
    assert "<list" not in text and "<bool>" not in text and "<path>" not in text


@pytest.mark.parametrize("columns", [80, 120])
def test_help_fills_its_lines(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert call("demo", "--help") == 0
    shown = Text.from_ansi(capsys.readouterr().out).plain
    lines = [line.strip() for line in shown[shown.index("It trains a pair") :].splitlines()]
    lines = lines[: lines.index("")]
    assert lines[-1].endswith("to be played with.")
    for line, following in pairwise(lines):
        # The margins are one column each.
        assert len(f"{line} {following.split()[0]}") > columns - 2


def test_an_environment_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "env", "probe-turns-v0") == 0
    assert capsys.readouterr().out == "probe-turns-v0 passes all checks of check_env\n"
    assert call("check", "env", "bugfix-v0", "--env-option", "source=nowhere.jsonl") == 2
    assert "nowhere.jsonl" in capsys.readouterr().err


def test_known_numbers_of_an_environment_are_played(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["check", "rewards", "build-word-v0", "--tasks", "3", "--env-option", "length=1"]
    assert call(*words) == 0
    shown = capsys.readouterr().out
    assert "build-word-v0, 3 tasks" in shown and "0.667" in shown and "empty answer" in shown
    wrong = {"optimum": Strategy(say(""), exact=lambda task: 0.1)}
    monkeypatch.setattr(WordGame, "strategies", wrong)
    assert call(*words) == 1
    assert "the exact value is" in capsys.readouterr().out
    assert call("check", "rewards", "build-words-v0") == 2
    assert "did you mean 'build-word-v0'" in capsys.readouterr().err
    assert call("check", "rewards", "no-such-folder", "--tasks", "3") == 2
    assert "--tasks are for environments" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out == f"llm-decpomdp {__version__}\n"


def test_list_names_every_environment_and_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*registered_ids(), *shipped()))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train"], 2, "give --config"),
        (["train", "--config", "nope"], 2, "unknown configuration 'nope'"),
        (["train", "--config", "demo", "--override", "foo"], 2, "got 'foo'"),
        (["train", "--config", "demo", "--override", "modl.name=x"], 2, "'model.name'"),
        (["train", "--config", "demo", "--resume", "x"], 2, "give --resume FOLDER with"),
        (["train", "--resume", "nowhere"], 2, "nowhere holds no run"),
        (["train", "--config", "demo", "--override", "dataset.source=x.jsonl"], 1, "x.jsonl"),
        (["train", "--config", "demo", "--override", "dataset.source=hub"], 1, "cannot be reached"),
        (["demo", "--override", "algorithm.name=grpo"], 2, "num_agents=1"),
        (["demo", "--override", "model.device=bogus"], 2, "model.device: this machine has no"),
        (["play"], 2, "name an environment of `llm-decpomdp list`, or a run with --team"),
        (["play", "--team", "nowhere"], 2, "nowhere does not exist: name the folder of a team"),
        (["play", "--team", "x", "--policy", "gold"], 2, "exclude each other"),
        (["play", "--team", "x", "--file", "y"], 2, "--agent"),
        (["play", "--team", "x", "--base-url", "http://x"], 2, "leave out --base-url"),
        (["play", "bugfix-v0", "--env-option", "bugs"], 2, "KEY=VALUE, got 'bugs'"),
        (["play", "coophuman-v0"], 2, "did you mean 'coophumaneval-v0'"),
        (["play", "coophumaneval-v0", "--agent", "main_1"], 2, "did you mean 'main_0'"),
        (["play", "humaneval-v0", "--task-id", "HumanEval/999"], 2, "HumanEval/99"),
        (["play", "humaneval-v0", "--task-id", "HumanEval/9"], 2, "--partner MODEL"),
        (["play", "humaneval-v0", "--policy", "gold"], 2, "--num-agents 1"),
        (["play", "humaneval-v0", "--policy", "gold", "--agent", "main_0"], 2, "leave out --agent"),
        (["bench", "smoek"], 2, "did you mean 'smoke'?"),
        (["bench", "science"], 2, "run `python -m studies.hypotheses`"),
        (["report", "/nosuch"], 2, "/nosuch does not exist: name the folder"),
        (["report", __file__], 2, "test_commands.py is a file: name the folder"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments) == code
    told = capsys.readouterr().err.strip()
    assert told.startswith("error: ")
    assert "\n" not in told
    assert message in told


def test_bad_rows_of_data_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"task_id": "a", "prompt": "", "test": "", "entry_point": "f"}\n')
    assert call("train", "--config", "demo", "--override", f"dataset.source={path}") == 1
    assert "line 1: field 'prompt'" in capsys.readouterr().err


PLAY = "play coophumaneval-v0 --source bundled --seed 1"


def test_play_reads_answers_from_files_and_from_the_keyboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env = make("coophumaneval-v0", source="bundled")
    env.reset(seed=3)
    (tmp_path / "wrong.py").write_text("no idea")
    monkeypatch.setattr("sys.stdin", io.StringIO(answers(env).reference("main_0") + "\n.\n"))
    line = "play coophumaneval-v0 --seed 3 --source bundled --file"
    assert call(*line.split(), str(tmp_path / "wrong.py")) == 0
    shown = capsys.readouterr().out
    assert "turn 2 of 2" in shown
    assert "total reward 4.40 in 2 turns" in shown


def test_play_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    env = make("humaneval-v0", num_agents=1)
    env.reset(options={"task_id": "HumanEval/2"})
    monkeypatch.setattr("sys.stdin", io.StringIO(answers(env).reference("main_0") + "\n.\n"))
    assert call(*"play humaneval-v0 --num-agents 1 --task-id HumanEval/2".split()) == 0
    assert "total reward 2.10 in 1 turn" in capsys.readouterr().out


WATCH = "play bugfix-v0 --seed 1 --num-turns 1 --policy"


@pytest.mark.parametrize(
    ("line", "typed", "code", "told"),
    [
        (f"{WATCH} random", "", 0, "fixer_0 answers"),
        (f"{WATCH} MODEL", "", 0, "fixer_0 answers"),
        (f"{PLAY} --num-turns 1 --all --partner MODEL", ".\n", 0, "aux_0 answers"),
        # A player is the last agent by default.
        (f"{PLAY.replace('coophuman', 'class')} --num-turns 1", ".\n", 0, "Your answer as coder_1"),
        (PLAY, "", 1, "the input ended"),
    ],
)
def test_policies_are_watched_and_played_with(
    line: str,
    typed: str,
    code: int,
    told: str,
    tiny_model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert call(*line.replace("MODEL", tiny_model).split()) == code
    shown = capsys.readouterr()
    assert told in (shown.err if code else shown.out)


FAMILIES = {
    "humaneval-v0 --num-agents 1": 2.1,
    "coophumaneval-v0": 4.0,
    "mbpp-v0 --num-agents 1": 2.1,
    "classeval-v0 --num-agents 3": 6.0,
    "bugfix-v0": 3.0,
    "humanevalfix-v0": 3.0,
    "compose-v0": 4.0,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_gold_plays_families_to_full_marks(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("play", *family.split(), *"--source bundled --seed 7 --policy gold".split()) == 0
    shown = capsys.readouterr().out
    assert "answers" in shown and "verdict" in shown
    assert f"total reward {FAMILIES[family]:.2f} in 1 turn" in shown


def test_doctor_tries_the_sandbox_and_names_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("doctor") == 0
    shown = capsys.readouterr().out
    assert "ok       sandbox: runs a program" in shown
    assert "ok       sandbox: stops a program that hangs" in shown
    assert "82 problems of coophumaneval" in shown
    assert "optional data: the Hugging Face hub" in shown  # HF_HUB_OFFLINE is set
    assert "set LLM_DECPOMDP_DATA to a folder" in shown


def test_doctor_fails_when_the_sandbox_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "HONEST", doctor.HANGING.replace("pass", "break"))
    assert call("doctor") == 1
    shown = capsys.readouterr().out
    assert "missing  sandbox: runs a program" in shown
    assert "`llm-decpomdp demo` will not run before this is mended:\n  sandbox: runs" in shown


def test_doctor_names_the_pip_command_of_a_missing_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(doctor.EXTRAS, "expert", ("openai", "no-such-package"))
    assert call("doctor") == 0
    shown = capsys.readouterr().out
    assert "optional extra expert" in shown
    assert "-> pip install 'openai>=" in shown


def test_a_script_runs_uninstalled_and_from_elsewhere(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    options: Any = {"cwd": tmp_path, "env": environment, "check": False}
    done = python(str(ROOT / "benchmarks/train_magrpo.py"), "--override", "seed=x", **options)
    assert done.returncode == 2
    assert done.stderr.startswith("error: seed must be a whole number")


@pytest.mark.parametrize("moment", ["llm_decpomdp", "llm_decpomdp.benchmarks.cli.main", "typer"])
def test_ctrl_c_while_something_is_imported_leaves_no_traceback(moment: str) -> None:
    interrupted = f"""
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == {moment!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from llm_decpomdp_command import main
sys.argv = ["llm-decpomdp", "list"]
main()
"""
    done = python("-c", interrupted, check=False)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr and "stopped" in done.stderr


@pytest.mark.parametrize("name", REPEATS_PROGRESS)
def test_loggers_beside_the_progress_bar_are_modules(name: str) -> None:
    assert find_spec(name) is not None
