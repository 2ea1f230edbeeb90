"""Models of other providers that edit the agents' code: requests, and how their replies are read."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

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
        # Before a run starts, not at its first request.
        if find_spec(self.provider.sdk) is None:
            raise ImportError(
                f"expert model {model!r} needs the {self.provider.sdk!r} package; "
                f"{install_command('expert')}"
            )
        # A missing key is an error here, too.
        self._key()

    def __repr__(self) -> str:
        return f"RemoteExpert({self.model!r}, base_url={self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        # Clients hold connections and locks, which other processes cannot use.
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
            # The SDK repeats failed requests; a reply without edits is asked for again here.
            texts = read_reply(reply, keys.values())
            if texts is not None:
                return {agent: texts[key] for agent, key in keys.items()}
        raise ExpertError(
            f"{failure} in {self.max_retries + 1} request(s): no reply has a JSON object with a string for each "
            f"of {list(keys.values())}; the last one begins: {reply[:SHOWN_CHARACTERS]!r}"
        )

    def _ask(self, prompt: str) -> str:
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


NOTHING_TO_CHANGE = "No changes needed."
"""The expert's answer about code that is right."""

_DECODER = json.JSONDecoder(strict=False)  # raw newlines and tabs inside strings are fine

_TEAM = """\
Two agents solved a Python programming problem together. `aux` wrote a helper function named \
`aux`; `main` wrote the function that the problem asks for, and should call `aux` if that helps."""

_LARGER_TEAM = """\
{number} agents solved a Python programming problem together. {others} each wrote a helper \
function that bears the agent's name; `main` wrote the function that the problem asks for, and should \
call the helpers if that helps."""

_ALONE = """\
An agent, `main`, solved a Python programming problem: it wrote the function that \
the problem asks for."""

_OTHER_TEAMS = {
    "coder": "{authors} completed a Python class: each agent wrote some of the methods that the skeleton leaves "
    "open, and no method was asked of two.",
    "fixer": "{authors} repaired a Python program with one or more bugs: each agent submitted the functions that "
    "are its own again, changed or not, and no function was asked of two.",
}
"""The work of a team whose agents all have the same role, by that role."""

_INSTRUCTION = """\
You are an experienced Python programmer who reviews other people's code. {team}

The problem:
<problem>
{problem}
</problem>

The code as it was written:
{code}

For each agent, say what it should change so that the program is correct:
- If what it should have written is missing, give a minimal correct implementation.
- If its code needs changes, give concise edits: only the lines that change, with enough \
context to place them.
- If nothing should change, answer "{nothing}"

Answer with one JSON object and nothing else: no Markdown fences, no text around it. Its keys are \
exactly {keys}; every value is one string with your text for that agent. Escape quotes and \
newlines as JSON demands."""


def expert_prompt(task_prompt: str, code: Mapping[str, str]) -> str:
    """Return the request for edits. It shows the problem and the agents' code, never a test.

    `code` has each agent's code by the key that the expert shall use, such as `aux` and `main`.
    """
    keys = list(code)
    role = keys[0].partition("_")[0]
    if role in _OTHER_TEAMS:
        authors = "An agent" if len(keys) == 1 else f"{len(keys)} agents"
        team = _OTHER_TEAMS[role].format(authors=authors)
    elif keys == ["main"]:
        team = _ALONE
    elif set(keys) == {"aux", "main"}:
        team = _TEAM
    else:
        others = " and ".join(f"`{key}`" for key in keys if key != "main")
        team = _LARGER_TEAM.format(number=len(keys), others=others)
    return _INSTRUCTION.format(
        team=team,
        problem=task_prompt.strip(),
        code="\n".join(f"<{key}>\n{text.strip()}\n</{key}>" for key, text in code.items()),
        nothing=NOTHING_TO_CHANGE,
        keys=" and ".join(f'"{key}"' for key in code),
    )


def short_names(agents: Collection[str]) -> dict[str, str]:
    """Return the expert's name of each agent: its role where no other agent has the same, else its id."""
    roles = Counter(agent.rpartition("_")[0] for agent in agents)
    names = {agent: agent.rpartition("_")[0] for agent in agents}
    return {agent: name if roles[name] == 1 else agent for agent, name in names.items()}


def message_text(body: str) -> str:
    """Return the model's text in the body of an OpenAI-compatible or Anthropic response.

    A body without one (a web page, a refusal, a broken server) is returned unchanged, for an error
    to quote.
    """
    try:
        response = json.loads(body)
        if "choices" in response:
            parts = [response["choices"][0]["message"]["content"]]
        else:
            parts = [part["text"] for part in response["content"] if part["type"] == "text"]
        return "".join(parts)
    except (ValueError, LookupError, TypeError, RecursionError):
        return body


def read_reply(reply: str, keys: Collection[str]) -> dict[str, str] | None:
    """Return the first JSON object in `reply` that holds a string for every one of `keys`.

    Each opening brace is tried with a real decoder, so braces inside strings, fences, and text or
    further objects around the answer do no harm. Other keys of the object are dropped.

    Returns:
        One UTF-8 encodable text for each key, or None where there is no such object.
    """
    start = reply.find("{")
    while start >= 0:
        try:
            answer, _ = _DECODER.raw_decode(reply, start)
        except (ValueError, RecursionError):  # a number may have too many digits
            answer = {}
        if all(isinstance(answer.get(key), str) for key in keys):
            return {key: answer[key].encode("utf-8", "replace").decode() for key in keys}
        start = reply.find("{", start + 1)
    return None
