"""The text of a program by its top-level functions: which lines are whose, and how large a change is."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator, Sequence

from llm_decpomdp.envs.programs.completion import find_function, parsed
from llm_decpomdp.envs.programs.positions import FUNCTIONS, has_docstring

MAX_GROWTH = 4
MAX_MORE = 200
"""A text of more than `MAX_GROWTH` times another's tokens and `MAX_MORE` counts as a whole, uncompared."""

UNSEEN = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER}

LITERALS = {"STRING", "NUMBER", "FSTRING_MIDDLE"}
"""Tokens that may be as long as one likes, by the names of `tokenize`."""

WORD = re.compile(r"\s{0,8}(?:[\w.]{1,8}|[^\w\s.])|\s{1,8}")
"""A short word or a mark of a literal, with the white space before it."""

Span = tuple[int, int]
"""The first line of something, counted from 0, and the one after its last."""


def functions(code: str) -> dict[str, tuple[Span, ...]]:
    """The lines of each top-level function, in order; of a name that is defined again, all of them.

    Empty where `code` does not parse.
    """
    tree = parsed(code)
    found: dict[str, tuple[Span, ...]] = {}
    for statement in tree.body if tree is not None else []:
        if isinstance(statement, FUNCTIONS):
            found[statement.name] = (*found.get(statement.name, ()), _span(statement))
    return found


def _span(statement: ast.stmt) -> Span:
    first = statement.lineno
    if isinstance(statement, FUNCTIONS):
        first = min([first, *(decorator.lineno for decorator in statement.decorator_list)])
    assert statement.end_lineno is not None
    return first - 1, statement.end_lineno


def excerpt(code: str, names: Collection[str], rest: bool) -> str:
    """The functions of these names, and the rest of the code or not; all other lines are left empty.

    What is kept stays on its line.
    """
    lines = _lines(code)
    kept = [rest] * len(lines)
    for name, spans in functions(code).items():
        for first, end in spans:
            kept[first:end] = [name in names] * (end - first)
    text = "\n".join(line if keep else "" for line, keep in zip(lines, kept, strict=True))
    return text.rstrip("\n") + "\n" if text.strip() else ""


def without_bindings(code: str, names: Collection[str]) -> str:
    """The code without the statements beside its functions that give one of these names another meaning."""
    tree, lines = parsed(code), _lines(code)
    for statement in tree.body if tree is not None else []:
        if not isinstance(statement, FUNCTIONS) and not _bound(statement).isdisjoint(names):
            first, end = _span(statement)
            lines[first:end] = [""] * (end - first)
    return "\n".join(lines)


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement may bind."""
    found: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def function_text(code: str, name: str) -> str:
    """The text of a function; empty where there is none of this name."""
    lines = _lines(code)
    spans = functions(code).get(name, ())
    return "\n".join("\n".join(lines[first:end]) for first, end in spans)


def _lines(code: str) -> list[str]:
    return code.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def statement_of(code: str, name: str) -> str:
    """The header and the docstring of a function: what it shall do, as its author said it."""
    node = find_function(code, name)
    if not isinstance(node, FUNCTIONS):
        return ""
    end = node.body[0].end_lineno if has_docstring(node) else node.body[0].lineno - 1
    return "\n".join(_lines(code)[node.lineno - 1 : end])


def without_docstring(code: str, name: str) -> str:
    """The code without the docstring of one function that has more to it."""
    node = find_function(code, name)
    if not isinstance(node, FUNCTIONS) or not has_docstring(node) or len(node.body) == 1:
        return code
    lines = _lines(code)
    first, end = _span(node.body[0])
    return "\n".join(lines[:first] + lines[end:])


# How large a change is


def distance(one: str, other: str) -> int:
    """How many tokens have to be put in, taken out or replaced to make one text of code another.

    Comments, line ends and docstrings do not count. Each `WORD` of a literal is a token: code may hide there.
    """
    if one == other:
        return 0
    first, second = tokens(one), tokens(other)
    if len(second) > MAX_GROWTH * len(first) + MAX_MORE:
        return len(second)
    return edits(first, second)


def edits(first: Sequence[str], second: Sequence[str]) -> int:
    """The Levenshtein distance, by a column of the table at a time, a bit for each row (Hyyrö 2003).

    For each row, `up` and `down` say whether the number there is one more or less than that above it.
    """
    places: dict[str, int] = {}
    for row, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << row
    every, last = (1 << len(first)) - 1, 1 << len(first) >> 1
    up, down, found = every, 0, len(first)
    for token in second:
        same = places.get(token, 0)
        level = (((same & up) + up) ^ up) | same | down
        more, less = down | (every & ~(level | up)), up & level
        found += bool(more & last) - bool(less & last)
        more, less = more << 1 | 1, less << 1
        up, down = (less | ~(level | more)) & every, more & level & every
    return found if first else len(second)


def tokens(code: str) -> tuple[str, ...]:
    """The tokens of a text of code that decide what it does."""
    try:
        found = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):  # stricter than the parser in rare cases
        return tuple(code.split())
    return tuple(_meaningful(found))


def _meaningful(found: Sequence[tokenize.TokenInfo]) -> Iterator[str]:
    begins = True
    for token, following in zip(found, [*found[1:], None], strict=True):
        ends = following is None or following.type in (tokenize.NEWLINE, tokenize.COMMENT)
        alone = begins and ends and token.type == tokenize.STRING
        if token.type not in UNSEEN and not alone:
            name = tokenize.tok_name[token.type]
            yield from (
                WORD.findall(token.string) if name in LITERALS else [token.string.strip() or name]
            )
        begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT) or (
            begins and token.type in UNSEEN
        )


Statements = frozenset[tuple[str, ...]]
"""Statements of a program, each as its tokens."""


def statements(code: str) -> Statements:
    """Return the statements at the top level of code; none where it does not parse."""
    tree, lines = parsed(code), [line.encode() for line in _lines(code)]
    return frozenset(_statement(lines, node) for node in (tree.body if tree is not None else []))


def added(code: str, known: Statements, names: Collection[str]) -> int:
    """Count the tokens of a text that are neither in functions of these names nor in `known` statements."""
    tree, lines = parsed(code), [line.encode() for line in _lines(code)]
    count = 0
    for node in tree.body if tree is not None else []:
        if not (isinstance(node, FUNCTIONS) and node.name in names):
            text = _statement(lines, node)
            count += 0 if text in known else len(text)
    return count


def _statement(lines: Sequence[bytes], statement: ast.stmt) -> tuple[str, ...]:
    """The tokens of a statement alone, also where others stand on its lines."""
    first, end = _span(statement)
    text = [*lines[first:end]]
    text[-1] = text[-1][: statement.end_col_offset]
    if first == statement.lineno - 1:  # no decorators
        text[0] = text[0][statement.col_offset :]
    return tokens(b"\n".join(text).decode() + "\n")
