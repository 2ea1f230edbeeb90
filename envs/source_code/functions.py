"""Lines of a program's top-level functions, and the size of a change in tokens."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Sequence

from llm_decpomdp.envs.source_code.parsing import (
    FUNCTIONS,
    find_function,
    has_docstring,
    parse_or_none,
)
from llm_decpomdp.envs.source_code.statements import (
    Statement,
    first_line,
    make_module,
    statement_text,
)

# The comparison of a very long text would take seconds, and its exact size does not matter.
MAX_GROWTH = 4
MAX_MORE = 200
"""A text of more than `MAX_GROWTH` times another's tokens plus `MAX_MORE` counts in full, without a comparison."""

UNSEEN = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER}

# Strings and numbers of any length are one token to Python.
LITERALS = {"STRING", "NUMBER", "FSTRING_MIDDLE"}
"""Names in `tokenize` of tokens of any length."""

WORD = re.compile(r"\s{0,8}(?:[\w.]{1,8}|[^\w\s.])|\s{1,8}")
"""Short word or mark of a literal, with the white space before it."""

Span = tuple[int, int]
"""First line, counted from 0, and the line after the last one."""


def functions(code: str) -> dict[str, tuple[Span, ...]]:
    """Return the lines of each top-level function, in order; all definitions of a name that is defined again.

    Empty where `code` does not parse.
    """
    tree = parse_or_none(code)
    spans: dict[str, tuple[Span, ...]] = {}
    for statement in tree.body if tree is not None else []:
        if isinstance(statement, FUNCTIONS):
            spans[statement.name] = (*spans.get(statement.name, ()), _span(statement))
    return spans


def _span(statement: ast.stmt) -> Span:
    return first_line(statement) - 1, statement.end_lineno or statement.lineno


def excerpt(code: str, names: Collection[str], rest: bool) -> str:
    """Keep the functions of these names, and optionally the rest of the code; other lines are left empty.

    All text stays on its line.
    """
    lines = _lines(code)
    mask = [rest] * len(lines)
    for name, spans in functions(code).items():
        for first, end in spans:
            mask[first:end] = [name in names] * (end - first)
    text = "\n".join(line if keep else "" for line, keep in zip(lines, mask, strict=True))
    return text.rstrip("\n") + "\n" if text.strip() else ""


def remove_bindings(code: str, names: Collection[str]) -> str:
    """Remove the statements, other than functions, that bind one of these names."""
    tree, lines = parse_or_none(code), _lines(code)
    for statement in tree.body if tree is not None else []:
        if not isinstance(statement, FUNCTIONS) and not _bound(statement).isdisjoint(names):
            first, end = _span(statement)
            lines[first:end] = [""] * (end - first)
    return "\n".join(lines)


def global_names(code: str) -> set[str]:
    """Return the names that code reads and does not bind itself; none where it does not parse."""
    tree = parse_or_none(code)
    if tree is None:
        return set()
    nodes = [*ast.walk(tree)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names - _bound(tree) - {node.arg for node in nodes if isinstance(node, ast.arg)}


def _bound(code: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(code):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return names


def function_text(code: str, name: str) -> str:
    """Return the text of a function; empty where there is none of this name."""
    return _join(code, functions(code).get(name, ()))


def definition_text(code: str, name: str) -> str:
    """Return the text of a function, or of the statements that bind its name otherwise, as `f = partial(g)`."""
    tree = parse_or_none(code)
    if tree is None or name in functions(code):
        return function_text(code, name)
    return _join(code, [_span(node) for node in tree.body if name in Statement(node).definitions])


def _join(code: str, spans: Iterable[Span]) -> str:
    lines = _lines(code)
    return "\n".join("\n".join(lines[first:end]) for first, end in spans)


def _lines(code: str) -> list[str]:
    return code.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def header_and_docstring(code: str, name: str) -> str:
    """Return the header and the docstring of a function: the author's statement of its purpose."""
    node = find_function(code, name)
    if not isinstance(node, FUNCTIONS):
        return ""
    end = node.body[0].end_lineno if has_docstring(node) else node.body[0].lineno - 1
    return "\n".join(_lines(code)[node.lineno - 1 : end])


def remove_docstring(code: str, name: str) -> str:
    """Remove the docstring of a function, unless it is the whole body."""
    node = find_function(code, name)
    if not isinstance(node, FUNCTIONS) or not has_docstring(node) or len(node.body) == 1:
        return code
    lines = _lines(code)
    first, end = _span(node.body[0])
    return "\n".join(lines[:first] + lines[end:])


# Size of a change


def distance(old: str, new: str) -> int:
    """Return the number of tokens to insert, delete or replace to turn one text of code into another.

    Comments, line ends and docstrings do not count. Each `WORD` of a literal is a token: code may hide there.
    """
    if old == new:
        return 0
    first, second = tokens(old), tokens(new)
    # The comparison takes time in proportion to the product of both lengths.
    if len(second) > MAX_GROWTH * len(first) + MAX_MORE:
        return len(second)
    return edits(first, second)


def edits(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the Levenshtein distance, computed by columns of the table with a bit for each row (Hyyrö 2003).

    For each row, `up` and `down` are set if its number is one more or less than that above it.
    """
    rows: dict[str, int] = {}
    for row, token in enumerate(first):
        rows[token] = rows.get(token, 0) | 1 << row
    every, last = (1 << len(first)) - 1, 1 << len(first) >> 1
    up, down, result = every, 0, len(first)
    for token in second:
        same = rows.get(token, 0)
        level = (((same & up) + up) ^ up) | same | down
        more, less = down | (every & ~(level | up)), up & level
        result += bool(more & last) - bool(less & last)
        more, less = more << 1 | 1, less << 1
        up, down = (less | ~(level | more)) & every, more & level & every
    return result if first else len(second)


def tokens(code: str) -> tuple[str, ...]:
    """Return the tokens of code that affect its behavior."""
    try:
        infos = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):  # stricter than the parser in rare cases
        return tuple(code.split())
    result: list[str] = []
    begins = True  # at the beginning of a statement
    for token, following in zip(infos, [*infos[1:], None], strict=True):
        ends = following is None or following.type in (tokenize.NEWLINE, tokenize.COMMENT)
        docstring = begins and ends and token.type == tokenize.STRING
        if token.type not in UNSEEN and not docstring:
            name = tokenize.tok_name[token.type]
            literal = name in LITERALS
            result += WORD.findall(token.string) if literal else [token.string.strip() or name]
        begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT) or (
            begins and token.type in UNSEEN
        )
    return tuple(result)


Statements = frozenset[tuple[str, ...]]
"""Statements of a program, each as its tokens."""


def statements(code: str) -> Statements:
    """Return the statements at the top level of code; none where it does not parse."""
    return frozenset(text for _, text in _statement_tokens(code))


def count_added_tokens(code: str, known: Statements, names: Collection[str]) -> int:
    """Count the tokens of code that are neither in definitions of these names nor in `known` statements."""
    otherwise = set(names).difference(functions(code))
    count = 0
    for node, text in _statement_tokens(code):
        if isinstance(node, FUNCTIONS):
            inside = node.name in names
        else:
            inside = not otherwise.isdisjoint(Statement(node).definitions)
        count += 0 if inside or text in known else len(text)
    return count


def _statement_tokens(code: str) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    """Yield each statement with its tokens alone, also where others stand on its lines."""
    tree = parse_or_none(code)
    if tree is not None:
        module = make_module("\n".join(_lines(code)), tree, False)
        for number, statement in enumerate(module.statements):
            yield statement.node, tokens(statement_text(module, number) + "\n")
