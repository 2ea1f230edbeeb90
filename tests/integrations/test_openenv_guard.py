"""What reaches a server of OpenEnv at all; without OpenEnv."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from llm_decpomdp.integrations.openenv import guard
from llm_decpomdp.integrations.openenv.guard import MAX_BODY, Guard

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
