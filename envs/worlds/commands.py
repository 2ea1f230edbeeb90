"""Lines of completions without the markup of chats, and commands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_decpomdp.utils.chat_text import find_answer

Form = Sequence[type]
"""Types of the arguments of a command: `int`, or `str` for a word."""

# Lines

PLAIN = str.maketrans(
    {
        **{chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)},  # full-width characters
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        **dict.fromkeys(
            "*`$\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\ufe0e\ufe0f\u20e3\u2713\u2714\u2705"
        ),
        **dict.fromkeys("{}", " "),
    }
)
"""Dashes and full-width characters become ASCII. Quotes, emphasis, check marks and braces are removed. Text that
is crossed out keeps its tildes, so that it is no command."""

FENCES = ("```", "~~~")

_BOX = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ITALICS = re.compile(r"(_{1,3})(?=[^\W\d_])(.*?)\1\W*")
_LATEX = re.compile(r"\\(?:text|math)[a-z]*(?=\s*\{)|\\[()\[\]]")
_EDGES = " \t\n*`$"
_MARKS = re.compile(r"(?:\s|[-+>#|/\[(\u2022\u25cf\u25e6]|[0-9]{1,3}[.):](?=[^0-9._?]))*")
_LABEL = re.compile(
    r"(?:(?:ok|okay|sure|so|thus|therefore|hence|the|my|our|heres|here is|here are|final|best|optimal|shortest"
    r"|correct|right|complete|full|walkers|planners|gatherers|builders)[\s,.!]+)*"
    r"(?:(?:step|action|command|move|line|row|r)\s*[0-9]+\s*(?:-\s|[:.)=|])"
    r"|(?:first|second|third|fourth) row\s*[:=]"
    r"|(?:answer|moves?|path|plan|sequence|solution|route|output|result|response|commands?|actions?|grid|verdict"
    r"|message|decision|choice)(?:\s+(?:of moves|to (?:reach )?the goal|sequence))*\s*(?::|=|(?:is|are)\b\s*:?|$))"
    r"\s*",
    re.IGNORECASE,
)


class AnswerLine(NamedTuple):
    """A line of an answer."""

    text: str
    """The line without marks of lists and headings, emphasis, quotes, and without its label."""
    label: str
    """What announces the answer, such as `Final answer:` or `Step 2:`, on this line or alone on the one before."""
    is_fenced: bool

    @property
    def is_answer(self) -> bool:
        """Whether it stands between fences, or its label announces an answer and no step, path or plan."""
        is_draft = re.search("[0-9]|plan|path|route|sequence", self.label, re.IGNORECASE)
        return self.is_fenced or (bool(self.label) and not is_draft)


def plain_lines(completion: str) -> Iterator[AnswerLine]:
    r"""Yield the lines of an answer without reasoning and markup; `\boxed{}` is a labeled line of its own.

    Lines without text stay, as they separate others.
    """
    inside, title = False, ""
    # Tags, of which `<br>` and those of an answer end a line.
    answer = re.sub(
        r"</?[a-z_]{1,20} ?/?>", "\n", find_answer(completion).text, flags=re.IGNORECASE
    )
    for line in _BOX.sub(r"\nAnswer: \1\n", answer).splitlines():
        if not line.strip():  # completions may have many
            yield AnswerLine("", "", inside)
            continue
        mark = line.strip(" \t>")[:3]
        # Fences around a text on one line are removed with the emphasis.
        is_short = line.count(mark) > 1 and bool(line.strip(" \t>`~"))
        if mark in FENCES and not is_short:
            inside = not inside
            continue
        bare = _LATEX.sub("", line).translate(PLAIN)
        bare = bare[_end(_MARKS, bare) :].strip()
        italics = _ITALICS.fullmatch(bare)
        bare = italics[2] if italics else bare
        label = _LABEL.match(bare)
        text = bare[_end(_MARKS, bare, label.end()) :] if label else bare
        yield AnswerLine(text, label[0] if label else title, inside or mark in FENCES)
        # A label alone on its line announces the next line with text.
        title = (label[0] if label else title) if not text else ""


def plain_answers(text: str) -> tuple[str, str]:
    r"""Return a short answer, as in the last `\boxed{}` or else all of it, in two readings.

    The first is without what stands around it: fences, a label, emphasis, quotes, a period. The second is also
    without all other markup, and of an equation it is the last side.
    """
    boxes = _BOX.findall(text)
    inner = (boxes[-1] if boxes else text).strip()
    if inner.startswith("```") and "\n" in inner:
        inner = inner.partition("\n")[2]
    inner = inner.strip(_EDGES)
    inner = inner[_end(_LABEL, inner) :].strip(_EDGES).removesuffix(".").rstrip(_EDGES)
    if len(inner) > 1 and inner[0] == inner[-1] == '"':
        inner = inner[1:-1]
    plain = _LATEX.sub("", inner).translate(PLAIN).strip()
    return inner, plain[_end(_LABEL, plain) :].rpartition("=")[2].strip(" .\n")


def _end(pattern: re.Pattern[str], text: str, position: int = 0) -> int:
    """Return where a pattern that may be empty ends."""
    match = pattern.match(text, position)
    return match.end() if match else position


# Commands


_GAP = re.compile(
    r"(?:[\s,:=(\[<|)\]]|-+>?\s|(?:at|to|is|with|in|cell|position)\s"
    r"|(?:[xyz][12]?|kind|resource|colou?r|material|name)\s*[=:])*"
)
"""What may stand before an argument: separators, brackets, and its name, as in `x=1`."""

_VALUES = {
    # At most five digits: longer numbers are no coordinates, and `int` refuses very long ones.
    int: re.compile(r"-?[0-9]{1,5}(?!\w|\.[0-9])"),
    str: re.compile(r"[^\W\d]\w*"),
}

_CLOSED = re.compile(r"[\s)\]>]*")
_NEXT = re.compile(r"(?:[\s)\]>|.,;!+&]|[-=]>|[\u2192\u21d2\u279c\u2794]|(?:and|then)\b)*")
_REMARK = re.compile(
    r"[(\[#|<\u2192]|//|-+>?\s|[:.;!]\s|,?\s*(?:because|since|as|so|who|which|for)\b"
)


@dataclass(frozen=True)
class Commands:
    """The commands of a completion."""

    accepted: tuple[tuple[Any, ...], ...]
    """Verb and arguments of each command, in order; words are in lower case."""
    invalid: int
    """Lines with a known verb and other arguments, and commands beyond the limit."""


def read_commands(text: str, forms: Mapping[str, Form], limit: int | None = None) -> Commands:
    """Read the commands of a completion: those at the beginning of a line, and what follows them on the same line.

    A label such as `Step 1:` may precede them. Brackets and commas around arguments and their names do not count.
    After a command a remark may follow in parentheses, behind a dash, or as a sentence; with other words behind it
    the command is invalid. If valid commands stand between fences, those outside don't count. Nor do those before
    `Final answer:`, or before `Answer:` alone on its line.

    `forms` has the types of the arguments of each verb, such as `{"put": (int, int, str)}`. Commands beyond
    `limit` are invalid.
    """
    verbs = re.compile(rf"({'|'.join(map(re.escape, forms))})(?!\w)")
    places: dict[bool, list[tuple[Any, ...] | None]] = {True: [], False: []}
    for line in plain_lines(text):
        label = line.label.lower()
        commands = _read_line(line.text.lower(), verbs, forms)
        # A label may have the verb, as in `Final answer: Ada`.
        if line.text and not commands and (verb := verbs.search(label)):
            commands = _read_line(f"{label[verb.start() :]} {line.text.lower()}", verbs, forms)
        is_final = "final" in label and not re.search("[0-9]", label)
        if is_final or ("answer" in label and not line.text):
            places[False].clear()
        places[line.is_fenced] += commands
    commands = places[True] if any(places[True]) else places[True] + places[False]
    accepted = [command for command in commands if command][:limit]
    return Commands(tuple(accepted), len(commands) - len(accepted))


def _read_line(
    line: str, verbs: re.Pattern[str], forms: Mapping[str, Form]
) -> list[tuple[Any, ...] | None]:
    """Return the commands of a line, `None` for one that is invalid; none if the line begins with no verb."""
    commands: list[tuple[Any, ...] | None] = []
    position = 0
    while verb := verbs.match(line, position):
        values: list[Any] = [verb[1]]
        position = verb.end()
        for kind in forms[verb[1]]:
            value = _VALUES[kind].match(line, _end(_GAP, line, position))
            if value is None:
                return [*commands, None]
            values.append(kind(value[0]))
            position = value.end()
        after = _end(_CLOSED, line, position)
        position = _end(_NEXT, line, after)
        if (
            position < len(line)
            and not verbs.match(line, position)
            and not _REMARK.match(line, after)
        ):
            return [*commands, None]
        commands.append(tuple(values))
    return commands
