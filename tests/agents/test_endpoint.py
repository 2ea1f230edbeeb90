"""The endpoint against a real local server that speaks OpenAI's chat protocol."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("openai")

from llm_decpomdp.agents.endpoint import Endpoint, EndpointError
from llm_decpomdp.policy import Policy, Seedable, TrainablePolicy


class ChatServer(ThreadingHTTPServer):
    """Answers a prompt with its own words and the request's seed, and keeps the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.most_samples = 100
        self.refuses_several = False
        self.finish_reason = "stop"
        self.statuses: list[int] = []  # of the next answers; 200 once they are used up
        self.body: str | None = None
        self.delay = 0.0
        self.waiting = 0
        self.most_waiting = 0
        self.expected = 0  # how many must have waited together before any is answered
        self.changed = threading.Condition()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
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
            server.changed.notify_all()
            server.changed.wait_for(lambda: server.expected <= server.most_waiting, 20)
        server.closing.wait(server.delay)
        with server.changed:
            server.waiting -= 1
        if server.refuses_several and request["n"] > 1:
            status = 400
        body = server.body or json.dumps(self.answer(request, status))
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Retry-After-Ms", "1")
            self.end_headers()
            self.wfile.write(body.encode())
        except OSError:  # the client gave up waiting
            pass

    def answer(self, request: dict[str, Any], status: int) -> dict[str, Any]:
        if status != 200:
            return {"error": {"message": "as the test wants", "type": "test"}}
        prompt = request["messages"][0]["content"]
        choices = [
            {
                "index": i,
                "message": {
                    "role": "assistant",
                    "content": None if prompt == "silence" else f"{prompt}/{request['seed']}/{i}",
                },
                "finish_reason": self.server.finish_reason,
            }
            for i in range(min(request["n"], self.server.most_samples))
        ]
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": choices,
        }

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    running = ChatServer()
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield running
    running.closing.set()
    running.shutdown()
    running.server_close()


def prompts_of(groups: list[list[Any]]) -> list[list[str]]:
    return [[one.text.partition("/")[0] for one in group] for group in groups]


def test_it_is_a_policy_that_cannot_be_trained(server: ChatServer) -> None:
    policy = Endpoint("m", server.url)
    assert isinstance(policy, Policy) and isinstance(policy, Seedable)
    assert not isinstance(policy, TrainablePolicy)
    assert policy.generate([]) == [] and not server.requests


def test_a_prompt_is_one_request_with_all_sampling_options(server: ChatServer) -> None:
    policy = Endpoint("m", server.url, temperature=0.7, top_p=0.9, top_k=5, max_new_tokens=9)
    groups = policy.generate(["a", "b"], 3)
    assert prompts_of(groups) == [["a"] * 3, ["b"] * 3]
    assert len({one.text for group in groups for one in group}) == 6
    assert groups[0][0].tokens == () and groups[0][0].log_probs == ()
    for request in server.requests:
        request["messages"], request["seed"] = [], 0
    wanted = {"model": "m", "messages": [], "n": 3, "seed": 0, "temperature": 0.7, "top_p": 0.9}
    assert server.requests == [{**wanted, "max_tokens": 9, "top_k": 5}] * 2


def test_top_k_is_not_sent_where_it_limits_nothing(server: ChatServer) -> None:
    assert Endpoint("m", server.url).act("hello").startswith("hello/")
    assert "top_k" not in server.requests[0]


@pytest.mark.parametrize(
    ("told", "reason"), [("stop", "stop"), ("length", "length"), ("content_filter", "stop")]
)
def test_the_finish_reason_is_ours(server: ChatServer, told: str, reason: str) -> None:
    server.finish_reason = told
    assert Endpoint("m", server.url).generate(["a"])[0][0].finish_reason == reason


def test_no_content_is_an_empty_completion(server: ChatServer) -> None:
    assert Endpoint("m", server.url).act("silence") == ""


@pytest.mark.parametrize("way", ["refuses", "gives one"])
def test_a_server_that_gives_one_sample_at_a_time_is_asked_for_each(
    server: ChatServer, way: str
) -> None:
    if way == "refuses":
        server.refuses_several = True
    else:
        server.most_samples = 1
    policy = Endpoint("m", server.url)
    assert prompts_of(policy.generate(["a", "b"], 3)) == [["a"] * 3, ["b"] * 3]
    before = len(server.requests)
    groups = policy.generate(["c"], 2)  # and it is remembered
    assert [request["n"] for request in server.requests[before:]] == [1, 1]
    assert len({one.text for one in groups[0]}) == 2


def test_equal_seeds_ask_with_equal_seeds(server: ChatServer) -> None:
    policy = Endpoint("m", server.url)
    policy.seed(4)
    first = policy.generate(["a", "b"], 2)
    assert policy.generate(["a", "b"], 2) != first
    policy.seed(4)
    assert policy.generate(["a", "b"], 2) == first


@pytest.mark.parametrize("limit", [1, 3])
def test_requests_wait_together_up_to_the_limit(server: ChatServer, limit: int) -> None:
    server.expected = limit
    server.delay = 0.05  # one too many would come meanwhile
    Endpoint("m", server.url, max_parallel=limit).generate(list("abcdef"))
    assert server.most_waiting == limit


def test_a_failure_that_passes_is_tried_again(server: ChatServer) -> None:
    server.statuses = [503, 429]
    assert Endpoint("m", server.url).act("a").startswith("a/")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (400, "lower max_new_tokens"),
        (401, "set the environment variable OPENAI_API_KEY"),
        (404, "check the model's name, and base_url"),
        (429, "lower max_parallel"),
        (500, "server's log"),
    ],
)
def test_a_refusal_says_what_to_do(server: ChatServer, status: int, remedy: str) -> None:
    server.statuses = [status] * 9
    with pytest.raises(EndpointError, match=f"'m' at {server.url}.*{status}.*{remedy}"):
        Endpoint("m", server.url, max_retries=1).generate(["a"], 2)


def test_an_unreachable_server_says_what_to_do() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        with pytest.raises(EndpointError, match=f"'m' at {url}.*: start the server, or set"):
            Endpoint("m", url, max_retries=0).act("a")


def test_a_server_that_is_too_slow_is_given_up(server: ChatServer) -> None:
    server.delay = 30.0
    with pytest.raises(EndpointError, match="raise timeout"):
        Endpoint("m", server.url, timeout=0.05, max_retries=0).act("a")


def test_something_that_is_no_such_server_is_told(server: ChatServer) -> None:
    server.body = '{"hello": 1}'
    with pytest.raises(EndpointError, match=r"without a completion.*base_url"):
        Endpoint("m", server.url).act("a")


def test_the_key_comes_from_the_variable_that_is_named(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    Endpoint("m", server.url, key_variable="MY_KEY").act("a")
    Endpoint("m", server.url).act("a")
    assert server.keys == ["Bearer secret", "Bearer none"]
    with pytest.raises(ValueError, match="set base_url, or OPENAI_API_KEY"):
        Endpoint("m")


@pytest.mark.parametrize(
    "option",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_k": -1},
        {"max_new_tokens": 0},
        {"max_parallel": 0},
        {"max_retries": -1},
    ],
)
def test_numbers_out_of_range_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        Endpoint("m", "http://localhost/v1", **option)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"llm-decpomdp\[expert\]"):
        Endpoint("m", "http://localhost/v1")


def test_neither_torch_nor_openai_is_loaded_before_it_is_asked() -> None:
    code = (
        "import sys; from llm_decpomdp.agents import Endpoint; Endpoint('m', 'http://localhost/v1'); "
        "assert not {'torch', 'openai'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
