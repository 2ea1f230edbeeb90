"""Parsing that threads may share, and what must not be compiled."""

from __future__ import annotations

import ast
import os
import threading
import warnings
from collections import Counter

MAX_COMPILED = 2 * 10**5
"""Most nodes of a tree that is compiled, each counted as often as it is compiled."""

_LOCK = threading.Lock()


def parse(code: str) -> ast.Module:
    """`ast.parse`, by one thread at a time.

    CPython counts the depth of the tree that it builds once for all threads, and raises SystemError when two
    build one at the same time (python/cpython issue 106905).
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" in somebody else's code
        return ast.parse(code)


def _renew() -> None:
    global _LOCK
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):  # a thread that held the lock is not there in a forked process
    os.register_at_fork(after_in_child=_renew)


def explodes(tree: ast.Module) -> bool:
    """Whether compiling takes too much, for CPython compiles a `finally` block again for each way to it.

    There are two, with an exception and without, and one for each `return`, `break` and `continue` in its `try`.
    """
    size = 0
    leaving: Counter[ast.AST] = Counter()
    pending: list[tuple[ast.AST, int, tuple[ast.AST, ...], bool]] = [(tree, 1, (), False)]
    while pending and size <= MAX_COMPILED:
        node, copies, around, finally_ = pending.pop()
        final = set(getattr(node, "finalbody", ()))
        if finally_:
            copies = 2 * copies + leaving[node]
            pending += [(part, copies, around, False) for part in final]
            continue
        size += copies
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            leaving.update(dict.fromkeys(around, copies))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            around = ()
        if final:
            pending.append((node, copies, around, True))  # taken up after the rest of the statement
            around = (*around, node)
        inner = (part for part in ast.iter_child_nodes(node) if part not in final)
        pending += [(part, copies, around, False) for part in inner]
    return size > MAX_COMPILED
