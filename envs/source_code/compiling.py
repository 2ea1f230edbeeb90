"""The work of compiling code, by its syntax tree."""

from __future__ import annotations

import ast
from collections import Counter

MAX_COMPILED = 4 * 10**4
"""Most nodes of a tree that is compiled, each counted as often as it is compiled."""

CLEANUP = 10
"""Nodes that make as much work as leaving a `with` block."""

# Only code with one of these words is walked through before it is compiled.
COPYING = ("finally", "with", "except", "lambda")
"""Keywords of code that the compiler emits more than once, or with ever longer names."""

WITH_CLEANUP = (ast.With, ast.AsyncWith, ast.ExceptHandler)
"""Blocks with clean-up code at each exit."""


def explodes(tree: ast.Module) -> bool:
    """Check whether compiling takes too long, as CPython compiles a `finally` block again for each path to it.

    There are two paths, with an exception and without, and one for each `return`, `break` and `continue` in its
    `try`. Each exit from a `with` block, or from an `except` with a name, has clean-up code, too. The qualified
    name of a function contains those of all functions around it.
    """
    # A walk in the order in which the compiler emits code, without recursion: trees may be deep.
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
