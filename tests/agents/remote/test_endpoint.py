"""The endpoint against a real local server that speaks OpenAI's chat protocol."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openai")

from llm_decpomdp.agents.remote.endpoint import Endpoint, EndpointError
from llm_decpomdp.policy import REFUSAL, Policy, Seedable, TrainablePolicy, Usage
from tests.chat_server import ChatServer
from tests.support.processes import python


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


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
    ("told", "reason"), [("stop", "stop"), ("length", "length"), ("content_filter", "refusal")]
)
def test_the_finish_reason_is_ours(server: ChatServer, told: str, reason: str) -> None:
    server.finish_reason = told
    assert Endpoint("m", server.url).generate(["a"])[0][0].finish_reason == reason


def test_no_content_is_a_refusal_told_once(
    server: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    groups = Endpoint("m", server.url).generate(["silence", "a", "silence"])
    assert [(one.text, one.finish_reason) for (one,) in groups[::2]] == [("", REFUSAL)] * 2
    assert groups[1][0].finish_reason == "stop"
    told = [m for m in caplog.messages if "content null" in m and "refused/<agent>; 1 so far" in m]
    assert told == caplog.messages[:1]


def test_answers_without_content_are_counted_on_the_way(
    server: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Endpoint("m", server.url)
    for _ in range(12):
        policy.generate(["silence"])
    counts = [m.rpartition("; ")[2] for m in caplog.messages if "content null" in m]
    assert counts == ["1 so far", "10 so far"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}', ""),
        ('{"error": {"message": "no credit left", "code": 402}}', ".*it says .*no credit left"),
    ],
)
def test_an_answer_without_choices_is_told_in_a_clear_line(
    server: ChatServer, body: str, told: str
) -> None:
    server.body, server.content_type = body, "application/json"
    for samples in (1, 2):
        with pytest.raises(EndpointError, match=f"answers with no choices{told}") as caught:
            Endpoint("m", server.url).generate(["a"], samples)
        assert "ChatCompletion" not in str(caught.value)


def test_thinking_that_used_up_the_tokens_is_no_refusal(server: ChatServer) -> None:
    server.finish_reason = "length"
    assert Endpoint("m", server.url).generate(["silence"])[0][0].finish_reason == "length"


def test_the_server_counts_tokens_of_single_samples(server: ChatServer) -> None:
    server.usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    policy = Endpoint("m", server.url)
    ((one,),) = policy.generate(["a"])
    assert one.usage == Usage(7, 3) and (one.prompt_tokens, one.num_tokens) == (7, 3)
    assert [one.usage for one in policy.generate(["a"], 2)[0]] == [None] * 2  # theirs together
    server.usage = None
    assert policy.generate(["a"])[0][0].num_tokens is None


def test_stop_strings_are_sent_where_there_are_any(server: ChatServer) -> None:
    Endpoint("m", server.url, stop=["."]).act("b")
    Endpoint("m", server.url).act("b")
    assert [request.get("stop") for request in server.requests] == [["."], None]


def test_what_a_model_refuses_is_left_out_and_more_is_added(server: ChatServer) -> None:
    server.refused = {"top_p", "max_tokens"}
    with pytest.raises(EndpointError, match=r"'max_tokens'.* omit: \[top_p\]"):
        Endpoint("m", server.url).act("a")
    omit = ["top_p", "top_k", "max_tokens", "seed", "n", "temperature"]
    policy = Endpoint("m", server.url, top_k=3, omit=omit, extra={"max_completion_tokens": 9})
    before = len(server.requests)
    assert prompts_of(policy.generate(["a"], 2)) == [["a"] * 2]
    for request in server.requests[before:]:
        assert request.keys() == {"model", "messages", "max_completion_tokens"}
    assert len(server.requests) == before + 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"omit": ["top-p"]}, "unknown option in omit 'top-p'; did you mean 'top_p'"),
        ({"extra": {"temperature": 1}}, "extra: 'temperature' is set by the policy itself"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Endpoint("m", "http://localhost/v1", **options)


LONG = "the very same answer, word for word, whatever the seed"


def equal_answers(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [m for m in caplog.messages if "the same text every time" in m]


@pytest.mark.parametrize("way", ["in a group", "one at a time"])
def test_a_server_without_variety_is_told_once(
    server: ChatServer, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    server.fixed = LONG
    policy = Endpoint("m", server.url)
    for number in range(6):
        if way == "in a group":
            policy.generate([f"prompt {number}"], 3)
        else:
            policy.seed(number)
            policy.generate(["one", "two", "three"])
        assert len(equal_answers(caplog)) == (number >= (2 if way == "in a group" else 1))
    (told,) = equal_answers(caplog)
    assert f"'m' at {server.url}/ gave" in told and "teach nothing" in told


@pytest.mark.parametrize(
    ("options", "fixed", "prompts", "samples"),
    [
        ({"temperature": 0.0}, LONG, 9, 3),  # wants the likeliest
        ({"top_k": 1}, LONG, 9, 3),
        ({}, "yes", 9, 3),  # honest, for it is short
        ({}, LONG, 9, 1),  # nothing is asked twice
        ({}, LONG, 2, 9),  # too few to say
        ({}, None, 9, 3),
    ],
)
def test_equal_answers_that_mean_nothing_are_not_told(
    server: ChatServer,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, Any],
    fixed: str | None,
    prompts: int,
    samples: int,
) -> None:
    server.fixed = fixed
    texts = [f"a prompt that is long enough {number}" for number in range(prompts)]
    Endpoint("m", server.url, **options).generate(texts, samples)
    assert not equal_answers(caplog)


def test_equal_answers_to_equal_seeds_are_honest(
    server: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    policy, texts = Endpoint("m", server.url), [LONG + letter for letter in "abcd"]
    answers = [(policy.seed(1), policy.generate(texts))[1] for _ in range(3)]
    assert answers[0] == answers[1] == answers[2] and not equal_answers(caplog)


def test_one_prompt_with_two_answers_shows_that_a_server_varies(
    server: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Endpoint("m", server.url)
    policy.generate(["a"], 2)
    server.fixed = LONG
    policy.generate(list("bcdef"), 3)
    assert not equal_answers(caplog)


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


@pytest.mark.parametrize("kind", ["application/json", "text/html"])
@pytest.mark.parametrize("body", ['{"hello": 1}', "<html><b>Welcome</b></html>"])
def test_something_that_is_no_such_server_is_told(server: ChatServer, body: str, kind: str) -> None:
    server.body, server.content_type = body, kind
    shown = "hello" if "hello" in body else "<html><b>Welcome"
    message = f"'m' at {server.url}/ answers without a completion, with .*{shown}.*base_url"
    for samples in (1, 2):
        with pytest.raises(EndpointError, match=message):
            Endpoint("m", server.url).generate(["a"], samples)


def test_a_server_that_hangs_is_said_before_it_is_given_up(
    server: ChatServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_decpomdp.agents.remote.endpoint.SLOW_SECONDS", 0.01)
    server.delay = 0.2
    policy = Endpoint("m", server.url, timeout=20, max_retries=4)
    assert prompts_of(policy.generate(["a", "b"])) == [["a"], ["b"]]
    (told,) = [m for m in caplog.messages if "no answer from 'm'" in m]
    assert "20 s (timeout)" in told and "4 more (max_retries)" in told


def test_lone_surrogates_of_answers_can_be_asked_with(server: ChatServer) -> None:
    assert Endpoint("m", server.url).act("a\ud800b").startswith("a?b/")


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
        {"timeout": 0.0},
    ],
)
def test_numbers_out_of_range_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        Endpoint("m", "http://localhost/v1", **option)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"pip install .openai>="):
        Endpoint("m", "http://localhost/v1")


def test_neither_torch_nor_openai_is_loaded_before_it_is_asked() -> None:
    code = (
        "import sys; from llm_decpomdp.agents import Endpoint; Endpoint('m', 'http://localhost/v1'); "
        "assert not {'torch', 'openai'} & set(sys.modules)"
    )
    python("-c", code)
