"""The client of OpenEnv after failures; a stub stands for OpenEnv's own, so that nothing of it is needed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from llm_decpomdp.integrations import openenv as adapter
from llm_decpomdp.integrations.openenv import guard
from llm_decpomdp.integrations.openenv.guard import MAX_BODY, Guard


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


# What reaches a server of OpenEnv at all; without OpenEnv


HERE = {"host": "127.0.0.1:8000"}


async def whole() -> Any:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def unread() -> Any:
    raise AssertionError("nothing is read before it may pass")


async def endless() -> Any:
    return await asyncio.get_running_loop().create_future()


def answer(
    kind: str, headers: dict[str, str], names: tuple[str, ...] = (), receive: Any = unread
) -> int:
    """The status of an answer, or the code with which a socket is closed; 200 from the application inside."""
    messages: list[Any] = []

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        await send({"status": 200})

    async def send(message: Any) -> None:
        messages.append(message)

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "headers": pairs}
    asyncio.run(Guard(inside, names)(scope, receive, send))
    return int(messages[0].get("status") or messages[0]["code"])


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost:8000"},
        {"host": "[::1]:8000"},
        {"host": "192.168.1.7"},
        {"host": "GPU-box"},
        {**HERE, "origin": "http://127.0.0.1:8000"},
        {**HERE, "content-length": str(MAX_BODY)},
    ],
)
def test_what_is_meant_for_the_server_passes(headers: dict[str, str]) -> None:
    assert answer("http", headers, names=("gpu-box",), receive=whole) == 200
    assert answer("websocket", headers, names=("gpu-box",)) == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:8000"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "[::1"}, 421),
        ({}, 421),
        ({**HERE, "origin": "http://evil.example"}, 403),
        ({**HERE, "origin": "http://127.0.0.1:9000"}, 403),
        ({**HERE, "origin": "null"}, 403),
        ({**HERE, "content-length": str(MAX_BODY + 1)}, 413),
        ({**HERE, "content-length": "-1"}, 413),
        ({**HERE, "transfer-encoding": "chunked"}, 411),
    ],
)
def test_the_rest_is_refused_before_anything_is_read(headers: dict[str, str], status: int) -> None:
    assert answer("http", headers) == status
    assert answer("websocket", headers) == 1008


def test_a_body_that_does_not_arrive_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.01)
    assert answer("http", HERE, receive=endless) == 408


def test_more_requests_than_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_REQUESTS", 0)
    assert answer("http", HERE) == 503


def test_the_application_receives_the_body_that_the_guard_has_read() -> None:
    parts = [b"a", b"b"]
    seen: list[bytes] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        seen.extend([(await receive())["body"], (await receive())["body"]])

    scope = {"type": "http", "headers": [(b"host", b"localhost"), (b"content-length", b"2")]}
    asyncio.run(Guard(inside)(scope, receive, whole))  # type: ignore[arg-type]
    assert seen == [b"a", b"b"]
