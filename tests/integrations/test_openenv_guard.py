"""What reaches a server of OpenEnv at all; without OpenEnv."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from llm_decpomdp.integrations.openenv.guard import MAX_MESSAGE, Guard

HERE = {"host": "127.0.0.1:8000"}


def answer(kind: str, headers: dict[str, str], names: tuple[str, ...] = ()) -> int:
    """The status of an answer, or the code with which a socket is closed; 200 from the application inside."""
    messages: list[Any] = []

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        await send({"status": 200})

    async def receive() -> Any:
        raise AssertionError("nothing is read before it may pass")

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
        {**HERE, "content-length": str(MAX_MESSAGE)},
    ],
)
def test_what_is_meant_for_the_server_passes(headers: dict[str, str]) -> None:
    assert answer("http", headers, names=("gpu-box",)) == 200
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
        ({**HERE, "content-length": str(MAX_MESSAGE + 1)}, 413),
        ({**HERE, "content-length": "-1"}, 413),
        ({**HERE, "transfer-encoding": "chunked"}, 411),
    ],
)
def test_the_rest_is_refused_before_anything_is_read(headers: dict[str, str], status: int) -> None:
    assert answer("http", headers) == status
    assert answer("websocket", headers) == 1008
