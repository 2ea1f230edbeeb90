"""Faults of servers: errors with remedies, and answers that never vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

QUOTED_CHARACTERS = 300
"""Length of a quotation from a server's answer."""

SLOW_SECONDS = 30.0
"""Waiting time of a request after which a line is logged."""

ENOUGH_PROMPTS = 3
"""Prompts with equal answers only, from which on the server is reported."""

MAX_PROMPTS = 10_000
"""Prompts after which the watch ends."""

MIN_CHARACTERS = 40
"""Shorter answers may well be equal, such as a number or a yes."""

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


@dataclass(frozen=True)
class Errors:
    """The errors of one endpoint."""

    where: str
    """The model and the server."""
    key_variable: str

    REFUSAL = (
        "gave no text (content null): it refused, or a filter took the answer away; such answers are empty, "
        "get the reward of an empty text, and count as refused/<agent>"
    )

    def from_exception(self, error: Exception, status: int | None) -> EndpointError:
        """Error of a request that has failed for good; `status` is that of HTTP, if there was an answer."""
        reason = f"{type(error).__name__}: {error}"[:QUOTED_CHARACTERS]
        if status is None:
            remedy = "start the server, or set base_url; if it is slow, raise timeout"
            return EndpointError(f"cannot reach the endpoint of {self.where} ({reason}): {remedy}")
        remedy = _REMEDIES.get(status, "look into the server's log").format(key=self.key_variable)
        return EndpointError(f"the endpoint of {self.where} refuses ({reason}): {remedy}")

    def no_completion(self, answer: Any) -> EndpointError:
        """Error of an answer that is no completion, such as a web page."""
        text = " ".join(str(answer).split())[:QUOTED_CHARACTERS]
        return EndpointError(
            f"the endpoint of {self.where} answers without a completion, with {text!r}: check base_url, which "
            "mostly ends in /v1"
        )

    def no_choices(self, error: Any) -> EndpointError:
        """Error of an answer without a choice or a message; `error` is what the server says in it, if anything."""
        note = f"; it says {' '.join(str(error).split())[:QUOTED_CHARACTERS]!r}" if error else ""
        return EndpointError(
            f"the endpoint of {self.where} answers with no choices, and so without a completion{note}: check the "
            "model's name, and look into the server's log"
        )

    def refusals(self, count: int) -> str:
        """Message about `count` answers without a text so far."""
        return f"{self.where} {self.REFUSAL}; {count} so far"

    def slow(self, timeout: float, max_retries: int) -> str:
        """Message of a request that has waited for `SLOW_SECONDS`."""
        return (
            f"no answer from {self.where} for {SLOW_SECONDS:.0f} s; every try may take {timeout:.0f} s (timeout), "
            f"and there are {max_retries} more (max_retries). If it hangs, stop this and look into its log"
        )


class Variety:
    """Watches whether the answers to a prompt ever differ.

    A prompt counts as soon as it was answered twice, by equal texts of at least `MIN_CHARACTERS`: in one request
    for several samples, or in requests with different seeds. A single prompt with two different texts shows
    that the server varies, and ends the watch; so does the verdict, after `ENOUGH_PROMPTS`. Threads may share it.
    """

    def __init__(self) -> None:
        # By the prompt's hash: seed and index of its first text, and that text's hash; None after the watch.
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
