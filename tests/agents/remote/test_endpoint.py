"""The endpoint against a real local server that speaks OpenAI's chat protocol."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openai")

from llm_decpomdp.agents.remote import endpoint
from llm_decpomdp.agents.remote.endpoint import Endpoint, EndpointError
from llm_decpomdp.policy import (
    REFUSAL,
    Completion,
    Dialogue,
    DialogueTurn,
    Policy,
    Seedable,
    TrainablePolicy,
    Usage,
    reads_history,
)
from tests.chat_server import ChatServer
from tests.support.processes import python

NOWHERE = "http://localhost/v1"
LONG = "the very same answer, word for word, whatever the seed"

Logs = pytest.LogCaptureFixture


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture
def policy(server: ChatServer) -> Endpoint:
    return Endpoint("m", server.url)


def prompts_of(groups: list[list[Any]]) -> list[list[str]]:
    return [[one.text.partition("/")[0] for one in group] for group in groups]


def test_it_is_a_policy_that_cannot_be_trained(server: ChatServer, policy: Endpoint) -> None:
    assert isinstance(policy, Policy) and isinstance(policy, Seedable)
    assert not isinstance(policy, TrainablePolicy)
    assert policy.generate([]) == [] and not server.requests


# Requests


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


@pytest.mark.parametrize(("name", "value"), [("top_k", 5), ("stop", ["."])])
def test_options_are_sent_only_if_they_limit_something(
    server: ChatServer, policy: Endpoint, name: str, value: Any
) -> None:
    assert policy.act("hello").startswith("hello/")
    Endpoint("m", server.url, **{name: value}).act("b")
    assert name not in server.requests[0] and server.requests[1][name] == value


def test_refused_keys_are_left_out_and_more_added(server: ChatServer, policy: Endpoint) -> None:
    server.refused = {"top_p", "max_tokens"}
    with pytest.raises(EndpointError, match=r"'max_tokens'.* omit: \[top_p\]"):
        policy.act("a")
    omit = ["top_p", "top_k", "max_tokens", "seed", "n", "temperature"]
    policy = Endpoint("m", server.url, top_k=3, omit=omit, extra={"max_completion_tokens": 9})
    server.requests.clear()
    assert prompts_of(policy.generate(["a"], 2)) == [["a"] * 2]
    assert len(server.requests) == 2
    for request in server.requests:
        assert request.keys() == {"model", "messages", "max_completion_tokens"}


@pytest.mark.parametrize("way", ["refuses", "gives one"])
def test_a_server_that_gives_one_sample_at_a_time_is_asked_for_each(
    server: ChatServer, policy: Endpoint, way: str
) -> None:
    if way == "refuses":
        server.refuses_several = True
    else:
        server.most_samples = 1
    assert prompts_of(policy.generate(["a", "b"], 3)) == [["a"] * 3, ["b"] * 3]
    server.requests.clear()
    groups = policy.generate(["c"], 2)  # and it is remembered
    assert [request["n"] for request in server.requests] == [1, 1]
    assert len({one.text for one in groups[0]}) == 2


def test_equal_seeds_ask_with_equal_seeds(policy: Endpoint) -> None:
    policy.seed(4)
    first = policy.generate(["a", "b"], 2)
    assert policy.generate(["a", "b"], 2) != first
    policy.seed(4)
    assert policy.generate(["a", "b"], 2) == first


@pytest.mark.parametrize("history", ["none", "chat"])
def test_a_history_is_sent_as_messages_if_it_is_read(server: ChatServer, history: str) -> None:
    policy = Endpoint("m", server.url, history=history)
    assert reads_history(policy) == (history == "chat")
    turn = DialogueTurn("first", Completion("said \ud800"))
    policy.generate([Dialogue("next", [turn])])
    user, said = {"role": "user", "content": "next"}, {"role": "assistant", "content": "said ?"}
    earlier = [{"role": "user", "content": "first"}, said] if history == "chat" else []
    assert server.requests[0]["messages"] == [*earlier, user]


def test_seeds_of_a_prompt_depend_on_its_history(server: ChatServer) -> None:
    policy = Endpoint("m", server.url, history="chat", max_parallel=1)
    turns = [DialogueTurn("first", Completion(text)) for text in "ab"]
    dialogues = [Dialogue("next", [turn]) for turn in turns]
    policy.generate(["next", *dialogues, dialogues[0]])
    plain, one, other, again = (request["seed"] for request in server.requests)
    assert len({plain, one, other, again}) == 4
    policy.seed(0)
    server.requests.clear()
    policy.generate(dialogues)
    assert [request["seed"] for request in server.requests] == [one, other]
    unaware = Endpoint("m", server.url, max_parallel=1)
    server.requests.clear()
    unaware.generate(["next", dialogues[0]])
    assert server.requests[0]["seed"] == plain and len({r["seed"] for r in server.requests}) == 2


@pytest.mark.parametrize("limit", [1, 3])
def test_requests_wait_together_up_to_the_limit(server: ChatServer, limit: int) -> None:
    server.expected = limit
    server.delay = 0.05  # one too many would come meanwhile
    Endpoint("m", server.url, max_parallel=limit).generate(list("abcdef"))
    assert server.most_waiting == limit


def test_single_requests_use_no_thread(policy: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "ThreadPool", None)
    assert len(policy.generate(["a"])) == 1


def test_a_failure_that_passes_is_tried_again(server: ChatServer, policy: Endpoint) -> None:
    server.statuses = [503, 429]
    assert policy.act("a").startswith("a/")
    assert len(server.requests) == 3


def test_lone_surrogates_of_answers_can_be_asked_with(policy: Endpoint) -> None:
    assert policy.act("a\ud800b").startswith("a?b/")


def test_the_key_comes_from_the_variable_that_is_named(
    server: ChatServer, policy: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    Endpoint("m", server.url, key_variable="MY_KEY").act("a")
    policy.act("a")
    assert server.keys == ["Bearer secret", "Bearer none"]
    with pytest.raises(ValueError, match="set base_url, or OPENAI_API_KEY"):
        Endpoint("m")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"omit": ["top-p"]}, "unknown option in omit 'top-p'; did you mean 'top_p'"),
        ({"extra": {"temperature": 1}}, "extra: 'temperature' is set by the policy itself"),
        ({"timeout": 0.0}, "timeout"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Endpoint("m", NOWHERE, **options)


# Answers


@pytest.mark.parametrize(
    ("prompt", "told", "reason"),
    [
        ("a", "stop", "stop"),
        ("a", "length", "length"),
        ("a", "content_filter", "refusal"),
        ("silence", "length", "length"),  # reasoning that used up the tokens
    ],
)
def test_the_finish_reason_is_ours(
    server: ChatServer, policy: Endpoint, prompt: str, told: str, reason: str
) -> None:
    server.finish_reason = told
    assert policy.generate([prompt])[0][0].finish_reason == reason


def test_answers_without_content_are_refusals_and_counted(policy: Endpoint, caplog: Logs) -> None:
    groups = policy.generate(["silence", "a"])
    assert [(one.text, one.finish_reason) for (one,) in groups[:1]] == [("", REFUSAL)]
    assert groups[1][0].finish_reason == "stop"
    for _ in range(11):
        policy.generate(["silence"])
    told = [m for m in caplog.messages if "content null" in m and "refused/<agent>" in m]
    assert [m.rpartition("; ")[2] for m in told] == ["1 so far", "10 so far"]
    assert told == caplog.messages


def test_the_server_counts_tokens_of_single_samples(server: ChatServer, policy: Endpoint) -> None:
    server.usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    ((one,),) = policy.generate(["a"])
    assert one.usage == Usage(7, 3) and (one.prompt_tokens, one.num_tokens) == (7, 3)
    assert [one.usage for one in policy.generate(["a"], 2)[0]] == [None] * 2  # theirs together
    server.usage = None
    assert policy.generate(["a"])[0][0].num_tokens is None


EMPTY = '{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}'
HTML = "<html><b>Welcome</b></html>"


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (EMPTY, "application/json", "answers with no choices"),
        (
            '{"error": {"message": "no credit left", "code": 402}}',
            "application/json",
            "answers with no choices.*it says .*no credit left",
        ),
        *(
            (body, kind, f"/ answers without a completion, with .*{shown}.*base_url")
            for body, shown in (('{"hello": 1}', "hello"), (HTML, "<html><b>Welcome"))
            for kind in ("application/json", "text/html")
        ),
    ],
)
@pytest.mark.parametrize("samples", [1, 2])
def test_an_answer_without_completions_is_told_in_a_clear_line(
    *, server: ChatServer, policy: Endpoint, body: str, kind: str, message: str, samples: int
) -> None:
    server.body, server.content_type = body, kind
    with pytest.raises(EndpointError, match=f"'m' at {server.url}.*{message}") as caught:
        policy.generate(["a"], samples)
    assert "ChatCompletion" not in str(caught.value) or "hello" in body


# Servers without variety


def equal_answers(caplog: Logs) -> list[str]:
    return [m for m in caplog.messages if "the same text every time" in m]


@pytest.mark.parametrize("way", ["in a group", "one at a time"])
def test_variety_is_told_once(server: ChatServer, policy: Endpoint, caplog: Logs, way: str) -> None:
    server.fixed = LONG
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
    *,
    server: ChatServer,
    caplog: Logs,
    options: dict[str, Any],
    fixed: str | None,
    prompts: int,
    samples: int,
) -> None:
    server.fixed = fixed
    texts = [f"a prompt that is long enough {number}" for number in range(prompts)]
    Endpoint("m", server.url, **options).generate(texts, samples)
    assert not equal_answers(caplog)


def test_equal_seeds_or_one_prompt_with_two_answers_show_that_a_server_varies(
    server: ChatServer, policy: Endpoint, caplog: Logs
) -> None:
    texts = [LONG + letter for letter in "abcd"]
    answers = [(policy.seed(1), policy.generate(texts))[1] for _ in range(3)]
    assert answers[0] == answers[1] == answers[2] and not equal_answers(caplog)
    policy.generate(["a"], 2)
    server.fixed = LONG
    policy.generate(list("bcdef"), 3)
    assert not equal_answers(caplog)


# Errors


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


def test_an_unreachable_or_slow_server_says_what_to_do(server: ChatServer) -> None:
    server.delay = 30.0
    with pytest.raises(EndpointError, match="raise timeout"):
        Endpoint("m", server.url, timeout=0.05, max_retries=0).act("a")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        with pytest.raises(EndpointError, match=f"'m' at {url}.*: start the server, or set"):
            Endpoint("m", url, max_retries=0).act("a")


def test_a_server_that_hangs_is_said_before_it_is_given_up(
    server: ChatServer, caplog: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_decpomdp.agents.remote.endpoint.SLOW_SECONDS", 0.01)
    server.delay = 0.2
    policy = Endpoint("m", server.url, timeout=20, max_retries=4)
    assert prompts_of(policy.generate(["a", "b"])) == [["a"], ["b"]]
    (told,) = [m for m in caplog.messages if "no answer from 'm'" in m]
    assert "20 s (timeout)" in told and "4 more (max_retries)" in told


def test_openai_is_named_if_missing_and_loaded_late(monkeypatch: pytest.MonkeyPatch) -> None:
    python(
        "-c",
        f"import sys; from llm_decpomdp.agents import Endpoint; Endpoint('m', {NOWHERE!r}); "
        "assert not {'torch', 'openai'} & set(sys.modules)",
    )
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"pip install .openai>="):
        Endpoint("m", NOWHERE)
