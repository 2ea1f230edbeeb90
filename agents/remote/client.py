"""The routes of a vLLM server that sampling needs, over HTTP: token ids in, token ids and log-probabilities out.

Those that load adapters and weights, pause and count are for development only (`VLLM_SERVER_DEV_MODE=1`,
`VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`) and ask for no key.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import torch

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.inference.sampler import Prompt, SampledRow
from llm_decpomdp.agents.remote.options import SamplerError, ServerLost

QUOTED = 500
"""Characters of a server's answer that an error shows."""

BRIEF = 10.0
"""Seconds that a server may take to say whether it is well."""

HOW_TO_SERVE = "start it with the flags that docs/cluster.md tells, or let the run start it"


@dataclass(frozen=True)
class CompletionRequest:
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


class VllmClient:
    """Speaks with a server.

    Args:
        url: Its address, as in `http://127.0.0.1:8000`.
        end_ids: The tokens that end a completion.
        timeout: Seconds that an answer may take.
    """

    def __init__(self, url: str, end_ids: Sequence[int], timeout: float) -> None:
        self.url, self.end_ids, self.timeout = url.rstrip("/"), tuple(end_ids), timeout

    def complete(self, request: CompletionRequest, in_order: bool) -> list[SampledRow]:
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
        with self.pause():
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
    def pause(self) -> Iterator[None]:
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


AT_ONCE = 256
"""Most requests that wait for answers at once."""

POLL = 0.005
"""Seconds between two looks at the number of requests that a server has."""

SETTLING = 0.05
"""Seconds from a server's having read the last request of a batch to its having queued it."""

UNSEEN = 20.0
"""Seconds after which a server that has still seen no request is one that does not count them."""


@dataclass(frozen=True)
class ServedWeights:
    """Samples by weights that were published, and by no others. It holds no weights, and can be pickled."""

    client: VllmClient
    """Speaks with the server."""
    names: Mapping[str | None, str]
    """Names of the weights at the server, by adapter; `None` for all weights of the model."""
    version: str | None
    """Of all weights of the model, where they were published."""
    exact: bool
    """Whether a batch is held back until it is complete."""

    def sample(self, prompts: Sequence[Prompt], num_samples: int) -> list[SampledRow]:
        """Draw completions of all prompts: those of the first one, then those of the second, and so on.

        The seed of each prompt comes from its generator. Log-probabilities are those of the distribution that
        was sampled from, at its temperature. Of a row that ends at a stop string, tokens behind it may be left.

        Raises:
            SamplerError: If the server has other weights, or refuses.
            ServerLost: If it does not answer, or was started anew.
        """
        groups = self.ask(to_requests(self.names, prompts, num_samples))
        return [row for rows in groups for row in rows]

    def ask(self, requests: Sequence[CompletionRequest]) -> list[list[SampledRow]]:
        """Ask for all completions of a batch; errors as of `sample`."""
        self._require_version()
        # Its threads are daemons, so that Ctrl-C waits for no server.
        with ThreadPool(len(requests) if self.exact else min(len(requests), AT_ONCE)) as pool:
            if not self.exact:
                return list(
                    pool.imap(lambda request: self.client.complete(request, False), requests)
                )
            with self.client.pause():
                self.client.forget_prompts()
                answers = [
                    pool.apply_async(self.client.complete, (request, True)) for request in requests
                ]
                deadline = time.monotonic() + self.client.timeout
                while not any(answer.ready() for answer in answers):
                    if self.client.open_requests() >= len(requests):
                        break
                    self._require_seen(deadline)
                time.sleep(SETTLING)
            return [answer.get() for answer in answers]

    def _require_version(self) -> None:
        """Check that all weights of the model are those that were published, where the server tells."""
        if self.version is None:
            return
        version = self.client.version()
        if version not in (None, self.version):
            raise ServerLost(
                f"{self.client.url} has weights of version {version!r}, not {self.version!r}: somebody has "
                "started it anew, or given it others"
            )

    def _require_seen(self, deadline: float) -> None:
        """Wait a moment for a batch to arrive; raise a `ServerLost` if it takes too long."""
        rest, url = deadline - time.monotonic(), self.client.url
        if rest < 0:
            raise ServerLost(f"{url} has not taken in a batch for {self.client.timeout:g} s")
        if self.client.timeout - rest > UNSEEN and not self.client.open_requests():
            raise SamplerError(
                f"{url} does not count its requests: start it with --enable-server-load-tracking, or set "
                "exact=false"
            )
        time.sleep(POLL)


def to_requests(
    names: Mapping[str | None, str], prompts: Sequence[Prompt], num_samples: int
) -> list[CompletionRequest]:
    """Return what to ask a server for, each prompt with a seed that its generator draws; names by adapter."""
    return [
        CompletionRequest(
            model=names[prompt.adapter],
            prompt=prompt.ids,
            samples=num_samples,
            seed=int(torch.randint(2**31, (), generator=prompt.generator)),
            sampling=prompt.sampling,
            place=place,
        )
        for place, prompt in enumerate(prompts)
    ]
