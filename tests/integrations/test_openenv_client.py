"""The client of OpenEnv after failures; a stub stands for OpenEnv's own, so that nothing of it is needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from llm_decpomdp.integrations import openenv as adapter


class Server:
    """Episodes of three turns, whose prompts tell all that was said in them."""

    def __init__(self) -> None:
        self.salt = ""
        self.failures: list[Exception] = []
        """What the next requests end with."""
        self.open = 0

    def client(self, base_url: str) -> Session:
        return Session(self)


class Session:
    """As `GenericEnvClient(...).sync()`."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.said: list[str] = []

    def sync(self) -> Session:
        return self

    def connect(self) -> None:
        self.server.open += 1

    def close(self) -> None:
        self.server.open -= 1

    def reset(self, seed: int) -> Any:
        self.said = [str(seed)]
        return self.answer()

    def step(self, action: dict[str, Any]) -> Any:
        self.said.append(action["message"])
        return self.answer()

    def answer(self) -> Any:
        if self.server.failures:
            raise self.server.failures.pop()
        prompt = self.server.salt + " ".join(self.said)
        return SimpleNamespace(
            observation={"prompt": prompt, "truncated": False},
            reward=1.0,
            done=len(self.said) == 4,
            metadata={"turn": len(self.said) - 1, "note": "text"},
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server behind the stub of OpenEnv's client."""
    server = Server()
    stub: Any = ModuleType("openenv.core")
    stub.GenericEnvClient = server.client
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "openenv", ModuleType("openenv"))
        patch.setitem(sys.modules, "openenv.core", stub)
        _forget_the_client()
        yield server
    _forget_the_client()


def _forget_the_client() -> None:
    """Let the client be imported anew, with the OpenEnv that is there then."""
    sys.modules.pop(f"{adapter.__name__}.client", None)
    vars(adapter).pop("client", None)


@pytest.fixture
def env(server: Server) -> Any:
    """A client in the second turn of the episode of seed 5."""
    env = adapter.client("http://nowhere")
    assert env.reset(seed=5) == ({"agent_0": "5"}, {"agent_0": {"turn": 0}})
    assert said(env.step({"agent_0": "a"})) == "5 a"
    return env


def said(result: Any) -> str:
    """The prompt after a step."""
    return result[0]["agent_0"]


def test_a_fork_and_a_closed_client_play_the_episode_again(env: Any, server: Server) -> None:
    twin = env.fork()
    assert server.open == 1
    env.close()
    assert said(twin.step({"agent_0": "b"})) == "5 a b" == said(env.step({"agent_0": "b"}))
    assert server.open == 2


def test_after_a_lost_connection_the_same_episode_goes_on(env: Any, server: Server) -> None:
    server.failures = [ConnectionError("lost")]
    with pytest.raises(ConnectionError, match="lost"):
        env.step({"agent_0": "b"})
    assert server.open == 0
    assert said(env.step({"agent_0": "b"})) == "5 a b"


def test_after_a_replay_that_failed_the_same_episode_goes_on(env: Any, server: Server) -> None:
    twin = env.fork()
    server.failures = [TimeoutError("full")]
    with pytest.raises(TimeoutError, match="full"):
        twin.step({"agent_0": "b"})
    assert server.open == 1
    assert said(twin.step({"agent_0": "b"})) == "5 a b"


def test_a_server_that_plays_another_episode_is_named(env: Any, server: Server) -> None:
    env.close()
    server.salt = "other "
    with pytest.raises(RuntimeError, match=r"another episode than before from .*'seed': 5"):
        env.step({"agent_0": "b"})
    assert server.open == 0


def test_after_a_reset_that_failed_no_episode_is_running(env: Any, server: Server) -> None:
    server.failures = [RuntimeError("no such task")]
    with pytest.raises(RuntimeError, match="no such task"):
        env.reset(seed=6)
    with pytest.raises(ResetNeeded):
        env.step({"agent_0": "b"})
    assert env.reset(seed=6)[0] == {"agent_0": "6"}
