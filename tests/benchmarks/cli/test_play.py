"""Episodes in the terminal: what a player sees, the environment, the team of a run, and models behind servers."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from llm_decpomdp import Completion, answers, make
from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks import runs as process
from llm_decpomdp.benchmarks.cli import episode
from llm_decpomdp.benchmarks.cli import main as commands
from llm_decpomdp.benchmarks.cli.episode import play_episode
from llm_decpomdp.benchmarks.cli.run_text import outcome
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.policy import turns_before
from tests.support.commands import call

LONG = "    return [number for number in range(1, 1000) if number % 3 == 0 and number % 5 == 0 and number != 945]"


@pytest.fixture
def answer(tmp_path: Path) -> str:
    """The file of an answer with a long line."""
    path = tmp_path / "answer.py"
    path.write_text(f"def f():\n{LONG}\n")
    return str(path)


def play(line: str, *more: str) -> None:
    assert call("play", *line.split(), *more) == 0


COOP = "coophumaneval-v0 --source bundled --seed 3 --num-turns 1"


def test_a_player_sees_what_its_agent_sees(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    env = make("coophumaneval-v0", source="bundled")
    prompts, _ = env.reset(seed=3)
    play(COOP, "--file", answer)
    shown = capsys.readouterr().out
    assert prompts["main_0"] in shown and "reward 0.40 (aux_defined +0.40" in shown
    assert prompts["aux_0"] not in shown and answers(env).reference("aux_0") not in shown
    assert not any(secret in shown for secret in answers(env).secrets)


def test_all_is_shown_where_asked_for(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    env = make("coophumaneval-v0", source="bundled")
    prompts, _ = env.reset(seed=3)
    play(COOP, "--all", "--file", answer)
    shown = capsys.readouterr().out
    assert prompts["aux_0"] in shown and answers(env).reference("aux_0") in shown
    assert any(secret in shown for secret in answers(env).secrets)


def test_code_can_be_copied(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    play(COOP, "--file", answer)
    assert f"\n{LONG}\n" in capsys.readouterr().out


def test_environments_take_arguments(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = "coophumaneval-v0 --source bundled --num-turns 2 --split test[4:5] --external-mode plain"
    play(line, "--env-option", "original_prompt=true", "--file", answer, "--file", answer)
    shown = capsys.readouterr().out
    problem = make("coophumaneval-v0", source="bundled", split="test[4:5]").tasks.tasks[0]
    assert f"Task {problem.task_id}" in shown
    assert shown.count(problem.prompt.strip()) == 2


def test_a_file_that_cannot_be_read_is_named_before_the_environment_starts(
    answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.py"
    assert call("play", *COOP.split(), "--file", answer, "--file", missing) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and f"error: cannot read an answer from {missing}: " in shown.err


def test_references_are_collected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(episode, "answers_of", lambda env: asked.append(env) or answers(env))
    play("coophumaneval-v0 --source bundled --num-agents 1 --num-turns 1 --policy gold")
    play("probe-relay-v0 --policy gold")
    assert len(asked) == 2


def test_a_model_at_work_shows_life(tiny_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    play(COOP, "--policy", tiny_model)
    told = capsys.readouterr().err
    assert "aux_0 is writing ... " in told and "main_0 is writing ... " in told


def test_a_trained_team_can_be_watched_and_joined(
    quick: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = train(load_config(find_config("demo"), [*quick, "output.report=false"]), "demo")
    monkeypatch.setattr(sys, "argv", [".venv/bin/llm-decpomdp", "demo"])
    run = tmp_path / "run"
    team, *told = [*outcome(result, None)][-4:]
    assert team.startswith(f"trained team: {run / 'final_model'} (")
    assert told[0] == "next:" and told[1].startswith(f"  .venv/bin/llm-decpomdp play --team {run} ")
    assert f"credit {run}" in told[2]
    in_turn = [*outcome(result._replace(turn_based=True), None)]
    assert f"play --team {run}" in in_turn[-1]
    play(f"--team {run} --seed 1")
    shown = capsys.readouterr().out
    assert "aux_0 answers" in shown and "main_0 answers" in shown and "turn 1 of 1" in shown
    monkeypatch.setattr("sys.stdin", io.StringIO(".\n"))
    play(f"--team {run} --agent aux_0 --num-turns 1 --split test[:1]")
    shown = capsys.readouterr()
    assert "Your answer as aux_0" in shown.out and "main_0 is writing" in shown.err


@pytest.mark.parametrize("command", ["train", "demo", "eval", "play", "crossplay"])
def test_model_commands_use_the_settings(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(process, "restart_with_settings", lambda: started.append(command))
    for option, expected in (("--unknown", [command]), ("--help", [])):  # help needs no models
        started.clear()
        monkeypatch.setattr(sys, "argv", ["llm-decpomdp", command, option])
        with pytest.raises(SystemExit):
            commands.main()
        assert started == expected


def test_the_mistake_of_a_part_takes_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from llm_decpomdp.envs.probes import parts

    mode = type(make("probe-halves-v0").mode)
    assert mode.__module__ == parts.__name__
    monkeypatch.setattr(mode, "first", lambda self, task: {"player_0": "a"})
    assert call("play", "probe-halves-v0", "--policy", "gold") == 1
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert line.startswith("error: the mode ") and "['player_0', 'player_1']" in line


class Reader:
    """Answers with a letter, and notes the answers of its history."""

    history = "chat"

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        self.read += [[turn.answer.text for turn in turns_before(prompt)] for prompt in prompts]
        return [[Completion("abc"[len(self.read) - 1])] * num_samples for _ in prompts]

    def act(self, prompt: str) -> str:
        return self.generate([prompt])[0][0].text


def test_policies_are_asked_when_they_act_and_read_their_histories() -> None:
    reader, first, second = Reader(), Reader(), Reader()
    play_episode(make("probe-memory-v0"), {"player_0": reader}, None, seed=0)
    assert reader.read == [[], ["a"], ["a", "b"]]
    play_episode(make("probe-late-entry-v0"), {"player_0": first, "player_1": second}, None, seed=0)
    assert (first.read, second.read) == ([[], ["a"]], [[]])


def test_a_turn_is_shown_once_in_turn_order(capsys: pytest.CaptureFixture[str]) -> None:
    play(
        "coophumaneval-v0 --source bundled --policy random --num-turns 2 --env-option order=[aux_0,main_0]"
    )
    shown = capsys.readouterr().out
    assert [shown.count(title) for title in ("Task ", "turn 1 of 2", "verdict")] == [1, 1, 2]
    assert shown.count("main_0 sees") == 2


pytest.importorskip("openai")

from tests.chat_server import ChatServer

LINE = "play coophumaneval-v0 --source bundled --seed 1 --num-turns 1".split()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer() as running:
        yield running


def test_a_model_behind_a_server_plays(
    server: ChatServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    key = ["--key-variable", "MY_KEY"]
    assert call(*LINE, "--policy", "gpt-x", "--base-url", server.url, *key) == 0
    assert "episode over" in capsys.readouterr().out
    assert [request["model"] for request in server.requests] == ["gpt-x"] * 2
    assert set(server.keys) == {"Bearer secret"}


def test_a_server_that_fails_is_one_line(
    server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fails = lambda request: 404
    assert call(*LINE, "--policy", "gpt-x", "--base-url", server.url) == 1
    writing, told = capsys.readouterr().err.strip().splitlines()
    assert writing.startswith("aux_0 is writing")
    assert told.startswith("error: the endpoint of 'gpt-x' at")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--policy", "gold", "--base-url", "http://localhost:1/v1"], 2, "gold asks no server"),
        (
            ["--policy", "m", "--key-variable", "OPENAI_API_KEY"],
            1,
            "set base_url, or OPENAI_API_KEY",
        ),
    ],
)
def test_a_mistake_is_one_line(
    server: ChatServer,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    code: int,
    message: str,
) -> None:
    assert call(*LINE, *options) == code
    told = capsys.readouterr().err.strip()
    assert told.startswith("error: ") and "\n" not in told and message in told
