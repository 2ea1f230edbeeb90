"""A model behind an OpenAI-compatible server as a policy that never learns."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any

from llm_decpomdp.policy import Completion
from llm_decpomdp.seeding import stream

NO_KEY = "none"
"""Sent where no key is known: a server of one's own mostly asks for none."""

SHOWN_CHARACTERS = 300
"""How much of a server's error is quoted."""

_REFUSALS = frozenset({400, 422, 501})  # how servers refuse a request for several samples

_REMEDIES = {
    400: "the server refuses the request; if it is too long, lower max_new_tokens",
    401: "set the environment variable {key} to a key of this server",
    403: "set the environment variable {key} to a key that may use this model",
    404: "check the model's name, and base_url, which mostly ends in /v1",
    429: "lower max_parallel, or ask for a higher limit",
}

logger = logging.getLogger(__name__)


class EndpointError(RuntimeError):
    """The server gave no completion."""


@dataclass(eq=False)
class Endpoint:
    """Asks a server that speaks OpenAI's chat protocol: vLLM, llama.cpp's server, or any such API.

    A prompt becomes one user message. Completions carry no tokens, so that learners leave this policy as it
    is. The samples of a prompt are asked for in one request; where the server gives or allows only one at a
    time, in one request each. Equal seeds give equal completions if the server honours seeds.

    Raises:
        ImportError: If the package `openai` is not installed.
        ValueError: If a number is out of its range, or neither an address nor a key is known.
    """

    model: str
    """What the server calls the model."""
    base_url: str | None = None
    """Address of the API, mostly ending in `/v1`; `None` takes `OPENAI_BASE_URL`, or else OpenAI's own."""
    temperature: float = 1.0
    """0 takes the most likely token always."""
    top_p: float = 1.0
    """Draw among the most likely tokens that hold this share of the probability; 1 draws among all."""
    top_k: int = 0
    """Draw among this many most likely tokens; 0 draws among all. OpenAI's own API has no such limit."""
    max_new_tokens: int = 256
    """Longest completion, in tokens."""
    key_variable: str = "OPENAI_API_KEY"
    """The environment variable that holds the API key."""
    max_parallel: int = 8
    """How many requests may wait for answers at once."""
    timeout: float = 600.0
    """How long a request waits for the server, in seconds."""
    max_retries: int = 3
    """How many further tries the client gives a request that may succeed later."""

    def __post_init__(self) -> None:
        if find_spec("openai") is None:
            raise ImportError(
                f"the endpoint of {self.model!r} needs openai: pip install 'llm-decpomdp[expert]'"
            )
        bounds = {"temperature": 0, "top_k": 0, "max_new_tokens": 1, "max_parallel": 1}
        for name, least in (bounds | {"max_retries": 0}).items():
            if not vars(self)[name] >= least:
                raise ValueError(f"{name} must be at least {least}, got {vars(self)[name]!r}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p!r}")
        own_server = self.base_url or os.environ.get("OPENAI_BASE_URL")
        if not own_server and not os.environ.get(self.key_variable):
            raise ValueError(
                f"no server for {self.model!r}: set base_url, or {self.key_variable} for OpenAI's API"
            )
        self._several = True  # whether the server gives several samples at once
        self.seed(0)

    def seed(self, seed: int) -> None:
        """Restart the stream of the requests' seeds."""
        self._seeds = stream(seed, "endpoint")

    def act(self, prompt: str) -> str:
        """The text of one completion of `prompt`."""
        return self.generate([prompt])[0][0].text

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample `num_samples` completions for each prompt, with at most `max_parallel` requests at once.

        Raises:
            ValueError: If `num_samples` is below 1.
            EndpointError: If the server cannot be reached or refuses; the text says what to do.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, got {num_samples}")
        found: list[list[Completion]] = [[] for _ in prompts]
        if num_samples > 1 and self._several:
            asked = [(index, num_samples) for index in range(len(prompts))]
            self._ask_all(prompts, asked, found)
            self._several = all(len(group) == num_samples for group in found)
            if not self._several:
                logger.warning("%s gives one sample a request; asking for each", self.model)
        missing = [num_samples - len(group) for group in found]
        singly = [(index, 1) for index, count in enumerate(missing) for _ in range(count)]
        self._ask_all(prompts, singly, found)
        return found

    def _ask_all(
        self,
        prompts: Sequence[str],
        requests: Sequence[tuple[int, int]],
        found: list[list[Completion]],
    ) -> None:
        """Ask for each pair of a prompt's index and a number of samples, and add what comes back."""
        if not requests:
            return
        seeds = self._seeds.integers(2**31, size=len(requests)).tolist()
        texts = [prompts[index] for index, _ in requests]
        counts = [count for _, count in requests]
        ask = partial(self._ask, self._client)  # the client is built here, not by several threads
        with ThreadPoolExecutor(min(self.max_parallel, len(requests))) as pool:
            answers = pool.map(ask, texts, counts, seeds)
            for (index, _), answer in zip(requests, answers, strict=True):
                found[index] += answer

    def _ask(self, client: Any, prompt: str, count: int, seed: int) -> list[Completion]:
        """Up to `count` completions; none where the server refuses to give more than one at once."""
        import openai

        try:
            response = client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": prompt}],
                n=count,
                seed=seed,
                temperature=self.temperature,
                top_p=self.top_p,
                max_tokens=self.max_new_tokens,
                extra_body={"top_k": self.top_k} if self.top_k else None,
            )
        except openai.APIError as error:
            status = error.status_code if isinstance(error, openai.APIStatusError) else None
            if count > 1 and status in _REFUSALS:
                return []
            raise EndpointError(self._problem(error, status)) from error
        choices = getattr(response, "choices", None) or []
        if not choices and count == 1:
            raise EndpointError(
                f"{self.base_url or 'the server'} answers without a completion for {self.model!r}: "
                f"{str(response)[:SHOWN_CHARACTERS]}; check base_url, which mostly ends in /v1"
            )
        return [_completion(choice) for choice in choices[:count]]

    def _problem(self, error: Exception, status: int | None) -> str:
        where = f"{self.model!r} at {self._client.base_url}"
        said = f"{type(error).__name__}: {error}"[:SHOWN_CHARACTERS]
        if status is None:
            remedy = "start the server, or set base_url; if it is slow, raise timeout"
            return f"cannot reach the endpoint of {where} ({said}): {remedy}"
        remedy = _REMEDIES.get(status, "look into the server's log").format(key=self.key_variable)
        return f"the endpoint of {where} refuses ({said}): {remedy}"

    @cached_property
    def _client(self) -> Any:
        import openai

        return openai.OpenAI(
            api_key=os.environ.get(self.key_variable) or NO_KEY,
            base_url=self.base_url,
            timeout=self.timeout,
            max_retries=self.max_retries,
        )


def _completion(choice: Any) -> Completion:
    reason = "length" if choice.finish_reason == "length" else "stop"
    return Completion(choice.message.content or "", finish_reason=reason)
