"""Commands in completions, one on a line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_decpomdp.envs.source_code.chat_text import find_answer

MARKS = re.compile(r"^(?:[-*+>]\s+|\d+[.):]\s*)?[`/]*\s*")
"""What may stand before a command: a list mark, backticks, a slash."""

FENCE = re.compile(r"^\s*(?:```|~~~)")

Form = Sequence[type]
"""Types of the arguments of a command: `int`, or `str` for a word."""


@dataclass(frozen=True)
class Commands:
    """The commands of a completion."""

    accepted: tuple[tuple[Any, ...], ...]
    """Verb and arguments of each command, in order; words are in lower case."""
    invalid: int
    """Lines with a known verb and other arguments, and commands beyond the limit."""


def read_commands(text: str, forms: Mapping[str, Form], limit: int | None = None) -> Commands:
    """Read the commands of a completion.

    Reasoning, fences, list marks and lines without a known verb are ignored. If commands stand between fences,
    those outside don't count.

    `forms` has the types of the arguments of each verb, such as `{"put": (int, int, str)}`. Commands beyond
    `limit` are invalid.
    """
    fenced: list[list[str]] = []
    bare: list[list[str]] = []
    inside = False
    for line in find_answer(text).text.splitlines():
        if FENCE.match(line):
            inside = not inside
            continue
        words = MARKS.sub("", line.strip(), count=1).rstrip("`.;, ").lower().split()
        if words and words[0] in forms:
            (fenced if inside else bare).append(words)
    accepted: list[tuple[Any, ...]] = []
    invalid = 0
    for verb, *arguments in fenced or bare:
        values = _read(arguments, forms[verb])
        if values is None or (limit is not None and len(accepted) >= limit):
            invalid += 1
        else:
            accepted.append((verb, *values))
    return Commands(tuple(accepted), invalid)


def _read(arguments: Sequence[str], form: Form) -> list[Any] | None:
    """Return the values of arguments; `None` if their number or a type is wrong."""
    if len(arguments) != len(form):
        return None
    values: list[Any] = []
    for argument, kind in zip(arguments, form, strict=True):
        if kind is int:
            # At most five digits: longer numbers are no coordinates, and `int` refuses very long ones.
            if not re.fullmatch(r"-?[0-9]{1,5}", argument):
                return None
            values.append(int(argument))
        else:
            values.append(argument)
    return values
