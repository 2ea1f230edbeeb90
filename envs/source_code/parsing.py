"""Bounds on the time and memory of parsing and compiling."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass

from llm_decpomdp.envs.sandbox.instrument import parse as parse

MAX_CHARACTERS = 100_000
"""Longest text that is parsed."""

MAX_TOKENS = 8000
"""Most words and marks of a text that is parsed. Solutions of the data sets have at most about a thousand."""

MAX_COMPILED = 4 * 10**4
"""Most nodes of a tree that is compiled, each counted as often as it is compiled."""

CLEANUP = 10
"""Nodes that make as much work as leaving a `with` block."""

COPYING = ("finally", "with", "except", "lambda")
"""Keywords of code that the compiler emits more than once, or with ever longer names."""

WITH_CLEANUP = (ast.With, ast.AsyncWith, ast.ExceptHandler)
"""Blocks with clean-up code at each exit."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class SyntaxProblem:
    """Reason why code does not parse; line and column count from 1, in the agent's own code."""

    message: str
    line: int
    column: int
    parses: bool = False
    """True if the code parses and only compiling fails."""


def tokens(code: str) -> int:
    """Count the words and marks of a text, those in comments and literals included."""
    return sum(1 for _ in _TOKEN.finditer(code))


def end_of_bound(code: str) -> int:
    """Return the line on which a text exceeds the bounds of parsing, counted from 1; 0 if it does not."""
    if len(code) > MAX_CHARACTERS:
        return code.count("\n", 0, MAX_CHARACTERS) + 1
    if len(code) > MAX_TOKENS:
        for number, token in enumerate(_TOKEN.finditer(code)):
            if number == MAX_TOKENS:
                return code.count("\n", 0, token.start()) + 1
    return 0


def explodes(tree: ast.Module) -> bool:
    """Check whether compiling takes too long, as CPython compiles a `finally` block again for each path to it.

    There are two paths, with an exception and without, and one for each `return`, `break` and `continue` in its
    `try`. Each exit from a `with` block, or from an `except` with a name, has clean-up code, too. The qualified
    name of a function contains those of all functions around it.
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
            size += copies * CLEANUP * sum(isinstance(block, WITH_CLEANUP) for block in around)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            around, depth = (), depth + 1
            size += depth
        if final:
            pending.append((node, copies, around, depth, True))  # after the rest of the statement
        if final or isinstance(node, WITH_CLEANUP):
            around = (*around, node)
        inner = (part for part in ast.iter_child_nodes(node) if part not in final)
        pending += [(part, copies, around, depth, False) for part in inner]
    return size > MAX_COMPILED
