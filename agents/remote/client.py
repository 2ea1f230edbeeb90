"""The routes of a vLLM server that sampling needs, over HTTP: token ids in, token ids and log-probabilities out.

Those that load adapters and weights, pause and count are for development only (`VLLM_SERVER_DEV_MODE=1`,
`VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`) and ask for no key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.inference.sampler import SampledRow
from llm_decpomdp.agents.remote.options import SamplerError, ServerLost

QUOTED = 500
"""Characters of a server's answer that an error shows."""

BRIEF = 10.0
"""Seconds that a server may take to say whether it is well."""

HOW_TO_SERVE = "start it with the flags that docs/cluster.md tells, or let the run start it"


@dataclass(frozen=True)
class Request:
    """A prompt to continue."""

    model: str
    """Name of the weights, which changes with them."""
    prompt: Sequence[int]
    """Token ids."""
    samples: int
    """Completions, at least 1."""
    seed: int
    """In [0, 2**31)."""
    sampling: Sampling
    place: int
    """Place in its batch, from 0."""


class Client:
    """Speaks with a server.

    Args:
        url: Its address, as in `http://127.0.0.1:8000`.
        end_ids: The tokens that end a completion.
        timeout: Seconds that an answer may take.
    """

    def __init__(self, url: str, end_ids: Sequence[int], timeout: float) -> None:
        self.url, self.end_ids, self.timeout = url.rstrip("/"), tuple(end_ids), timeout

    def complete(self, request: Request, in_order: bool) -> list[SampledRow]:
        """Sample completions of a prompt.

        Args:
            request: The prompt.
            in_order: Whether requests that wait are begun in the order of their places.

        Raises:
            SamplerError: If the server answers by other weights, or something else.
            ServerLost: If it does not answer, or has no weights of that name.
        """
        greedy = request.sampling.temperature == 0  # of which a server gives one alone
        body = {
            "model": request.model,
            "prompt": list(request.prompt),
            "n": 1 if greedy else request.samples,
            "seed": request.seed,
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            "top_k": request.sampling.top_k or 0,
            "max_tokens": request.sampling.max_new_tokens,
            "stop_token_ids": list(self.end_ids),
            "logprobs": 0,
            "return_token_ids": True,
            **(_stops(request.sampling.stop) if request.sampling.stop else {}),
            **({"priority": request.place} if in_order else {}),
        }
        answer = self._call("POST", "/v1/completions", body)
        if answer.get("model") != request.model:
            raise SamplerError(
                f"{self.url} was asked for {request.model} and answers by {answer.get('model')!r}: these are "
                "other weights"
            )
        choices = sorted(answer.get("choices", ()), key=lambda choice: choice["index"])
        if len(choices) != body["n"]:
            raise SamplerError(f"{self.url} gave {len(choices)} completions, not {body['n']}")
        rows = [self._row(choice, request.sampling) for choice in choices]
        return rows * request.samples if greedy else rows

    def _row(self, choice: dict[str, Any], sampling: Sampling) -> SampledRow:
        limit = sampling.max_new_tokens
        tokens = tuple(choice.get("token_ids") or ())
        log_probs = tuple((choice.get("logprobs") or {}).get("token_logprobs") or ())
        at_string = choice.get("stop_reason") in (sampling.stop or ())
        stopped = bool(tokens) and (at_string or tokens[-1] in self.end_ids)
        if not tokens or len(log_probs) != len(tokens) or None in log_probs:
            raise SamplerError(
                f"{self.url} returned {len(tokens)} tokens with {len(log_probs)} log-probabilities: is it "
                "vLLM 0.22 or newer?"
            )
        if not stopped and len(tokens) != limit:
            raise SamplerError(
                f"{self.url} ended a completion after {len(tokens)} of {limit} tokens by itself, for the reason "
                f"{choice.get('finish_reason')!r}: raise its max_model_len, or lower max_new_tokens"
            )
        return SampledRow(tokens, log_probs, stopped)

    def load_adapter(self, name: str, folder: Path) -> None:
        """Give the server a LoRA adapter by a name that it has not heard yet."""
        body = {"lora_name": name, "lora_path": str(folder)}
        self._call("POST", "/v1/load_lora_adapter", body)

    def unload_adapter(self, name: str) -> None:
        """Let the server forget an adapter, if it still knows it."""
        timeout = min(self.timeout, BRIEF)
        with suppress(NoRoute):
            self._call("POST", "/v1/unload_lora_adapter", {"lora_name": name}, timeout=timeout)

    def reload_weights(self, version: str, folder: Path) -> None:
        """Give the server all weights of its model anew, and note their version where it keeps one."""
        with self.paused():
            body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            self._call("POST", "/collective_rpc", body)
            self._call("POST", "/reset_prefix_cache")
            with suppress(NoRoute):
                self._call("POST", "/update_weight_version", {"new_version": version})

    def version(self) -> str | None:
        """Return the version that `reload_weights` noted; `None` where the server keeps none."""
        try:
            return str(self._call("GET", "/weight_info").get("weight_version"))
        except NoRoute:
            return None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let requests wait until the end of a `with` block."""
        self._call("POST", "/pause?" + urlencode({"mode": "keep"}))
        try:
            yield
        finally:  # perhaps after it has hung, or on Ctrl-C
            self._call("POST", "/resume", timeout=min(self.timeout, BRIEF))

    def forget_prompts(self) -> None:
        """Let the server compute prompts anew that it has computed before."""
        self._call("POST", "/reset_prefix_cache")

    def open_requests(self) -> int:
        """Return the number of prompts that the server has been given and not answered."""
        return int(self._call("GET", "/load")["server_load"])

    def is_well(self) -> bool:
        """Check whether the server answers, and is ready."""
        try:
            self._call("GET", "/health", timeout=min(self.timeout, BRIEF))
        except SamplerError:
            return False
        return True

    def _call(
        self, method: str, path: str, body: Any = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Return the JSON of an answer; empty where it is none.

        Raises:
            SamplerError: If the server refuses, with its words.
            ServerLost: If it does not answer, or fails.
        """
        place = urlsplit(self.url)
        kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
        connection = kind(place.netloc, timeout=timeout or self.timeout)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            status, content = response.status, response.read()
        except TimeoutError:
            waited = timeout or self.timeout
            raise ServerLost(f"{self.url}{path} gave no answer for {waited:g} s") from None
        except (OSError, HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ServerLost(f"{self.url}{path} cannot be reached ({reason})") from error
        finally:
            connection.close()
        text = content.decode("utf-8", "replace")
        if status != 200:
            reply = f"{self.url}{path} answers {status}: {' '.join(text.split())[:QUOTED]}"
            if status >= 500:
                raise ServerLost(reply)
            if status == 404 and path == "/v1/completions":  # it has forgotten what it was given
                raise ServerLost(reply)
            if status == 404:
                raise NoRoute(f"{reply}; {HOW_TO_SERVE}")
            raise SamplerError(reply)
        try:
            answer = json.loads(text)
        except ValueError:
            return {}
        return answer if isinstance(answer, dict) else {}


def _stops(stop: Sequence[str]) -> dict[str, Any]:
    """Return the fields for stop strings, which a server then searches in text with special tokens."""
    return {"stop": stop, "skip_special_tokens": False, "spaces_between_special_tokens": False}


class NoRoute(SamplerError):
    """The server does not know a route, or what the route was asked for."""
