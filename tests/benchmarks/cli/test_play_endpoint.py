"""`play` with a model behind a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("openai")

from tests.chat_server import ChatServer
from tests.support.commands import call

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
