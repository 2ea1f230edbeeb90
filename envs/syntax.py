"""Parsing that threads may share."""

from __future__ import annotations

import ast
import threading

_LOCK = threading.Lock()


def parse(code: str) -> ast.Module:
    """`ast.parse`, by one thread at a time.

    CPython counts the depth of the tree that it builds once for all threads, and raises SystemError when two
    build one at the same time (python/cpython issue 106905).
    """
    with _LOCK:
        return ast.parse(code)
