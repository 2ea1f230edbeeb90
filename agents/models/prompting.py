"""From a prompt to the token ids that a model continues: the chat template, and prompts that are too long."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any

from llm_decpomdp.agents.models.control_tokens import (
    break_control_tokens,
    control_pattern,
    encode_broken,
)
from llm_decpomdp.options import Options, option
from llm_decpomdp.policy import PromptTooLong

ON_LONG_PROMPT = ("raise", "skip", "truncate_left")
"""Names of the ways to handle a prompt that is too long."""

RESERVED_VARIABLES = ("messages", "add_generation_prompt")
"""Variables of a chat template that are always set here."""

SYSTEM_PROBE, USER_PROBE = "system_message_of_a_probe", "user_message_of_a_probe"
"""Texts that show whether a chat template writes the messages."""


class Prompting(Options):
    """Chat template variables, and the handling of long prompts.

    Raises:
        ValueError: If a value is out of its range.
    """

    system_prompt: str | None = None
    """System message of the model's chat template, also an empty one; `None` sends none, and the template may have
    its own. The agent's prompt is the user message."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Further variables of the chat template, as in `{enable_thinking: false}`."""
    max_prompt_tokens: int | None = option(None, ge=1)
    """Most tokens of a prompt as the model sees it; never more than its context less `max_new_tokens`."""
    on_long_prompt: str = option("raise", choices=ON_LONG_PROMPT)
    """Treatment of longer ones: `raise` ends the run, before the first update if it is a first prompt. `skip`
    lets the agent say nothing in that turn, and trains on no problem that begins so. `truncate_left` cuts their
    beginning off; the template stays whole."""
    prefill: str | None = None
    """Text that every completion begins with, as in `"def aux(x):\\n    return"`: the model goes on from it. Its
    tokens are not sampled and not learned; the environment reads the whole text."""


class PromptEncoder:
    """Turns prompts into the tokens that a model sees.

    Args:
        prompting: Chat template variables, and the handling of long prompts.
        tokenizer: Its tokenizer.
        name: Name of the model in errors.
        context: The tokens that it has positions for, of a prompt with its completion; `None` for any number.

    Text that spells a control token becomes text (see `control_tokens.py`), but for the prefill: it is the user's
    own, and may begin a completion with a control token.

    Raises:
        ValueError: If the chat template does not read what `prompting` says, or leaves messages out.
    """

    def __init__(
        self, prompting: Prompting, tokenizer: Any, name: str, context: int | None
    ) -> None:
        self.prompting = prompting
        self.tokenizer = tokenizer
        self.name = name
        self.context = context
        self.prefill = prompting.prefill or ""
        """The text that completions begin with."""
        self._variables = prompting.chat_template_kwargs or {}
        self._patterns: dict[str | None, re.Pattern[str]] = {}
        self._check()

    def encode(self, prompt: str, new_tokens: int) -> list[int]:
        """Return the token ids of a prompt, cut on the left if `on_long_prompt` is `truncate_left`.

        Args:
            prompt: The prompt.
            new_tokens: Largest number of tokens of its completion.

        Raises:
            PromptTooLong: If they leave no room for the completion, or are more than `max_prompt_tokens`.
            ValueError: If there are none.
        """
        ids: list[int] | None = self.tokenize(prompt)
        if not ids:
            raise ValueError(f"the prompt {prompt!r} has no tokens; a model needs at least one")
        limit, tokens = self._limit(new_tokens), len(ids)
        if limit is None or tokens <= limit:
            return ids
        ids = self._end(prompt, limit) if self.prompting.on_long_prompt == "truncate_left" else None
        if ids is None:
            raise PromptTooLong(self._too_long(tokens, limit, new_tokens), prompt)
        return ids

    def overflow(self, prompt: str, new_tokens: int) -> tuple[int, int] | None:
        """Return the tokens of a prompt that is too long, and how many would fit; `None` of any other."""
        limit = self._limit(new_tokens)
        if limit is None:
            return None
        tokens = len(self.tokenize(prompt))
        return (tokens, limit) if tokens > limit else None

    def describe(self) -> str:
        """Describe the messages that are sent, for a log line."""
        prefill = [f"completions begin with {self.prefill!r}"] if self.prefill else []
        if not self.tokenizer.chat_template:
            words = "prompts are sent as they are, for the model has no chat template"
            return ", ".join([words, *prefill])
        system = self.prompting.system_prompt
        before = "" if system is None else f" after a system prompt of {len(system)} characters"
        variables = self._variables.items()
        texts = [f"{key}={value!r}" for key, value in variables]
        return ", ".join(
            [f"prompts are user messages of the chat template{before}", *texts, *prefill]
        )

    def _check(self) -> None:
        prompting, template = self.prompting, self.tokenizer.chat_template
        system = ["system_prompt"] if prompting.system_prompt is not None else []
        variables = [*system, *self._variables]
        if variables and not template:
            raise ValueError(
                f"the model {self.name!r} has no chat template that would read {', '.join(variables)}: "
                "leave it out"
            )
        for key in self._variables:
            if key in RESERVED_VARIABLES or not re.search(rf"\b{re.escape(key)}\b", str(template)):
                raise ValueError(
                    f"chat_template_kwargs: the chat template of the model {self.name!r} takes no {key!r}"
                )
        if template:
            self._check_messages()

    def _check_messages(self) -> None:
        """Raise a `ValueError` if the chat template refuses a message, or leaves one out."""
        from jinja2 import TemplateError

        system = None if self.prompting.system_prompt is None else SYSTEM_PROBE
        name = "user messages" if system is None else "system_prompt"
        try:
            text = self._render(USER_PROBE, system)
        except TemplateError as error:
            raise ValueError(
                f"the chat template of the model {self.name!r} takes no {name}: {error}"
            ) from error
        if system is not None and system not in text:
            raise ValueError(
                f"the chat template of the model {self.name!r} leaves out the system message: the model would "
                "not see system_prompt. Remove system_prompt, or add its text to the environment's prompts"
            )
        if USER_PROBE not in text:
            raise ValueError(
                f"the chat template of the model {self.name!r} leaves out the user message: the model would "
                "not see the prompts. Save its tokenizer with a chat_template that writes message['content']"
            )

    def tokenize(self, prompt: str) -> list[int]:
        """Tokenize one user message of the chat template, or the bare prompt if there is none; and the prefill.

        Raises:
            ValueError: If a text holds half of a surrogate pair.
        """
        pattern = self._pattern(self.tokenizer.chat_template)
        message, system = break_control_tokens(prompt, pattern), self.prompting.system_prompt
        if not self.tokenizer.chat_template:
            return self._begin(message + self.prefill)
        if system is not None:
            system = break_control_tokens(system, pattern)
        return encode_broken(self.tokenizer, self._render(message, system) + self.prefill)

    def plain(self, text: str) -> list[int]:
        """Tokenize a text as it is; special tokens that it spells become text.

        Raises:
            ValueError: If it holds half of a surrogate pair.
        """
        return encode_broken(self.tokenizer, break_control_tokens(text, self._pattern(None)))

    def _render(self, message: str, system: str | None) -> str:
        messages = [{"role": "user", "content": message}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        return str(
            self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self._variables
            )
        )

    def _begin(self, text: str) -> list[int]:
        """Tokenize a text with the special tokens that the tokenizer adds before it, and none behind it."""
        ids, specials = encode_broken(self.tokenizer, text), list(self.tokenizer("").input_ids)
        if not specials:
            return ids
        whole = list(self.tokenizer(text[:1]).input_ids)
        before = next(
            count
            for count in range(len(specials), -1, -1)
            if whole[:count] == specials[:count]
            and whole[len(whole) - len(specials) + count :] == specials[count:]
        )
        return specials[:before] + ids

    def _pattern(self, template: str | None) -> re.Pattern[str]:
        """Return the pattern of control tokens, which is made once for each template."""
        if template not in self._patterns:
            self._patterns[template] = control_pattern(self.tokenizer, template)
        return self._patterns[template]

    def _end(self, prompt: str, limit: int) -> list[int] | None:
        """Tokenize the longest end of a prompt that has at most `limit` tokens; `None` if none has."""
        starts = range(len(prompt))
        start = bisect_left(
            starts, True, key=lambda start: len(self.tokenize(prompt[start:])) <= limit
        )
        return self.tokenize(prompt[start:]) if start < len(prompt) else None

    def _limit(self, new_tokens: int) -> int | None:
        """Return the largest number of tokens that a prompt may have."""
        room = None if self.context is None else self.context - new_tokens
        limits = [limit for limit in (room, self.prompting.max_prompt_tokens) if limit is not None]
        return min(limits, default=None)

    def _too_long(self, tokens: int, limit: int, new_tokens: int) -> str:
        if limit == self.prompting.max_prompt_tokens:
            cause = "max_prompt_tokens"
        else:
            cause = f"its context of {self.context:,} less max_new_tokens={new_tokens}"
        return (
            f"a prompt of {tokens:,} tokens is too long for the model {self.name!r}, which takes {limit:,} "
            f"({cause}): shorten it, make room, or set on_long_prompt to skip or truncate_left"
        )
