"""Evaluations of models behind a server: what is kept when requests fail, and the command for several models."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")

from llm_decpomdp.agents import Endpoint, EndpointError, RandomText
from llm_decpomdp.benchmarks.cli import evaluate as commands
from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.benchmarks.evaluation import baselines
from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult, read_evaluation, table
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.env import DecPOMDPEnv
from tests.benchmarks.evaluations import rows_of, starts_of
from tests.chat_server import ChatServer
from tests.support.commands import call

Make = Callable[..., DecPOMDPEnv]

CEDAR = "['a', 'c', "
"""In the prompts of one of the six tasks."""


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


def fails_on(part: str) -> Callable[[dict[str, Any]], int]:
    return lambda request: 404 if part in request["messages"][0]["content"] else 200


@pytest.fixture
def play(
    make_word_env: Make, server: ChatServer, tmp_path: Path
) -> Callable[..., EvaluationResult]:
    """Evaluates two agents that share an endpoint, on six tasks of two turns."""
    env = make_word_env(num_turns=2)

    def playing(folder: str = "e", **options: Any) -> EvaluationResult:
        policy = Endpoint("m", server.url, max_retries=0, max_parallel=3)
        team = {"left_0": policy, "right_0": policy}
        return evaluate(env, team, starts_of(env), folder=tmp_path / folder, **options)

    return playing


def test_a_failed_request_throws_no_other_answer_away(
    play: Callable[..., EvaluationResult], server: ChatServer, tmp_path: Path
) -> None:
    server.fails = fails_on(CEDAR)
    with pytest.raises(EndpointError, match="404"):
        play(at_a_time=64)
    paid = [r for r in server.requests if CEDAR not in r["messages"][0]["content"]]
    rows = rows_of(tmp_path / "e")
    assert rows and len(paid) == sum(2 * len(row["groups"]) for row in rows)
    server.fails, before = None, len(server.requests)
    found = play(at_a_time=64)
    assert found.episodes == 6 and not found.failures
    # What is kept is not paid again.
    assert len(server.requests) - before == 2 * 2 * (6 - len(rows))


def test_a_failed_episode_is_skipped_counted_and_tried_again(
    play: Callable[..., EvaluationResult], server: ChatServer, tmp_path: Path
) -> None:
    server.fails = fails_on(CEDAR)
    found = play(samples=2, on_error="skip", k=[2])
    assert (found.episodes, len(found.failures), len(found.tasks)) == (10, 2, 5)
    assert "404" in found.failures[0]
    summary = json.loads((tmp_path / "e" / "summary.json").read_text())
    assert (summary["episodes"], summary["failed"]) == (10, 2)
    assert "2 episodes failed" in str(table(found).title)
    assert read_evaluation(tmp_path / "e") == found
    server.fails = None
    again = play(samples=2, on_error="skip", k=[2])
    assert (again.episodes, again.failures) == (12, ())
    assert len(again.pass_at_k(2)) == 6


def test_pass_at_k_needs_samples(play: Callable[..., EvaluationResult], server: ChatServer) -> None:
    play()
    server.fails = fails_on(CEDAR)
    found = play(samples=2, on_error="skip", k=[2])
    assert (len(found.tasks), len(found.pass_at_k(1)), len(found.pass_at_k(2))) == (6, 6, 5)


def test_no_episode_is_an_error(play: Callable[..., EvaluationResult], server: ChatServer) -> None:
    server.fails = lambda request: 404
    with pytest.raises(RunError, match=r"all 6 episodes failed: .*404"):
        play(on_error="skip")


def test_an_episode_is_kept_as_it_ends_while_another_hangs(
    play: Callable[..., EvaluationResult], server: ChatServer, tmp_path: Path
) -> None:
    server.hangs = {CEDAR}
    playing = threading.Thread(target=play, daemon=True)
    playing.start()
    while not (tmp_path / "e" / "times.jsonl").exists() or len(rows_of(tmp_path / "e")) < 5:
        threading.Event().wait(0.02)
    assert "word/2" not in {row["start"]["task_id"] for row in rows_of(tmp_path / "e")}
    server.closing.set()  # what hangs is answered
    playing.join()
    assert len(rows_of(tmp_path / "e")) == 6


def test_equal_seeds_ask_the_same_whatever_is_there_already(
    play: Callable[..., EvaluationResult], server: ChatServer, tmp_path: Path
) -> None:
    play("whole", samples=2)
    server.fails = fails_on(CEDAR)
    with pytest.raises(EndpointError):
        play("parts", samples=2)
    server.fails = None
    play("parts", samples=2)

    def texts(folder: str) -> list[Any]:
        rows = sorted(
            rows_of(tmp_path / folder), key=lambda r: (r["sample"], r["start"]["task_id"])
        )
        return [[group["completions"] for group in row["groups"]] for row in rows]

    assert texts("parts") == texts("whole")


def test_local_and_remote_policy(make_word_env: Make, server: ChatServer, tmp_path: Path) -> None:
    env = make_word_env()
    team = {"left_0": RandomText(), "right_0": Endpoint("m", server.url)}
    assert evaluate(env, team, starts_of(env), folder=tmp_path).episodes == 6


def test_tokens_and_refusals(play: Callable[..., EvaluationResult], server: ChatServer) -> None:
    server.usage = {"prompt_tokens": 50, "completion_tokens": 4, "total_tokens": 54}
    found = play()
    assert set(found.means("prompt_tokens").values()) == {2 * 2 * 50.0}
    assert set(found.means("tokens/left_0").values()) == {2 * 4.0}
    assert set(found.means("refused/left_0").values()) == {0.0}
    shown = [str(cell) for cell in table(found).columns[0].cells]
    assert "prompt_tokens" in shown and "refused/left_0" not in shown
    server.fixed = " "
    server.finish_reason = "content_filter"
    refused = play("refused")
    assert set(refused.means("refused/left_0").values()) == {1.0}
    assert "refused/left_0" in [str(cell) for cell in table(refused).columns[0].cells]


# The command

ENV = "--env coophumaneval-v0 --env-option source=bundled --env-option num_turns=1".split()
LINE = ["eval", *ENV, "--split", "test[:2]"]
LOCAL = ["--model", "m", "--base-url", "http://localhost:1/v1"]


@pytest.fixture
def line(server: ChatServer, tmp_path: Path) -> list[str]:
    base = ["--base-url", server.url, "--model-option", "max_retries=0"]
    return [*LINE, *base, "--override", f"output.base_dir={tmp_path}"]


def test_several_models_make_one_table_and_have_folders_of_their_own(
    line: list[str], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model-option", "omit=[top_p]", "--model-option", "extra={effort: low}"]
    assert call(*line, *options, "--model", "org/one", "--model", "two") == 0
    shown = capsys.readouterr().out
    assert "org/one" in shown and "two" in shown and shown.count("last/reward_mean") == 1
    for name in ("org-one", "two"):
        assert len(rows_of(tmp_path / f"eval-{name}-coophumaneval-v0")) == 2
        assert f"eval-{name}-coophumaneval-v0" in shown
    assert {request["model"] for request in server.requests} == {"org/one", "two"}
    for request in server.requests:
        assert "top_p" not in request and request["effort"] == "low"
    assert call(*line, "--model", "a", "--model", "b", "--output", str(tmp_path / "both")) == 0
    assert {path.name for path in (tmp_path / "both").iterdir()} == {"a", "b"}


def test_another_model_in_the_same_folder_is_named_by_its_key(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--output", str(tmp_path / "e")]
    assert call(*line, "--model", "gpt-x", *output) == 0
    assert call(*line, "--model", "gpt-y", *output) == 2
    told = capsys.readouterr().err
    assert "(policies.shared.name was gpt-x and is gpt-y): choose another folder" in told
    waiting = ["--model-option", "timeout=30", "--model-option", "max_parallel=2"]
    assert call(*line, "--model", "gpt-x", *waiting, *output) == 0  # says nothing else


def test_a_failure_says_how_to_go_on(
    line: list[str], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def fails(request: dict[str, Any]) -> int:
        seen.append(request["messages"][0]["content"])
        return 404 if len(seen) > 2 else 200

    server.fails = fails
    one_by_one = ["--at-a-time", "1"]
    assert call(*line, "--model", "m", *one_by_one) == 1
    told = capsys.readouterr().err
    assert "run the same command again: 1 of 2 episodes are kept" in told
    assert call(*line, "--model", "m", *one_by_one, "--on-error", "skip") == 0
    shown = capsys.readouterr().out
    assert "1 of 2 episodes failed" in shown and "The same command tries them again" in shown


def test_ctrl_c_says_how_to_go_on(
    line: list[str],
    server: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from llm_decpomdp.benchmarks.evaluation import run

    def keep(*given: Any) -> None:
        kept(*given)
        raise KeyboardInterrupt

    kept = run._append
    monkeypatch.setattr(run, "_append", keep)
    assert call(*line, "--model", "m") == 130
    assert (
        "stopped: run the same command again: 1 of 2 episodes are kept" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "m"], "no server for --model m: give --base-url URL, or set OPENAI_API_KEY"),
        (["--model", "m"], "A model of this machine or the hub is --override model.name=m"),
        (["--base-url", "http://localhost:1/v1"], "need a --model NAME"),
        (["--model", "m", "--baseline", "gold"], "--model excludes --team and --baseline"),
        (["--model", "a/b", "--model", "a-b"], "two models would share the folder 'a-b'"),
        (["--model", "m", "--base-url", "a", "--base-url", "b"], "--base-url is given 2 times"),
        ([*LOCAL, "--model-option", "omt=[n]"], "did you mean 'omit'"),
        ([*LOCAL, "--on-error", "skp"], "unknown on_error 'skp'; did you mean 'skip'"),
        ([*LOCAL, "--greedy", "--model-option", "omit=[temperature]"], "leave out --greedy"),
    ],
)
def test_a_mistake_is_one_line(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*LINE, "--output", str(tmp_path / "e"), *options) == 2
    told = capsys.readouterr().err.strip()
    assert told.startswith("error: ") and "\n" not in told and message in told


def test_help_names_the_baselines() -> None:
    assert list(baselines.BASELINES) == list(commands.BASELINES)
