"""Experts: providers, requests, prompts and replies."""

from __future__ import annotations

import copy
import json
import pickle
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import llm_decpomdp
from llm_decpomdp.envs.feedback.experts import (
    ExpertError,
    RemoteExpert,
    expert_prompt,
    message_text,
    read_reply,
    short_names,
)
from tests.support import servers
from tests.support.processes import python

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
    limits = {"model": "gpt-test", "temperature": 0.3, "max_tokens": 2048}
    assert limits.items() <= request.items()
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
def test_failures_are_retried(server: ModelServer, model: str, failures: list[Answer]) -> None:
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
def test_a_server_that_does_not_answer_is_an_error(server: ModelServer, model: str) -> None:
    server.answers = [Answer(delay=30.0)]
    with pytest.raises(ExpertError, match="APITimeoutError"):
        expert_at(server.url, model, timeout=0.1, max_retries=0).edits("p", TEAM)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ExpertError, match="APIConnectionError"):
        expert_at(url, model, max_retries=0).edits("p", TEAM)


# Failures that stay


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_lasting_failures_fail_at_once(server: ModelServer, model: str, status: int) -> None:
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


def test_the_prompt_keeps_braces_of_problem_and_code() -> None:
    prompt = expert_prompt("Return {0} or {who}.", {"aux": "{x!r}", "main": "{}"})
    assert "Return {0} or {who}." in prompt and "{x!r}" in prompt


def test_the_prompt_itself_holds_no_readable_reply() -> None:
    assert read_reply(expert_prompt("Write solve(n).", {"aux": "", "main": ""}), ["main"]) is None


@pytest.mark.parametrize(
    ("agents", "told", "untold"),
    [
        (["aux_0", "main_0"], ["Two agents", "named `aux`", "`main`"], "class"),
        (["main_0"], ["An agent, `main`"], "aux"),
        (["aux_0", "aux_1", "main_0"], ["3 agents", "`aux_0` and `aux_1`"], "class"),
        (["coder_0", "coder_1"], ["2 agents completed a Python class"], "`main`"),
        (["coder_0"], ["An agent completed a Python class"], "`main`"),
        (
            ["fixer_0", "fixer_1"],
            ["2 agents repaired a Python program with one or more bugs"],
            "class",
        ),
        (["fixer_0"], ["An agent repaired a Python program"], "class"),
    ],
)
def test_the_prompt_says_what_the_team_did(agents: list[str], told: list[str], untold: str) -> None:
    keys = list(short_names(agents).values())
    prompt = expert_prompt("The text.", dict.fromkeys(keys, "CODE"))
    assert all(words in prompt for words in (*told, *(f"<{key}>\nCODE" for key in keys)))
    assert untold not in prompt
    assert " and ".join(f'"{key}"' for key in keys) in prompt


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        f"```json\n{json.dumps(ANSWER, indent=2)}\n```",
        f"Sure {{here}} it is:\n{GOOD}\nHope that {{helps}}!",
        f'{GOOD}\nAn example: {{"x": 1}}',
        f'First, {{"x": 1}}; then {GOOD}',
        f"{GOOD}{json.dumps({'aux': 'later', 'main': 'later'})}",
        json.dumps({"edits": ANSWER}),
        json.dumps({**ANSWER, "note": {"a": {"b": {"c": 1}}}}),
        f'{{"aux": {"1" * 5000}, "main": "x"}} {GOOD}',
    ],
    ids=["plain", "fenced", "prose", "example", "after", "first", "nested", "extra", "huge number"],
)
def test_the_first_object_with_every_key_is_read(reply: str) -> None:
    assert read_reply(reply, ["aux", "main"]) == ANSWER


@pytest.mark.parametrize(
    "code",
    [
        *("d = {1: {2: {3: {}}}}", 'print("{")', "```python\nx = {}\n```", "}}}"),
        *('{"main": "not this"}', "\\d+\t'\"", "\u00e9\u4e2d\U0001f600", ""),
    ],
)
def test_any_code_survives(code: str) -> None:
    reply = f"```json\n{json.dumps({'main': code})}\n```"
    assert read_reply(reply, ["main"]) == {"main": code}


@pytest.mark.parametrize(
    ("value", "code"),
    [("def f():\n\treturn {}", "def f():\n\treturn {}"), ("a\\ud800b", "a?b")],
    ids=["raw newlines", "lone surrogate"],
)
def test_strings_that_are_no_strict_json_are_read(value: str, code: str) -> None:
    assert read_reply(f'{{"main": "{value}"}}', ["main"]) == {"main": code}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "no edits",
        '{"aux": "a"}',
        '{"aux": "a", "main": 1}',
        '{"aux": "a", "main": null}',
        '{"aux": "a", "main": ["b"]}',
        '["aux", "main"]',
        '{"aux": "a", "main": "cut of',
        '{"a":' * 5_000,
    ],
    ids=["empty", "prose", "missing", "number", "null", "list", "array", "cut", "deep"],
)
def test_replies_without_every_string_are_unreadable(reply: str) -> None:
    assert read_reply(reply, ["aux", "main"]) is None


def test_a_refusal_without_content_keeps_its_body_for_the_error() -> None:
    body = '{"choices": [{"message": {"content": null, "refusal": "no"}}]}'
    assert message_text(body) == body


KEY_VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "DASHSCOPE_API_KEY")


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEY_VARIABLES, "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("model", "variable", "host"),
    [
        ("claude-3-5-sonnet-20241022", "ANTHROPIC_API_KEY", "https://api.anthropic.com"),
        ("deepseek-coder", "DEEPSEEK_API_KEY", "https://api.deepseek.com"),
        (
            "Qwen3-Coder-480B",
            "DASHSCOPE_API_KEY",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        ),
        ("gpt-4o", "OPENAI_API_KEY", "https://api.openai.com/v1"),
    ],
)
class TestPresets:
    def test_address_and_key_come_from_the_models_name(
        self, monkeypatch: pytest.MonkeyPatch, model: str, variable: str, host: str
    ) -> None:
        for name in KEY_VARIABLES:
            monkeypatch.setenv(name, f"value of {name}")
        expert = RemoteExpert(model, timeout=7)
        assert str(expert.client.base_url).rstrip("/") == host
        assert expert.client.api_key == f"value of {variable}"
        assert (expert.client.timeout, expert.client.max_retries) == (7, 3)

    def test_arguments_win(
        self, monkeypatch: pytest.MonkeyPatch, model: str, variable: str, host: str
    ) -> None:
        monkeypatch.setenv(variable, "from the environment")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://elsewhere")
        expert = RemoteExpert(model, base_url="http://localhost:1/v1", api_key="own")
        assert str(expert.client.base_url).rstrip("/") == "http://localhost:1/v1"
        assert expert.client.api_key == "own"

    def test_a_missing_key_names_the_variable(self, model: str, variable: str, host: str) -> None:
        with pytest.raises(ValueError, match=f"set the environment variable {variable}$"):
            RemoteExpert(model)
        for env_id in ("coophumaneval-v0", "classeval-v0", "bugfix-v0"):
            with pytest.raises(ValueError, match=variable) as error:
                llm_decpomdp.make(env_id, external_mode="expert_edits", expert_model=model)
            for way in ("external.mode=level_feedback", "external.expert_model=..."):
                assert way in str(error.value)
            assert "api_key" not in str(error.value)

    def test_a_missing_sdk_names_the_extra(
        self, monkeypatch: pytest.MonkeyPatch, model: str, variable: str, host: str
    ) -> None:
        sdk = "anthropic" if "claude" in model else "openai"
        monkeypatch.setitem(sys.modules, sdk, None)
        with pytest.raises(ImportError, match=r"pip install .openai>="):
            RemoteExpert(model, api_key="own")


def test_openai_base_url_serves_models_without_a_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    for model, host in [("llama", "localhost"), ("deepseek-chat", "api.deepseek.com")]:
        expert = RemoteExpert(model, api_key="own")
        assert expert.client.base_url.host == host


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1.0}, {"max_retries": -1}])
def test_numbers_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        RemoteExpert("gpt-test", api_key="own", **options)


def test_construction_imports_no_sdk() -> None:
    code = (
        "import sys; from llm_decpomdp.envs.feedback.experts import RemoteExpert; "
        "RemoteExpert('claude', api_key='k'); RemoteExpert('gpt', api_key='k'); "
        "sys.exit('openai' in sys.modules or 'anthropic' in sys.modules)"
    )
    python("-c", code)


def test_a_key_of_the_environment_is_not_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    expert = RemoteExpert("gpt-test")
    assert expert.client.api_key == "secret-key"
    assert b"secret-key" not in pickle.dumps(expert)


@pytest.mark.parametrize("model", ["deepseek-coder", "Qwen/Qwen2.5-Coder-7B", "mine"])
def test_own_endpoints_get_no_other_key(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.setenv(name, f"value of {name}")
    expert = RemoteExpert(model, base_url="http://localhost:1/v1")
    assert expert.client.api_key == "value of OPENAI_API_KEY"
    assert str(expert.client.base_url).startswith("http://localhost:1/v1")
