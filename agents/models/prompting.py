"""From a prompt to the token ids that a model continues: the chat template, and prompts that are too long."""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from functools import lru_cache
from typing import Any

from llm_decpomdp.agents.inference.log_probs import unwrap_peft
from llm_decpomdp.agents.inference.options import Prompting
from llm_decpomdp.policy import PromptTooLong

RESERVED_VARIABLES = ("messages", "add_generation_prompt")
"""Variables of a chat template that are always set here."""

SYSTEM_PROBE, USER_PROBE = "system_message_of_a_probe", "user_message_of_a_probe"
"""Texts that show whether a chat template writes the messages."""


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


logger = logging.getLogger(__name__)

BREAK = "\ufdd0"
"""Stands between two letters that must not become one token; Unicode keeps it free for such use."""

QUESTION, ANSWER, NEXT = "question_of_a_probe", "answer_of_a_probe", "next_question_of_a_probe"
"""Texts that show where a chat template puts messages."""


def control_pattern(tokenizer: Any, template: str | None) -> re.Pattern[str]:
    """Return a pattern that matches the text of any control token.

    Args:
        tokenizer: A tokenizer of transformers.
        template: The chat template, whose added tokens count too; `None` counts special tokens alone.
    """
    tokens = [
        token.content
        for token in tokenizer.added_tokens_decoder.values()
        if token.special or (template and token.content in template)
    ]
    tokens = [token for token in tokens if len(token) > 1 and not _is_text(token)]
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")  # (?!) matches nothing


def _is_text(token: str) -> bool:
    """True of an added token of blanks or of a word, which a template writes as text."""
    return not re.search(r"[^\s\w]", token)


def break_control_tokens(text: str, pattern: re.Pattern[str]) -> str:
    """Put `BREAK` between the letters of each control token in a text.

    Raises:
        ValueError: If the text holds half of a surrogate pair, which is no character.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"a text has the lone surrogate {text[error.start]!r} at position {error.start}, in "
            f"{text[max(0, error.start - 20) : error.start + 20]!r}. It is not a character, and tokenizers cannot "
            "encode it: correct the data, or replace it by text.encode('utf-8', 'replace').decode()"
        ) from None
    return pattern.sub(lambda found: BREAK.join(found[0]) + BREAK, text)


def encode_broken(tokenizer: Any, text: str) -> list[int]:
    """Encode a text of `break_control_tokens`, without the special tokens that the tokenizer adds."""
    first, *rest = text.split(BREAK)
    ids: list[int] = tokenizer(first, add_special_tokens=False).input_ids
    for piece in filter(None, rest):
        ids = ids + _encode_piece(tokenizer, piece)
    return ids


def _encode_piece(tokenizer: Any, piece: str) -> list[int]:
    """Encode a piece of a text as behind other text: some tokenizers put a blank before a text."""
    ids: list[int] = tokenizer(piece, add_special_tokens=False).input_ids
    if tokenizer.decode([*ids, *ids], clean_up_tokenization_spaces=False) == piece * 2:
        return ids
    line: list[int] = tokenizer("\n", add_special_tokens=False).input_ids
    whole: list[int] = tokenizer("\n" + piece, add_special_tokens=False).input_ids
    return whole[len(line) :] if whole[: len(line)] == line else ids


def end_of_turn(tokenizer: Any) -> int | None:
    """Return the token with which the chat template ends the model's turn; `None` if it writes none.

    It is the first added token behind an answer that ends the conversation. A template that writes none there may
    write one between an answer and the next question.
    """
    template = tokenizer.chat_template
    if not template:
        return None
    controls = {
        index
        for index, token in tokenizer.added_tokens_decoder.items()
        if not _is_text(token.content)
    }
    for texts in ([QUESTION, ANSWER], [QUESTION, ANSWER, NEXT]):
        behind = _render_conversation(tokenizer, texts).partition(ANSWER)[2].partition(NEXT)[0]
        ids = tokenizer(behind, add_special_tokens=False).input_ids
        end = next((index for index in ids if index in controls), None)
        if end is not None:
            return int(end)
    return None


def _render_conversation(tokenizer: Any, texts: list[str]) -> str:
    """Render a conversation that a user begins; empty if the template takes no answers."""
    from jinja2 import TemplateError

    messages = [
        {"role": ("user", "assistant")[place % 2], "content": text}
        for place, text in enumerate(texts)
    ]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False))
    except (TemplateError, TypeError) as error:
        logger.debug(
            "the chat template takes no conversation of %d messages: %s", len(texts), error
        )
        return ""


def end_ids(model: Any, tokenizer: Any) -> list[int]:
    """Return all tokens that end a completion, by generation settings, tokenizer and chat template.

    Raises:
        ValueError: If there is none.
    """
    configured = model.generation_config.eos_token_id
    ids = set(configured if isinstance(configured, list) else [configured])
    ids = ids.union([tokenizer.eos_token_id]) - {None}
    turn = end_of_turn(tokenizer)
    if turn is not None and turn not in ids:
        _log_end_of_turn(str(model.config.name_or_path), tokenizer.convert_ids_to_tokens(turn))
        ids.add(turn)
    if not ids:
        raise ValueError("no token ends a completion: set tokenizer.eos_token")
    return sorted(ids)


def end_id(tokenizer: Any, ends: list[int]) -> int:
    """Return the token that ends a text of the model: that of the chat template, or the tokenizer's own.

    Args:
        tokenizer: The tokenizer.
        ends: The tokens of `end_ids`.
    """
    candidates = (end_of_turn(tokenizer), tokenizer.eos_token_id)
    return next((int(index) for index in candidates if index in ends), ends[0])


@lru_cache
def _log_end_of_turn(name: str, token: str) -> None:
    logger.warning(
        "the chat template of the model %r ends turns with %s, which is not an end token of its tokenizer or its "
        "generation settings. Completions end at it, too",
        name,
        token,
    )


LENGTH_DEPENDENT = ("dynamic", "longrope")
"""Kinds of rotary positions that change with the length of the whole sequence."""


def model_name(model: Any) -> str:
    """Return a model's name and kind, for messages."""
    config = unwrap_peft(model).config
    return f"{config.name_or_path or 'in memory'!r} ({config.model_type})"


def rotary(model: Any) -> list[dict[str, Any]]:
    """Return the settings of a model's rotary positions, one for each kind of layer."""
    settings = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [settings, *(value for value in settings.values() if isinstance(value, dict))]
    return [kind for kind in kinds if "rope_type" in kind]


def context_length(model: Any) -> int | None:
    """Return the most tokens of a prompt with its completion; `None` for any number.

    Beyond `original_max_position_embeddings` some models change the positions of all tokens. A learner would then
    score tokens with other positions than the sampler had.
    """
    known = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    fixed = [
        rope.get("original_max_position_embeddings")
        for rope in rotary(model)
        if rope["rope_type"] in LENGTH_DEPENDENT
    ]
    context = min((int(length) for length in (known, *fixed) if length), default=None)
    if context is not None and known and context < known:
        _warn_of_context(model_name(model), context, known)
    return context


@lru_cache
def _warn_of_context(name: str, context: int, known: int) -> None:
    logger.warning(
        "the model %s changes its rotary positions beyond %d tokens, so that sampler and learner would disagree: "
        "its context is limited to %d tokens instead of %d",
        name,
        context,
        context,
        known,
    )
