"""Outside models that edit the agents' code: their providers, and the exchange with them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from llm_decpomdp.envs.feedback.expert_prompt import (
    expert_prompt,
    message_text,
    read_reply,
    short_names,
)
from llm_decpomdp.utils.extras import install_command

TEMPERATURE = 0.3
"""Sampling temperature of OpenAI-compatible models. Current Claude models refuse the parameter."""

MAX_TOKENS = 2048
"""Longest reply, in tokens."""

SHOWN_CHARACTERS = 200
"""Characters of a server's error or of an unreadable reply that are quoted."""


class ExpertError(RuntimeError):
    """The expert gave no usable answer."""


class MissingKey(ValueError):
    """No API key is known."""


class Expert(Protocol):
    """Proposes edits of the agents' code."""

    def edits(self, task_prompt: str, completions: Mapping[str, str]) -> dict[str, str]:
        """Ask for edits.

        Args:
            task_prompt: The problem as the data set states it.
            completions: Each agent's code, by agent id.

        Returns:
            One text for each agent, by agent id.

        Raises:
            ExpertError: If there is no usable answer.
        """
        ...


@dataclass(frozen=True)
class Provider:
    """Server of a family of models, and its protocol."""

    family: str
    """A part of the names of the family's models, in lower case."""
    sdk: str
    """Package that speaks the protocol: `openai` or `anthropic`."""
    key_variable: str
    """The environment variable that holds the API key."""
    base_url: str | None = None
    """The address; None leaves it to the SDK: `<SDK>_BASE_URL` if set, then its default."""


PROVIDERS = (
    Provider("claude", "anthropic", "ANTHROPIC_API_KEY"),
    Provider("deepseek", "openai", "DEEPSEEK_API_KEY", "https://api.deepseek.com"),
    Provider(
        "qwen",
        "openai",
        "DASHSCOPE_API_KEY",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    ),
    Provider("", "openai", "OPENAI_API_KEY"),
)
"""The first one whose family stands in a model's name serves it; the last one takes all others."""


class RemoteExpert:
    """A model behind an OpenAI-compatible or Anthropic API.

    The SDK repeats requests that may succeed later (no connection, time-outs, status 408, 409, 429 and 5xx)
    after growing, jittered waits, or as long as the server says. A reply that cannot be read is asked for
    again at once. The client is built at the first request and never copied or pickled; nor is a key that
    came from the environment, so another process needs the variable too.

    Args:
        model: Name of the model; it decides the provider, see `PROVIDERS`.
        base_url: Address of the API, instead of the provider's.
        api_key: Key of the API, instead of the provider's environment variable.
        timeout: Seconds that one request waits for the server.
        max_retries: Further tries of a request that fails, and further requests after unreadable replies.

    Raises:
        MissingKey: If no API key is known.
        ValueError: If a number is out of its range.
        ImportError: If the provider's SDK is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 3,
    ) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")
        if max_retries < 0:
            raise ValueError(f"max_retries must not be negative, got {max_retries!r}")
        self.model = model
        self.provider = next(p for p in PROVIDERS if p.family in model.lower())
        if base_url is not None and self.provider.sdk == "openai":
            # An endpoint of the user's own gets no other provider's key.
            self.provider = PROVIDERS[-1]
        self.base_url = base_url or self.provider.base_url
        self.timeout = timeout
        self.max_retries = max_retries
        self._api_key = api_key
        self._client: Any = None
        if find_spec(self.provider.sdk) is None:
            raise ImportError(
                f"expert model {model!r} needs the {self.provider.sdk!r} package; "
                f"{install_command('expert')}"
            )
        self._key()

    def __repr__(self) -> str:
        return f"RemoteExpert({self.model!r}, base_url={self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    @property
    def client(self) -> Any:
        """The SDK's client, built at the first use."""
        if self._client is None:
            sdk = import_module(self.provider.sdk)
            make = sdk.Anthropic if self.provider.sdk == "anthropic" else sdk.OpenAI
            self._client = make(
                api_key=self._key(),
                base_url=self.base_url,
                timeout=self.timeout,
                max_retries=self.max_retries,
            )
        return self._client

    def edits(self, task_prompt: str, completions: Mapping[str, str]) -> dict[str, str]:
        """Return one text for each agent, by agent id; see `Expert.edits`."""
        keys = short_names(completions)
        prompt = expert_prompt(
            task_prompt, {key: completions[agent] for agent, key in keys.items()}
        )
        failure = f"expert {self.model!r} gave no edits"
        sdk = import_module(self.provider.sdk)
        for _ in range(self.max_retries + 1):
            try:
                reply = self._ask(prompt)
            except sdk.APIError as error:
                problem = f"{type(error).__name__}: {error}"[:SHOWN_CHARACTERS]
                raise ExpertError(f"{failure}: {problem}") from error
            texts = read_reply(reply, keys.values())
            if texts is not None:
                return {agent: texts[key] for agent, key in keys.items()}
        raise ExpertError(
            f"{failure} in {self.max_retries + 1} request(s): no reply has a JSON object with a string for each "
            f"of {list(keys.values())}; the last one begins: {reply[:SHOWN_CHARACTERS]!r}"
        )

    def _ask(self, prompt: str) -> str:
        """Send one request and return the text of the reply."""
        request: dict[str, Any] = {
            "model": self.model,
            "max_tokens": MAX_TOKENS,
            "messages": [{"role": "user", "content": prompt}],
        }
        if self.provider.sdk == "anthropic":
            response = self.client.messages.with_raw_response.create(**request)
        else:
            response = self.client.chat.completions.with_raw_response.create(
                **request, temperature=TEMPERATURE
            )
        return message_text(response.http_response.text)

    def _key(self) -> str:
        key = self._api_key or os.environ.get(self.provider.key_variable)
        if not key:
            raise MissingKey(
                f"no API key for expert model {self.model!r}: set the environment variable "
                f"{self.provider.key_variable}"
            )
        return key
