"""A local server that speaks OpenAI's chat protocol, and fails in the ways that servers do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from tests.support import servers


class ChatServer(servers.Server):
    """Answers a prompt with its own words and the request's seed, and keeps the requests."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.most_samples = 100
        self.refuses_several = False
        self.finish_reason = "stop"
        self.statuses: list[int] = []  # of the next answers; 200 once they are used up
        self.body: str | None = None
        self.content_type = "application/json"
        self.usage: dict[str, int] | None = None
        self.fixed: str | None = None  # what is answered, whatever the prompt
        self.refused: set[str] = set()  # options that the model does not know
        self.hangs: set[str] = set()  # prompts with such a part are never answered
        self.fails: Callable[[dict[str, Any]], int] | None = None  # the status of a request
        self.delay = 0.0
        self.waiting = 0
        self.most_waiting = 0
        self.expected = 0  # how many must have waited together before any is answered
        self.changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"{self.address}/v1"


class Handler(servers.Handler):
    server: ChatServer

    def do_POST(self) -> None:
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.changed:
            server.requests.append(request)
            server.keys.append(self.headers["Authorization"])
            server.waiting += 1
            server.most_waiting = max(server.most_waiting, server.waiting)
            status = server.statuses.pop(0) if server.statuses else 200
            if server.fails is not None:
                status = server.fails(request)
            server.changed.notify_all()
            server.changed.wait_for(lambda: server.expected <= server.most_waiting, 20)
        prompt = request["messages"][0]["content"]
        hangs = any(part in prompt for part in server.hangs)
        server.closing.wait(60 if hangs else server.delay)
        with server.changed:
            server.waiting -= 1
        if (server.refuses_several and request["n"] > 1) or server.refused & request.keys():
            status = 400
        body = server.body or json.dumps(self.answer(request, status))
        self.send(status, body, {"Content-Type": server.content_type, "Retry-After-Ms": "1"})

    def answer(self, request: dict[str, Any], status: int) -> dict[str, Any]:
        if status != 200:
            options = sorted(self.server.refused & request.keys())
            message = f"unknown parameter {options[0]!r}" if options else "as the test wants"
            return {"error": {"message": message, "type": "test"}}
        prompt, seed = request["messages"][0]["content"], request.get("seed", id(request))
        text = self.server.fixed
        choices = [
            {
                "index": i,
                "message": {
                    "role": "assistant",
                    "content": None if "silence" in prompt else text or f"{prompt}/{seed}/{i}",
                },
                "finish_reason": self.server.finish_reason,
            }
            for i in range(min(request.get("n", 1), self.server.most_samples))
        ]
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": choices,
            **({"usage": self.server.usage} if self.server.usage else {}),
        }
