"""From a prompt to the token ids that a model continues: chat template, dialogues, context length.

With a history (`Prompting.history`) the tokens of a dialogue are

    first prompt | its answer | text between | next prompt | its answer | text between | newest prompt

The first prompt is encoded as it is alone. Answers are the sampled tokens. What stands between an answer and the
next one is encoded as the template writes it there. So the tokens of a prompt with its answer begin the tokens of
the next prompt, and nothing that a model has written is encoded again.

Control tokens that texts spell become letters (`inference/tokenization.py`). `Prompting.prefill` may contain
control tokens, because it is the user's own text.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from tokenizers.models import WordLevel

from llm_decpomdp.agents.inference.log_probs import unwrap_peft
from llm_decpomdp.agents.inference.options import Prompting
from llm_decpomdp.agents.inference.tokenization import (
    BREAK,
    break_control_tokens,
    control_pattern,
    encode_broken,
    is_text,
)
from llm_decpomdp.agents.models.dialogues import Message, check_dialogues, text_between
from llm_decpomdp.policy import CHAT, Completion, DialogueTurn, PromptTooLong, turns_before
from llm_decpomdp.testing.rules import short

RESERVED_VARIABLES = ("messages", "add_generation_prompt")  # always set here

SYSTEM, USER = "system_message_of_a_probe", "user_message_of_a_probe"
QUESTION, ANSWER, NEXT = "question_of_a_probe", "answer_of_a_probe", "next_question_of_a_probe"
"""Texts that show where a chat template writes messages."""

MAX_PROMPTS = 512  # prompts of dialogues whose tokens an encoder keeps
LENGTH_DEPENDENT = ("dynamic", "longrope")
"""Kinds of rotary positions that change with the length of the whole sequence."""

logger = logging.getLogger(__name__)


class PromptEncoder:
    """Turns prompts into the tokens that a model sees.

    Args:
        prompting: Chat template variables, and the handling of long prompts.
        tokenizer: A tokenizer of transformers.
        name: Name of the model in errors.
        context: Most tokens of a prompt with its completion; `None` for any number.
        end_ids: The tokens that end a completion.

    Raises:
        ValueError: If the chat template does not read an option of `prompting`, leaves messages out, or cannot
            keep the tokens of a dialogue (`history`).
    """

    def __init__(
        self,
        prompting: Prompting,
        tokenizer: Any,
        name: str,
        context: int | None,
        end_ids: Sequence[int] = (),
    ) -> None:
        self.prompting, self.tokenizer, self.name = prompting, tokenizer, name
        self.context, self.end_ids = context, end_ids
        self._variables = prompting.chat_template_kwargs or {}
        self._patterns: dict[str | None, re.Pattern[str]] = {}
        # A dialogue repeats the prompts of earlier turns, and of the other answers in its group.
        self._first_tokens = lru_cache(MAX_PROMPTS)(self.tokenize)
        self._tokens_between = lru_cache(MAX_PROMPTS)(self._encode_between)
        self._check_variables()
        if tokenizer.chat_template:
            self._check_messages()
        if prompting.history == CHAT:
            if not tokenizer.chat_template:
                raise ValueError(
                    f"history=chat: the model {name!r} has no chat template, which would write the turns of a "
                    "dialogue. Set history=none, or save its tokenizer with a chat_template"
                )
            check_dialogues(self._render, self._system, name)

    def encode(self, prompt: str, new_tokens: int) -> list[int]:
        """Return the token ids of a prompt, cut on the left if `on_long_prompt` is `truncate_left`.

        Of a dialogue the oldest turns are dropped first, and then the left end of the newest prompt.

        Raises:
            PromptTooLong: If they leave no room for the completion, or are more than `max_prompt_tokens`.
            ValueError: If there are none.
        """
        limit, ids = self._limit(new_tokens), []
        for ids in self._encode_turns(prompt):
            if not ids:
                raise ValueError(f"the prompt {prompt!r} has no tokens; a model needs at least one")
            if limit is None or len(ids) <= limit:
                return ids
            if self.prompting.on_long_prompt != "truncate_left":
                break
        else:
            # The longest end that fits: cutting text keeps the template around it whole.
            assert limit is not None
            starts = range(len(prompt))
            start = bisect_left(
                starts, True, key=lambda start: len(self.tokenize(prompt[start:])) <= limit
            )
            if start < len(prompt):
                return self.tokenize(prompt[start:])
        if limit == self.prompting.max_prompt_tokens:
            cause = "max_prompt_tokens"
        else:
            cause = f"its context of {self.context:,} less max_new_tokens={new_tokens}"
        words = "a dialogue" if self._turns(prompt) else "a prompt"
        raise PromptTooLong(
            f"{words} of {len(ids):,} tokens is too long for the model {self.name!r}, which takes {limit:,} "
            f"({cause}): shorten it, make room, or set on_long_prompt to skip or truncate_left",
            prompt,
        )

    def prefill(self, prompt: str) -> str:
        """Return the text that the completions of a prompt begin with; see `Prompting`."""
        own = self._own_prefill(prompt)
        return self.prompting.prefill or "" if own is None else own

    def _own_prefill(self, prompt: str) -> str | None:
        marker = self.prompting.prefill_after
        _, found, text = prompt.rpartition(marker) if marker else ("", "", "")
        # A beginning may end with a line break of its own, before the empty line in front of further text.
        return re.split(r"\n\n(?!\n)", text, maxsplit=1)[0] if found else None

    def _begin(self, prompt: str) -> str:
        """Return the prefill as it is encoded: control tokens that a prompt spells become letters."""
        if self._own_prefill(prompt) is None:
            return self.prefill(prompt)
        pattern = self._pattern(self.tokenizer.chat_template)
        return break_control_tokens(self.prefill(prompt), pattern)

    def overflow(self, prompt: str, new_tokens: int) -> tuple[int, int] | None:
        """Return the number of tokens of a prompt that is too long, and of those that fit; `None` if it fits."""
        limit = self._limit(new_tokens)
        if limit is None:
            return None
        tokens = len(next(self._encode_turns(prompt)))
        return (tokens, limit) if tokens > limit else None

    def _turns(self, prompt: str) -> Sequence[DialogueTurn]:
        return turns_before(prompt) if self.prompting.history == CHAT else ()

    def _encode_turns(self, prompt: str) -> Iterator[list[int]]:
        """Yield the token ids of a prompt with its history, then without its first turn, and so on."""
        turns = self._turns(prompt)
        prompts = [*(turn.prompt for turn in turns), str(prompt)]
        further = [
            [
                *self._encode_answer(turn.answer, self.prefill(turn.prompt)),
                *self._tokens_between(following),
            ]
            for turn, following in zip(turns, prompts[1:], strict=True)
        ]
        for first, text in enumerate(prompts):
            tokenize = self._first_tokens if turns else self.tokenize
            yield [*tokenize(text), *chain(*further[first:])]

    def _encode_answer(self, answer: Completion, prefill: str) -> Sequence[int]:
        """Return the tokens of an earlier answer, without its end; of a text alone, those of the text."""
        if not answer.tokens:
            return self.plain(answer.text.removeprefix(prefill))
        # The template writes the end that it has, which is mostly the one that was sampled.
        return answer.tokens[:-1] if answer.tokens[-1] in self.end_ids else answer.tokens

    def _encode_between(self, prompt: str) -> list[int]:
        """Return the tokens from the end of an answer to the next one, with a prompt between them."""
        text = text_between(self._render, prompt)
        # Some templates write blanks before the token that ends an answer, which no model has sampled there.
        if self._pattern(self.tokenizer.chat_template).match(text.lstrip()):
            text = text.lstrip()
        # In the middle of a text.
        return encode_broken(self.tokenizer, BREAK + text + self._begin(prompt))

    def _limit(self, new_tokens: int) -> int | None:
        room = None if self.context is None else self.context - new_tokens
        limits = [limit for limit in (room, self.prompting.max_prompt_tokens) if limit is not None]
        return min(limits, default=None)

    def tokenize(self, prompt: str) -> list[int]:
        """Tokenize a prompt as a user message of the chat template, or as it is without one; and the prefill."""
        if self.tokenizer.chat_template:
            messages = [*self._system, {"role": "user", "content": prompt}]
            return encode_broken(self.tokenizer, self._render(messages) + self._begin(prompt))
        text = break_control_tokens(prompt, self._pattern(None)) + self._begin(prompt)
        ids, specials = encode_broken(self.tokenizer, text), list(self.tokenizer("").input_ids)
        if not specials:
            return ids
        # Of the special tokens that the tokenizer adds, only those before a text: one behind it would end it.
        whole = list(self.tokenizer(text[:1]).input_ids)
        before = next(
            count
            for count in range(len(specials), -1, -1)
            if whole[:count] == specials[:count]
            and whole[len(whole) - len(specials) + count :] == specials[count:]
        )
        return specials[:before] + ids

    def plain(self, text: str) -> list[int]:
        """Tokenize a text without the chat template; special tokens that it spells become text."""
        return encode_broken(self.tokenizer, break_control_tokens(text, self._pattern(None)))

    @property
    def _system(self) -> list[Message]:
        text = self.prompting.system_prompt
        return [] if text is None else [{"role": "system", "content": text}]

    def _render(self, messages: Sequence[Message]) -> str:
        """Render messages by the chat template, with `BREAK` in the control tokens that their texts spell."""
        pattern = self._pattern(self.tokenizer.chat_template)
        escaped = [
            {**message, "content": break_control_tokens(message["content"], pattern)}
            for message in messages
        ]
        return str(
            self.tokenizer.apply_chat_template(
                escaped, tokenize=False, add_generation_prompt=True, **self._variables
            )
        )

    def _pattern(self, template: str | None) -> re.Pattern[str]:
        # Made once for each template, since it reads all tokens of the tokenizer.
        if template not in self._patterns:
            self._patterns[template] = control_pattern(self.tokenizer, template)
        return self._patterns[template]

    def describe(self) -> str:
        """Describe the messages that are sent, for a log line."""
        options = self.prompting
        prefill = [f"completions begin with {options.prefill!r}"] if options.prefill else []
        if options.prefill_after:
            prefill.append(
                f"completions begin with what prompts say behind {options.prefill_after!r}"
            )
        if not self.tokenizer.chat_template:
            words = "prompts are sent without a chat template, because the model has none"
            return ", ".join([words, *prefill])
        system = self.prompting.system_prompt
        before = "" if system is None else f" after a system prompt of {len(system)} characters"
        turns = " and the earlier turns of the episode" if self.prompting.history == CHAT else ""
        words = f"prompts are user messages of the chat template{before}{turns}"
        variables = (f"{key}={value!r}" for key, value in self._variables.items())
        return ", ".join([words, *variables, *prefill])

    def _check_variables(self) -> None:
        template = self.tokenizer.chat_template
        system = ["system_prompt"] if self.prompting.system_prompt is not None else []
        variables = [*system, *self._variables]
        if variables and not template:
            raise ValueError(
                f"the model {self.name!r} has no chat template that would read {', '.join(variables)}: "
                "leave it out"
            )
        for key in self._variables:
            if key in RESERVED_VARIABLES or not re.search(rf"\b{re.escape(key)}\b", template):
                raise ValueError(
                    f"chat_template_kwargs: the chat template of the model {self.name!r} takes no {key!r}"
                )

    def _check_messages(self) -> None:
        """Raise a `ValueError` if the chat template refuses a message, or leaves one out."""
        from jinja2 import TemplateError

        messages, name = [{"role": "user", "content": USER}], "user messages"
        if self.prompting.system_prompt is not None:
            messages.insert(0, {"role": "system", "content": SYSTEM})
            name = "system_prompt"
        try:
            text = self._render(messages)
        except TemplateError as error:
            raise ValueError(
                f"the chat template of the model {self.name!r} takes no {name}: {error}"
            ) from error
        if len(messages) > 1 and SYSTEM not in text:
            raise ValueError(
                f"the chat template of the model {self.name!r} leaves out the system message: the model would "
                "not see system_prompt. Remove system_prompt, or add its text to the environment's prompts"
            )
        if USER not in text:
            raise ValueError(
                f"the chat template of the model {self.name!r} leaves out the user message: the model would "
                "not see the prompts. Save its tokenizer with a chat_template that writes message['content']"
            )


class CharacterEncoder(PromptEncoder):
    """Encoder of the tiny model, whose tokenizer has no token for characters outside of its alphabet."""

    def tokenize(self, prompt: str) -> list[int]:
        """Tokenize a prompt; raise a `ValueError` if it has characters outside of the alphabet."""
        self._check_characters(prompt)
        return super().tokenize(prompt)

    def _encode_between(self, prompt: str) -> list[int]:
        self._check_characters(prompt)
        return super()._encode_between(prompt)

    def _check_characters(self, prompt: str) -> None:
        unknown = sorted(set(prompt) - set(self.tokenizer.get_vocab()))
        if unknown:
            raise ValueError(
                f"the prompt {short(prompt)} has {''.join(unknown)!r}, for which the tiny model has no token: "
                "give tiny_causal_lm an alphabet with every character of the prompts, such as string.printable"
            )

    def plain(self, text: str) -> list[int]:
        """Tokenize the characters of the alphabet in a text."""
        vocabulary = self.tokenizer.get_vocab()
        return super().plain("".join(character for character in text if character in vocabulary))


def make_encoder(
    prompting: Prompting, tokenizer: Any, name: str, context: int | None, end_ids: Sequence[int]
) -> PromptEncoder:
    """Return the encoder for a tokenizer; arguments and errors are those of `PromptEncoder`."""
    # Also of tiny models that were saved and loaded. WordLevel raises an error without a message for users.
    words = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    is_closed = (
        isinstance(words, WordLevel)
        and words.unk_token not in tokenizer.get_vocab()
        and all(
            len(token) == 1 for token in {*tokenizer.get_vocab()} - {*tokenizer.all_special_tokens}
        )
    )
    encoder = CharacterEncoder if is_closed else PromptEncoder
    return encoder(prompting, tokenizer, name, context, end_ids)


# End tokens


def end_of_turn(tokenizer: Any) -> int | None:
    """Return the token with which the chat template ends the model's turn; `None` if it writes none.

    It is the first added token behind an answer that ends the conversation. A template that writes none there may
    write one between an answer and the next question.
    """
    if not tokenizer.chat_template:
        return None
    tokens = tokenizer.added_tokens_decoder.items()
    controls = {index for index, token in tokens if not is_text(token.content)}
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

    roles = ("user", "assistant", "user")
    messages = [{"role": r, "content": text} for r, text in zip(roles, texts, strict=False)]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False))
    except (TemplateError, TypeError) as error:
        logger.debug(
            "the chat template takes no conversation of %d messages: %s", len(texts), error
        )
        return ""


def end_ids(model: Any, tokenizer: Any) -> list[int]:
    """Return all tokens that end a completion, by generation settings, tokenizer and chat template."""
    configured = model.generation_config.eos_token_id
    ids = {*(configured if isinstance(configured, list) else [configured]), tokenizer.eos_token_id}
    ids.discard(None)
    turn = end_of_turn(tokenizer)
    if turn is not None and turn not in ids:
        _log_end_of_turn(str(model.config.name_or_path), tokenizer.convert_ids_to_tokens(turn))
        ids.add(turn)
    if not ids:
        raise ValueError("no token ends a completion: set tokenizer.eos_token")
    return sorted(ids)


def end_id(tokenizer: Any, ends: list[int]) -> int:
    """Return the token of `end_ids` that ends a text: that of the chat template, or the tokenizer's own."""
    candidates = (end_of_turn(tokenizer), tokenizer.eos_token_id)
    return next((int(index) for index in candidates if index in ends), ends[0])


@lru_cache  # one warning for each model
def _log_end_of_turn(name: str, token: str) -> None:
    logger.warning(
        "the chat template of the model %r ends turns with %s, which is not an end token of its tokenizer or its "
        "generation settings. Completions end at it, too",
        name,
        token,
    )


# Context length


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


def rotary(model: Any) -> list[dict[str, Any]]:
    """Return the settings of a model's rotary positions, one for each kind of layer."""
    settings = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [settings, *(value for value in settings.values() if isinstance(value, dict))]
    return [kind for kind in kinds if "rope_type" in kind]


def model_name(model: Any) -> str:
    """Return a model's name and kind, for messages."""
    config = unwrap_peft(model).config
    return f"{config.name_or_path or 'in memory'!r} ({config.model_type})"
