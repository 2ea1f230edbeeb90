"""A model behind an OpenAI-compatible server as a policy that never learns."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from importlib.util import find_spec
from multiprocessing.pool import ThreadPool
from threading import BoundedSemaphore, Lock, Timer
from typing import Any

from llm_decpomdp.agents.inference.options import Prompting, Sampling
from llm_decpomdp.options import Options, option, option_of
from llm_decpomdp.policy import CHAT, REFUSAL, Completion, Usage, to_messages
from llm_decpomdp.seeding import stream
from llm_decpomdp.utils.extras import install_command
from llm_decpomdp.validation import unknown

__all__ = ["Endpoint", "EndpointError"]

NO_KEY = "none"  # the key without an environment variable: most own servers ask for none
DEFAULT_VARIABLE = "OPENAI_API_KEY"
DEFAULT_ADDRESS = "https://api.openai.com/v1"  # without `base_url` and `OPENAI_BASE_URL`
CONNECT_SECONDS = 5.0  # timeout of a connection to the server

OPTIONS = ("n", "seed", "temperature", "top_p", "top_k", "max_tokens", "stop")
"""Options of a request besides the model and the messages; `omit` may leave them out."""

_REFUSALS = frozenset({400, 422, 501})  # how servers refuse a request for several samples

Messages = Sequence[Mapping[str, str]]
"""The messages of a request, each with `role` and `content`."""

logger = logging.getLogger(__name__)


class Endpoint(Options, frozen=False, eq=False):
    """Asks a server with OpenAI's chat protocol: vLLM, llama.cpp's server, or any such API.

    A prompt becomes one user message, with `history=chat` after those of its history. Completions have no tokens,
    so learners do not train this policy. One request asks for all samples of a prompt; if the server gives only
    one at a time, one request for each. The client of `openai` repeats requests that may succeed later, with
    growing pauses or as the server says. Several threads may use the policy at once.

    The seed of a request depends only on `seed`, the messages and the number of its earlier requests; equal seeds
    give equal completions if the server supports them. A server that always gives the same text at a temperature
    above 0 is logged once, and so is a server that is slow or refuses.

    Raises:
        ImportError: If the package `openai` is not installed.
        ValueError: If a number is out of its range, `omit` or `extra` is wrong, or neither an address nor a key is
            known.
    """

    model: str
    """Name of the model on the server."""
    base_url: str | None = None
    """Address of the API, mostly ending in `/v1`; `None` takes `OPENAI_BASE_URL`, or else OpenAI's server."""
    temperature: float = option_of(Sampling, "temperature")
    top_p: float = option_of(Sampling, "top_p")
    top_k: int | None = option_of(Sampling, "top_k")
    """Draw among this many most likely tokens; `None` and 0 draw among all. OpenAI's API does not support it."""
    max_new_tokens: int = option_of(Sampling, "max_new_tokens")
    stop: list[str] | None = option_of(Sampling, "stop")  # a field
    """Texts that end a completion; the text goes up to the first of them. OpenAI's API takes four at most."""
    history: str = option_of(Prompting, "history")
    """Earlier messages of a request: `none`, or `chat`, the agent's earlier prompts and answers of the episode."""
    key_variable: str = DEFAULT_VARIABLE
    """Name of the environment variable that holds the API key."""
    max_parallel: int = option(8, ge=1)
    """Maximum number of requests that wait for answers at once."""
    timeout: float = option(180.0, gt=0)
    """Seconds until a request without an answer is repeated."""
    max_retries: int = option(6, ge=0)
    """Number of further tries of a request that may succeed later, such as after status 429 or 500."""
    omit: list[str] | None = None
    """Options that requests leave out because the model refuses them: some of `n`, `seed`, `temperature`, `top_p`,
    `top_k`, `max_tokens`, `stop`."""
    extra: dict[str, Any] | None = None
    """Further options of requests, by the server's names: `{max_completion_tokens: 2048}`."""

    def __post_init__(self) -> None:
        if find_spec("openai") is None:
            raise ImportError(
                f"the endpoint of {self.model!r} needs openai: {install_command('expert')}"
            )
        check_request(self.omit, self.extra)
        own_server = self.base_url or os.environ.get("OPENAI_BASE_URL")
        if not own_server and not os.environ.get(self.key_variable):
            raise ValueError(
                f"no server for {self.model!r}: set base_url, or {self.key_variable} for OpenAI's API"
            )
        if own_server and not own_server.startswith(("http://", "https://")):
            raise ValueError(f"base_url must begin with http:// or https://, got {own_server!r}")
        self._omitted = frozenset(self.omit or ())
        self._several = "n" not in self._omitted  # False if the server gives one sample a request
        self._slots = BoundedSemaphore(self.max_parallel)
        self._variety = Variety()
        self._refused = 0  # answers without a text
        self._warned_slow = False
        self._lock = Lock()
        self.seed(0)

    def seed(self, seed: int) -> None:
        """Restart the seeds of requests."""
        self._seed = seed
        self._asked: Counter[int] = Counter()  # number of requests for each prompt, by its hash

    def act(self, prompt: str) -> str:
        """Return the text of one completion of `prompt`."""
        return self.generate([prompt])[0][0].text

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample `num_samples` completions for each prompt, with at most `max_parallel` requests at once.

        Raises:
            ValueError: If `num_samples` is below 1.
            EndpointError: If the server cannot be reached or refuses; the text says what to do.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, got {num_samples}")
        completions: list[list[Completion]] = [[] for _ in prompts]
        if num_samples > 1 and self._several:
            together = [(index, num_samples) for index in range(len(prompts))]
            self._ask_all(prompts, together, completions)
            self._several = all(len(group) == num_samples for group in completions)
            if not self._several:
                logger.warning("%s gives one sample a request; asking for each", self.model)
        missing = [num_samples - len(group) for group in completions]
        singly = [(index, 1) for index, count in enumerate(missing) for _ in range(count)]
        self._ask_all(prompts, singly, completions)
        return completions

    def _ask_all(
        self,
        prompts: Sequence[str],
        requests: Sequence[tuple[int, int]],
        completions: list[list[Completion]],
    ) -> None:
        """Send a request for each pair of a prompt's index and a number of samples, and add the answers."""
        messages = [to_messages(p if self.history == CHAT else str(p)) for p in prompts]
        calls = [(messages[index], count, self._draw(messages[index])) for index, count in requests]
        ask = partial(self._ask, self._client)  # the client is built here, not by several threads
        if len(calls) < 2:
            answers = [ask(call) for call in calls]
        else:
            # Its threads are daemons, so that Ctrl-C waits for no server.
            with ThreadPool(min(self.max_parallel, len(calls))) as pool:
                answers = list(pool.imap(ask, calls))
        for (index, _), answer in zip(requests, answers, strict=True):
            completions[index] += answer

    def _draw(self, messages: Messages) -> int:
        """Draw the seed of the next request with these messages."""
        key = _key(messages)
        with self._lock:
            self._asked[hash(key)] += 1
            number = self._asked[hash(key)]
        return int(stream(self._seed, "endpoint", _sendable(key), number).integers(2**31))

    def _ask(self, client: Any, call: tuple[Messages, int, int]) -> list[Completion]:
        """Return up to `count` completions; none if the server refuses more than one at once."""
        import openai

        messages, count, seed = call
        try:
            with self._slots, self._warn_if_slow():
                response = client.chat.completions.create(
                    model=self.model,
                    messages=[{**m, "content": _sendable(m["content"])} for m in messages],
                    **self._options(count, seed),
                )
        except openai.APIError as error:
            status = error.status_code if isinstance(error, openai.APIStatusError) else None
            if count > 1 and status in _REFUSALS:
                return []
            raise _explain_failure(error, status, self._where, self.key_variable) from error
        except json.JSONDecodeError as error:
            raise _explain_answer(error.doc, self._where) from error
        choices = getattr(response, "choices", None) or []
        if not choices and count > 1:
            return []
        if not choices or any(getattr(choice, "message", None) is None for choice in choices):
            raise _explain_answer(response, self._where)
        usage = _usage(response) if len(choices) == 1 else None  # else the sum of all samples
        completions = [self._completion(choice, usage) for choice in choices[:count]]
        self._watch(_key(messages), seed, completions)
        return completions

    def _options(self, count: int, seed: int) -> dict[str, Any]:
        options: dict[str, Any] = {"n": count, "seed": seed, "temperature": self.temperature}
        options |= {"top_p": self.top_p, "max_tokens": self.max_new_tokens}
        options |= {"stop": self.stop} if self.stop else {}
        top_k = {"top_k": self.top_k} if self.top_k and "top_k" not in self._omitted else {}
        options = {key: value for key, value in options.items() if key not in self._omitted}
        return {**options, "extra_body": {**top_k, **(self.extra or {})} or None}

    def _completion(self, choice: Any, usage: Usage | None) -> Completion:
        message, reason = choice.message, choice.finish_reason
        refusal = getattr(message, "refusal", None)
        # Reasoning that used up the tokens is no refusal.
        is_refusal = reason == "content_filter" or (message.content is None and reason != "length")
        if is_refusal:
            with self._lock:
                self._refused += 1
                count = self._refused
            if str(count).rstrip("0") == "1":  # the first, tenth, hundredth and so on
                logger.warning(
                    "%s gave no text (content null): it refused, or a filter took the answer away; such answers "
                    "are empty, get the reward of an empty text, and count as refused/<agent>; %d so far",
                    self._where,
                    count,
                )
        text = message.content or refusal or ""
        finish_reason = REFUSAL if is_refusal else "length" if reason == "length" else "stop"
        return Completion(text, finish_reason=finish_reason, usage=usage)

    def _watch(self, prompt: str, seed: int, completions: Sequence[Completion]) -> None:
        # A server that ignores seeds and temperature gives groups without variety.
        if self.temperature == 0 or self.top_k == 1:
            return
        if self._variety.is_missing(prompt, seed, [completion.text for completion in completions]):
            logger.warning(
                "%s gave the same text every time it was asked one of %d prompts, at temperature %g: it seems to "
                "ignore seeds and temperature. Groups without variety teach nothing, and samples of a problem "
                "count as one: set the server to draw at random, or raise temperature",
                self._where,
                ENOUGH_PROMPTS,
                self.temperature,
            )

    @contextmanager
    def _warn_if_slow(self) -> Iterator[None]:
        def warn() -> None:
            with self._lock:
                warned, self._warned_slow = self._warned_slow, True
            if not warned:
                logger.warning(
                    "no answer from %s for %.0f s; every try may take %.0f s (timeout), and there are %d more "
                    "(max_retries). If it hangs, stop this and look into its log",
                    self._where,
                    SLOW_SECONDS,
                    self.timeout,
                    self.max_retries,
                )

        timer = Timer(SLOW_SECONDS, warn)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @cached_property
    def _where(self) -> str:
        return f"{self.model!r} at {self._client.base_url}"

    @cached_property
    def _client(self) -> Any:
        import openai

        return openai.OpenAI(
            api_key=os.environ.get(self.key_variable) or NO_KEY,
            base_url=self.base_url,
            timeout=openai.Timeout(self.timeout, connect=min(self.timeout, CONNECT_SECONDS)),
            max_retries=self.max_retries,
        )


def check_request(omit: Sequence[str] | None, extra: Mapping[str, Any] | None) -> None:
    """Raise a `ValueError` unless `omit` and `extra` fit the requests of an `Endpoint`."""
    for name in omit or ():
        if name not in OPTIONS:
            raise ValueError(unknown("option in omit", name, OPTIONS))
    for name in extra or {}:
        if name in ("model", "messages", "stream", *OPTIONS):
            raise ValueError(f"extra: {name!r} is set by the policy itself; drop it")


def _usage(response: Any) -> Usage | None:
    usage = getattr(response, "usage", None)
    counts = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
    numbers = [count for count in counts if isinstance(count, int)]
    return Usage(*numbers) if len(numbers) == 2 else None


def _key(messages: Messages) -> str:
    """Return a text that differs between different dialogues; that of a single message is its own."""
    texts = [message["content"] for message in messages]
    return texts[0] if len(texts) == 1 else json.dumps(texts)


def _sendable(prompt: str) -> str:
    """Replace lone surrogates, which answers may contain and requests cannot."""
    return prompt.encode("utf-8", "replace").decode("utf-8")


# Errors and warnings


QUOTED_CHARACTERS = 300  # of a server's answer in an error
SLOW_SECONDS = 30.0  # waiting time of a request after which a line is logged
ENOUGH_PROMPTS = 3  # with equal answers only, after which the server is reported
MAX_PROMPTS = 10_000  # after which no more answers are compared
MIN_CHARACTERS = 40  # of compared answers: short ones, such as a number, may well be equal

_BAD_REQUEST = (
    "the server refuses the request; leave out an option that the model does not know, as in omit: [top_p]; "
    "if the request is too long, lower max_new_tokens"
)
_REMEDIES = {
    400: _BAD_REQUEST,
    401: "set the environment variable {key} to a key of this server",
    403: "set the environment variable {key} to a key that may use this model",
    404: "check the model's name, and base_url, which mostly ends in /v1",
    422: _BAD_REQUEST,
    429: "lower max_parallel, or ask for a higher limit",
}


class EndpointError(RuntimeError):
    """The server gave no completion."""


def _explain_failure(
    error: Exception, status: int | None, where: str, key_variable: str
) -> EndpointError:
    """Return the error of a failed request; `status` is the HTTP status of the answer, if any."""
    reason = f"{type(error).__name__}: {error}"[:QUOTED_CHARACTERS]
    if status is None:
        remedy = "start the server, or set base_url; if it is slow, raise timeout"
        return EndpointError(f"cannot reach the endpoint of {where} ({reason}): {remedy}")
    remedy = _REMEDIES.get(status, "look into the server's log").format(key=key_variable)
    return EndpointError(f"the endpoint of {where} refuses ({reason}): {remedy}")


def _explain_answer(answer: Any, where: str) -> EndpointError:
    """Return the error of an answer without a completion: no choices, or no such server at all."""
    error = getattr(answer, "error", None)
    if error or getattr(answer, "choices", None) is not None:
        note = f"; it says {' '.join(str(error).split())[:QUOTED_CHARACTERS]!r}" if error else ""
        return EndpointError(
            f"the endpoint of {where} answers with no choices, and so without a completion{note}: check the "
            "model's name, and look into the server's log"
        )
    text = " ".join(str(answer).split())[:QUOTED_CHARACTERS]  # such as of a web page
    return EndpointError(
        f"the endpoint of {where} answers without a completion, with {text!r}: check base_url, which "
        "mostly ends in /v1"
    )


class Variety:
    """Checks whether the answers to a prompt ever differ; threads may share it.

    A prompt counts after two equal texts of at least `MIN_CHARACTERS`: in one request for several samples, or in
    requests with different seeds. A single prompt with two different texts shows that the server varies, and ends
    the check. It also ends after `ENOUGH_PROMPTS` equal ones.
    """

    def __init__(self) -> None:
        # By the prompt's hash: seed and index of its first text, and that text's hash; None after the check.
        self._first: dict[int, tuple[tuple[int, int], int]] | None = {}
        self._equal: set[int] = set()
        self._lock = Lock()

    def is_missing(self, prompt: str, seed: int, texts: Sequence[str]) -> bool:
        """Record the answers to one request; return True once, when enough prompts have equal ones."""
        with self._lock:
            for place, text in enumerate(texts):
                if self._first is None:
                    return False
                source, first = self._first.setdefault(hash(prompt), ((seed, place), hash(text)))
                if first != hash(text):
                    self._first = None
                elif source != (seed, place) and len(text) >= MIN_CHARACTERS:
                    self._equal.add(hash(prompt))
            if self._first is not None and len(self._first) > MAX_PROMPTS:
                self._first = None
            if self._first is None or len(self._equal) < ENOUGH_PROMPTS:
                return False
            self._first = None
            return True
