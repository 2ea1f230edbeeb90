"""The expert against a real local server that speaks both protocols."""

from __future__ import annotations

import copy
import json
import pickle
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

from llm_decpomdp.envs.feedback.experts import ExpertError, RemoteExpert
from tests.support import servers

TEAM = {"aux_0": "def aux(n):\n    return {}", "main_0": "def solve(n):\n    return aux(n)"}
ANSWER = {"aux": "return {'a': {1: {2}}}", "main": 'use "aux" }{ here'}
GOOD = json.dumps(ANSWER)
MODELS = ("gpt-test", "claude-test")
SOON = {"Retry-After": "0.01"}


@dataclass
class Answer:
    """What the server sends: a model's text, or a raw body."""

    text: str = GOOD
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    body: str | None = None


class ModelServer(servers.Server):
    """Sends its answers in order, the last one for ever, and keeps the requests."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.answers = [Answer()]
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return self.address


class Handler(servers.Handler):
    server: ModelServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        position = min(len(self.server.requests), len(self.server.answers) - 1)
        self.server.requests.append((self.path, headers, request))
        answer = self.server.answers[position]
        self.server.closing.wait(answer.delay)
        body = answer.body if answer.body is not None else self.protocol(answer)
        self.send(answer.status, body, {"Content-Type": "application/json", **answer.headers})

    def protocol(self, answer: Answer) -> str:
        if answer.status != 200:
            return json.dumps({"error": {"type": "test_error", "message": "as the test wants"}})
        if self.path == "/v1/messages":
            content = [
                {"type": "thinking", "thinking": "{}"},
                {"type": "text", "text": answer.text},
            ]
            return json.dumps({"type": "message", "role": "assistant", "content": content})
        assert self.path == "/v1/chat/completions", self.path
        message = {"role": "assistant", "content": answer.text}
        return json.dumps({"object": "chat.completion", "choices": [{"message": message}]})


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def expert_at(url: str, model: str = "gpt-test", **options: Any) -> RemoteExpert:
    base_url = url if "claude" in model else f"{url}/v1"
    options = {"api_key": "secret-key", "timeout": 5.0, **options}
    return RemoteExpert(model, base_url=base_url, **options)


# Exchange


@pytest.mark.parametrize("model", MODELS)
def test_each_agent_gets_its_own_text(server: ModelServer, model: str) -> None:
    expert = expert_at(server.url, model)
    edits = expert.edits("Write solve(n).", TEAM)
    assert edits == {"aux_0": ANSWER["aux"], "main_0": ANSWER["main"]}
    assert len(server.requests) == 1


def test_a_single_agent_is_asked_for_main_alone(server: ModelServer) -> None:
    server.answers = [Answer('{"main": "ok"}')]
    expert = expert_at(server.url)
    assert expert.edits("Write solve(n).", {"main_0": "def solve(n): ..."}) == {"main_0": "ok"}
    (prompt,) = [message["content"] for message in server.requests[0][2]["messages"]]
    assert '"main"' in prompt and "aux" not in prompt


def test_the_openai_request_holds_key_model_limits_problem_and_code(server: ModelServer) -> None:
    expert = expert_at(server.url)
    expert.edits("Write solve(n).", TEAM)
    path, headers, request = server.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer secret-key"
    assert (request["model"], request["temperature"], request["max_tokens"]) == (
        "gpt-test",
        0.3,
        2048,
    )
    (prompt,) = [message["content"] for message in request["messages"]]
    assert all(text in prompt for text in ("Write solve(n).", *TEAM.values()))


def test_the_anthropic_request_leaves_the_temperature_to_the_model(server: ModelServer) -> None:
    expert = expert_at(server.url, "claude-test")
    expert.edits("Write solve(n).", TEAM)
    path, headers, request = server.requests[0]
    assert path == "/v1/messages"
    assert "secret-key" in headers.get("x-api-key", headers.get("authorization", ""))
    assert (request["model"], request["max_tokens"]) == ("claude-test", 2048)
    assert "temperature" not in request


# Failures that pass


PASSING = [
    *([Answer(status=status, headers=SOON)] for status in (408, 409, 429, 500, 503, 529)),
    [Answer("I'd rather not."), Answer('{"aux": "only"}')],
    *(
        [Answer(body=body), Answer(body=body, headers={"Content-Type": "text/html"})]
        for body in ("<html>busy</html>", "", "[]", '{"choices": null}', "{}")
    ),
]
"""Statuses, replies that cannot be read, and bodies of no protocol."""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("failures", PASSING)
def test_a_passing_failure_is_tried_again(
    server: ModelServer, model: str, failures: list[Answer]
) -> None:
    server.answers = [*failures, Answer()]
    assert expert_at(server.url, model).edits("p", TEAM)["main_0"] == ANSWER["main"]
    assert len(server.requests) == len(failures) + 1


@pytest.mark.parametrize("model", MODELS)
def test_a_failure_that_does_not_pass_in_time_is_an_error(server: ModelServer, model: str) -> None:
    server.answers = [Answer(status=500, headers=SOON)]
    expert = expert_at(server.url, model, max_retries=2)
    with pytest.raises(ExpertError, match="InternalServerError"):
        expert.edits("p", TEAM)
    assert len(server.requests) == 3


@pytest.mark.parametrize("model", MODELS)
def test_a_time_out_is_an_error(server: ModelServer, model: str) -> None:
    server.answers = [Answer(delay=30.0)]
    with pytest.raises(ExpertError, match="APITimeoutError"):
        expert_at(server.url, model, timeout=0.1, max_retries=0).edits("p", TEAM)


@pytest.mark.parametrize("model", MODELS)
def test_a_refused_connection_is_an_error(model: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ExpertError, match="APIConnectionError"):
        expert_at(url, model, max_retries=0).edits("p", TEAM)


# Failures that stay


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_lasting_failure_is_an_error_after_one_request(
    server: ModelServer, model: str, status: int
) -> None:
    server.answers = [Answer(status=status), Answer()]
    expert = expert_at(server.url, model)
    with pytest.raises(ExpertError, match=f"gave no edits: .*{status}"):
        expert.edits("p", TEAM)
    assert len(server.requests) == 1


def test_the_error_quotes_the_start_of_an_unreadable_reply(server: ModelServer) -> None:
    server.answers = [Answer("x" * 200 + "y")]
    expert = expert_at(server.url, max_retries=1)
    with pytest.raises(ExpertError, match=r"'x{200}'$"):
        expert.edits("p", TEAM)
    assert len(server.requests) == 2


# Secrets and copies


@pytest.mark.parametrize("model", MODELS)
def test_a_used_expert_can_be_pickled_and_copied(server: ModelServer, model: str) -> None:
    expert = expert_at(server.url, model)
    expert.edits("p", TEAM)
    for twin in (pickle.loads(pickle.dumps(expert)), copy.deepcopy(expert)):
        assert twin.edits("p", TEAM)["aux_0"] == ANSWER["aux"]
    assert len(server.requests) == 3


def test_no_key_shows_in_repr_or_error(server: ModelServer) -> None:
    server.answers = [Answer(status=401)]
    expert = expert_at(server.url)
    with pytest.raises(ExpertError) as caught:
        expert.edits("p", TEAM)
    assert "secret-key" not in repr(expert) + str(caught.value)
