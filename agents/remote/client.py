"""The routes of a vLLM server that sampling needs, over HTTP: token ids in, token ids and log-probabilities out.

The routes that load adapters and weights, pause and count are for development only (`VLLM_SERVER_DEV_MODE=1`,
`VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`) and need no key.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

import torch

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.inference.sampler import Prompt, SampledRow
from llm_decpomdp.agents.remote.options import SamplerError, ServerLost

QUOTED = 500  # characters of a server's answer in an error
AT_ONCE = 256  # requests that wait for answers at once
# Times in seconds.
BRIEF = 10.0  # timeout of short requests, such as the one for the server's health
POLL = 0.005  # time between two requests for the server's number of open requests
SETTLING = 0.05  # time in which a server queues the last request of a batch that it has read
UNSEEN = 20.0  # time without a counted request: the server does not count requests

HOW_TO_SERVE = "start it with the flags of docs/cluster.md, or let the run start it"


class NoRoute(SamplerError):
    """The server does not know a route, or the object of a request."""


class CompletionRequest(NamedTuple):
    """A prompt to continue."""

    model: str  # the name of the weights, which changes with them
    prompt: Sequence[int]
    samples: int
    seed: int  # in [0, 2**31)
    sampling: Sampling
    place: int  # in its batch, from 0


class VllmClient:
    """Sends requests to a server.

    Args:
        url: Its address, as in `http://127.0.0.1:8000`.
        end_ids: The tokens that end a completion.
        timeout: Seconds until an answer.
    """

    def __init__(self, url: str, end_ids: Sequence[int], timeout: float) -> None:
        self.url, self.end_ids, self.timeout = url.rstrip("/"), tuple(end_ids), timeout

    def complete(self, request: CompletionRequest, in_order: bool) -> list[SampledRow]:
        """Sample completions of a prompt; `in_order` starts waiting requests in the order of their places.

        Raises:
            SamplerError: If the server has other weights, or its answer is not complete.
            ServerLost: If it does not answer, or has no weights of that name.
        """
        answer = self.call("POST", "/v1/completions", self.body(request, in_order))
        return self.rows(request, answer)

    def body(self, request: CompletionRequest, in_order: bool = False) -> dict[str, Any]:
        """Return the JSON of a request."""
        sampling = request.sampling
        greedy = sampling.temperature == 0  # a server then gives one completion only
        body = {
            "model": request.model,
            "prompt": list(request.prompt),
            "n": 1 if greedy else request.samples,
            "seed": request.seed,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or 0,
            "max_tokens": sampling.max_new_tokens,
            "stop_token_ids": list(self.end_ids),
            "logprobs": 0,
            "return_token_ids": True,
        }
        if sampling.stop:  # searched in the text with special tokens, as here
            body |= {"stop": sampling.stop, "skip_special_tokens": False}
            body |= {"spaces_between_special_tokens": False}
        if in_order:
            body["priority"] = request.place
        return body

    def rows(self, request: CompletionRequest, answer: Mapping[str, Any]) -> list[SampledRow]:
        """Return the completions of an answer; raises a `SamplerError` if it is not complete."""
        if answer.get("model") != request.model:
            raise SamplerError(
                f"{self.url} was asked for {request.model} and answers by {answer.get('model')!r}: these are "
                "other weights"
            )
        greedy = request.sampling.temperature == 0
        number = 1 if greedy else request.samples
        choices = sorted(answer.get("choices", ()), key=lambda choice: choice["index"])
        if len(choices) != number:
            raise SamplerError(f"{self.url} gave {len(choices)} completions, not {number}")
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
        return SampledRow(tokens, log_probs, stopped, tuple(choice.get("versions", ())))

    def load_adapter(self, name: str, folder: Path, in_place: bool = False) -> None:
        """Load a LoRA adapter by a new name, or `in_place` of that with the name."""
        body: dict[str, Any] = {"lora_name": name, "lora_path": str(folder)}
        if in_place:
            body["load_inplace"] = True
        self.call("POST", "/v1/load_lora_adapter", body)

    def unload_adapter(self, name: str) -> None:
        """Remove an adapter, if the server still has it."""
        timeout = min(self.timeout, BRIEF)
        with suppress(NoRoute):
            self.call("POST", "/v1/unload_lora_adapter", {"lora_name": name}, timeout)

    def reload_weights(self, version: str, folder: Path) -> None:
        """Replace all weights of the model, and set their version if the server keeps one."""
        with self.pause():
            body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            self.call("POST", "/collective_rpc", body)
            self.end_update(version)

    def end_update(self, version: str) -> None:
        """Clear the cache of prompts, and set the version of all weights if the server keeps one."""
        self.forget_prompts()
        with suppress(NoRoute):
            self.call("POST", "/update_weight_version", {"new_version": version})

    def version(self) -> str | None:
        """Return the version of `reload_weights`; `None` if the server keeps none."""
        try:
            return str(self.call("GET", "/weight_info").get("weight_version"))
        except NoRoute:
            return None

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let requests wait until the end of a `with` block."""
        self.call("POST", "/pause?mode=keep")
        try:
            yield
        finally:  # also on Ctrl-C, or if the server hangs
            self.call("POST", "/resume", timeout=min(self.timeout, BRIEF))

    def forget_prompts(self) -> None:
        """Clear the cache of prompts."""
        self.call("POST", "/reset_prefix_cache")

    def open_requests(self) -> int:
        """Return the number of prompts without an answer."""
        return int(self.call("GET", "/load")["server_load"])

    def is_well(self) -> bool:
        """Check whether the server answers, and is ready."""
        try:
            self.call("GET", "/health", timeout=min(self.timeout, BRIEF))
        except SamplerError:
            return False
        return True

    def call(
        self, method: str, path: str, body: Any = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Send a request, and return the JSON of the answer; empty if it is none."""
        with self.open(method, path, body, timeout) as response:
            text = response.read().decode("utf-8", "replace")
        try:
            answer = json.loads(text)
        except ValueError:
            return {}
        return answer if isinstance(answer, dict) else {}

    @contextmanager
    def open(
        self, method: str, path: str, body: Any = None, timeout: float | None = None
    ) -> Iterator[HTTPResponse]:
        """Send a request, and give the answer to be read in a `with` block.

        Raises:
            NoRoute: If the server does not know the route.
            SamplerError: If it refuses.
            ServerLost: If it does not answer, also while the answer is read, or was started anew.
        """
        place, timeout = urlsplit(self.url), timeout or self.timeout
        kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
        connection = kind(place.netloc, timeout=timeout)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            if response.status != 200:
                self._raise_error(path, response.status, response.read())
            yield response
        except TimeoutError:
            raise ServerLost(f"{self.url}{path} gave no answer for {timeout:g} s") from None
        except (OSError, HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ServerLost(f"{self.url}{path} cannot be reached ({reason})") from error
        finally:
            connection.close()

    def _raise_error(self, path: str, status: int, content: bytes) -> NoReturn:
        text = content.decode("utf-8", "replace")
        reply = f"{self.url}{path} answers {status}: {' '.join(text.split())[:QUOTED]}"
        # A server that was started anew does not know the weights, and answers 404.
        if status >= 500 or (status == 404 and path == "/v1/completions"):
            raise ServerLost(reply)
        raise NoRoute(f"{reply}; {HOW_TO_SERVE}") if status == 404 else SamplerError(reply)


@dataclass(frozen=True)
class ServedWeights:
    """Samples by published weights, and by no others. It holds no weights, and can be pickled."""

    client: VllmClient
    names: Mapping[str | None, str]
    """Names of the weights at the server, by adapter; `None` for all weights of the model."""
    version: str | None  # version of all weights of the model, if they were published
    exact: bool  # whether a batch is held back until it is complete

    def sample(self, prompts: Sequence[Prompt], num_samples: int) -> list[SampledRow]:
        """Draw completions of all prompts: those of the first one, then those of the second, and so on.

        The seed of each prompt comes from its generator. Log-probabilities are those of the distribution that
        was sampled from, at its temperature. Tokens may follow a stop string.

        Raises:
            SamplerError: If the server has other weights, or refuses.
            ServerLost: If it does not answer, or was started anew.
        """
        groups = self.ask(to_requests(self.names, prompts, num_samples))
        return [row for rows in groups for row in rows]

    def ask(self, requests: Sequence[CompletionRequest]) -> list[list[SampledRow]]:
        """Send all requests of a batch; raises the errors of `sample`."""
        version = None if self.version is None else self.client.version()
        if version not in (None, self.version):
            raise ServerLost(
                f"{self.client.url} has weights of version {version!r}, not {self.version!r}: somebody has "
                "started it anew, or given it others"
            )
        # Its threads are daemons, so that Ctrl-C waits for no server.
        with ThreadPool(len(requests) if self.exact else min(len(requests), AT_ONCE)) as pool:
            if not self.exact:
                return list(
                    pool.imap(lambda request: self.client.complete(request, False), requests)
                )
            # The server computes a batch in one order if it has queued all requests before the first begins.
            with self.client.pause():
                self.client.forget_prompts()
                answers = [
                    pool.apply_async(self.client.complete, (request, True)) for request in requests
                ]
                begin = time.monotonic()
                while not any(answer.ready() for answer in answers):
                    count = self.client.open_requests()
                    if count >= len(requests):
                        break
                    self._check_wait(time.monotonic() - begin, count)
                    time.sleep(POLL)
                time.sleep(SETTLING)
            return [answer.get() for answer in answers]

    def _check_wait(self, waited: float, count: int) -> None:
        url, timeout = self.client.url, self.client.timeout
        if waited > timeout:
            raise ServerLost(f"{url} has not taken in a batch for {timeout:g} s")
        if waited > UNSEEN and not count:
            raise SamplerError(
                f"{url} does not count its requests: start it with --enable-server-load-tracking, or set "
                "exact=false"
            )


def to_requests(
    names: Mapping[str | None, str], prompts: Sequence[Prompt], num_samples: int
) -> list[CompletionRequest]:
    """Return the requests for prompts, each with a seed from its generator; names of weights by adapter."""
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
