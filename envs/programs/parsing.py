"""Parsing that threads may share, and what takes too much time or memory to be parsed or compiled."""

from __future__ import annotations

import ast
import os
import re
import threading
import warnings
from collections import Counter
from dataclasses import dataclass

MAX_CHARACTERS = 100_000
"""Longest text that is parsed."""

MAX_TOKENS = 8000
"""Most words and marks of a text that is parsed. A solution of the data sets has at most about a thousand."""

MAX_COMPILED = 4 * 10**4
"""Most nodes of a tree that is compiled, each counted as often as it is compiled."""

CLEANUP = 10
"""Nodes that make as much work as leaving a `with` block."""

COPYING = ("finally", "with", "except", "lambda")
"""Words of what the compiler writes more than once, or in ever longer names."""

LEFT = (ast.With, ast.AsyncWith, ast.ExceptHandler)
"""Blocks that are left by code of their own."""

_TOKEN = re.compile(r"\w+|[^\w\s]")

_LOCK = threading.Lock()


@dataclass(frozen=True)
class SyntaxProblem:
    """Why code does not parse; line and column count from 1, in the agent's own code."""

    message: str
    line: int
    column: int
    parses: bool = False
    """Whether only the compiler objects."""


def parse(code: str) -> ast.Module:
    """`ast.parse`, by one thread at a time.

    CPython counts the depth of the tree that it builds once for all threads, and raises SystemError when two
    build one at the same time (python/cpython issue 106905).
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" in somebody else's code
        return ast.parse(code)


def tokens(code: str) -> int:
    """How many words and marks a text has, those in comments and literals included."""
    return sum(1 for _ in _TOKEN.finditer(code))


def end_of_bound(code: str) -> int:
    """The line on which a text becomes longer than what is parsed, counted from 1; 0 if it does not."""
    if len(code) > MAX_CHARACTERS:
        return code.count("\n", 0, MAX_CHARACTERS) + 1
    if len(code) > MAX_TOKENS:
        for number, token in enumerate(_TOKEN.finditer(code)):
            if number == MAX_TOKENS:
                return code.count("\n", 0, token.start()) + 1
    return 0


def _renew() -> None:
    global _LOCK
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):  # a thread that held the lock is not there in a forked process
    os.register_at_fork(after_in_child=_renew)


def explodes(tree: ast.Module) -> bool:
    """Whether compiling takes too much, for CPython compiles a `finally` block again for each way to it.

    There are two, with an exception and without, and one for each `return`, `break` and `continue` in its `try`.
    These leave a `with` block, and an `except` with a name, by code of their own, too. The name of a function
    holds those of all functions around it.
    """
    size = 0
    leaving: Counter[ast.AST] = Counter()
    pending: list[tuple[ast.AST, int, tuple[ast.AST, ...], int, bool]] = [(tree, 1, (), 0, False)]
    while pending and size <= MAX_COMPILED:
        node, copies, around, depth, finally_ = pending.pop()
        final = set(getattr(node, "finalbody", ()))
        if finally_:
            copies = 2 * copies + leaving[node]
            pending += [(part, copies, around, depth, False) for part in final]
            continue
        size += copies
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            leaving.update(dict.fromkeys(around, copies))
            size += copies * CLEANUP * sum(isinstance(block, LEFT) for block in around)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            around, depth = (), depth + 1
            size += depth
        if final:
            pending.append((node, copies, around, depth, True))  # after the rest of the statement
        if final or isinstance(node, LEFT):
            around = (*around, node)
        inner = (part for part in ast.iter_child_nodes(node) if part not in final)
        pending += [(part, copies, around, depth, False) for part in inner]
    return size > MAX_COMPILED
