"""Text that programs have written, on its way into prompts.

One kind of it gets there: the message of a shown test that failed (`Outcome.message`). That is the name of an
exception's class and its text, and in the text may stand anything: values as `repr` writes them, operands of a
comparison, names, file names, messages of `SyntaxError`. What programs print gets into no prompt. To an agent it
is the outcome of a test; to a tokenizer it could be the end of a message and the beginning of the system's.
"""

from __future__ import annotations

import builtins
import re
from dataclasses import replace

from llm_decpomdp.envs.sandbox import Outcome

MAX_LINE = 200
"""Longest text that a prompt shows, in characters."""

BY_PROGRAMS = ("failed", "error", "memory", "forbidden")
"""Statuses whose messages are a program's words; those of the others are the sandbox's."""

_MARKUP = re.compile(
    r"(?<=[<\uff1c\ufe64])(?=[^\s='\"])"
    r"|(?<=[>\[\]\uff1e\ufe65\uff3b\uff3d\ufe47\ufe48])(?=[^\W\d]|[/|~!#@$<>]|[^\x00-\x7f])"
)
"""Places at which a bracket, also a wide or small one, stands directly before a word or a mark."""


def without_markup(text: str) -> str:
    """Return a text in which no tokenizer finds the markup of a chat, such as `<|im_start|>`, `</s>` or `[INST]`.

    Whatever it is called, it has no space after its bracket; here there is one.
    """
    return _MARKUP.sub(" ", text)


def foreign_line(text: str) -> str:
    """Return a text as one line of at most `MAX_LINE` printable characters, without markup."""
    text = " ".join(text[: 4 * MAX_LINE].split())
    text = "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)
    text = without_markup(text)
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 3] + "..."


def presentable(outcome: Outcome, exception_text: bool = True) -> Outcome:
    """Return an outcome as prompts may tell it.

    Args:
        outcome: The outcome of a test that may be shown.
        exception_text: Tells the text of exceptions, not their builtin type alone.
    """
    message = outcome.message
    if not exception_text and outcome.status in BY_PROGRAMS:
        name = message.partition(":")[0]
        kind = vars(builtins).get(name)
        builtin = isinstance(kind, type) and issubclass(kind, BaseException)
        message = name if builtin else "an exception"
    return replace(outcome, message=foreign_line(message))
