"""Syntax trees: parsing in threads, and what the code of a test reads, writes and receives."""

from __future__ import annotations

import ast
import builtins
import os
import threading
import warnings
from collections.abc import Iterator
from functools import lru_cache

FILES = frozenset(
    "open os io pathlib shutil tempfile glob codecs fileinput sqlite3 dbm shelve xml configparser tomllib "
    "plistlib PIL zipfile tarfile gzip bz2 lzma".split()
)
"""Names by which code reaches files."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)

_LOCK = threading.Lock()


def parse(code: str) -> ast.Module:
    """Call `ast.parse`, in one thread at a time.

    CPython counts the depth of the tree that it builds once for all threads, and raises SystemError when two
    build one at the same time (python/cpython issue 106905).
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" in an agent's code
        return ast.parse(code)


def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    # A thread that held the lock does not exist in a forked process.
    os.register_at_fork(after_in_child=_renew_lock)


def variables(module: ast.Module, body: list[ast.stmt], function: str) -> Iterator[tuple[str, ...]]:
    """Yield the names in each stage that may stand for data: not functions, classes, modules, builtins."""
    fixed = {function, *dir(builtins)}
    for node in ast.walk(module):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            fixed.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            fixed |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    for statement in body:
        yield tuple(sorted(names(statement) - fixed))


@lru_cache(maxsize=2048)
def methods(code: str) -> frozenset[str]:
    """Return the names of the methods of all classes in code; none where it does not parse."""
    try:
        classes = [node for node in ast.walk(parse(code)) if isinstance(node, ast.ClassDef)]
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    return frozenset(s.name for node in classes for s in node.body if isinstance(s, FUNCTIONS))


def uses_files(module: ast.Module) -> bool:
    """Check whether a test may read or write files, which prefetched calls would find in another state."""
    mentions = names(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            mentions |= {name.partition(".")[0] for name in imported}
    return not FILES.isdisjoint(mentions)


def names(tree: ast.AST) -> set[str]:
    """Return all names in a piece of code."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def receivers(module: ast.Module, functions: set[str]) -> set[str]:
    """Return the names through which a test may see a result of `functions`, and `functions` themselves.

    A name receives such a value if it is assigned from it, iterates over it, is passed it in the same call, or is
    changed in a block where one occurs. An argument of a call alone does not receive it, unless it could call
    back.
    """
    receiving = set(functions)
    while True:
        before = len(receiving)
        for node in ast.walk(module):
            receiving |= _receives(node, receiving, functions)
        if len(receiving) == before:
            return receiving


def _receives(node: ast.AST, receiving: set[str], functions: set[str]) -> set[str]:
    """Return the names that receive a value through a node from those that are `receiving` already."""

    def sees(part: ast.AST | None) -> bool:
        return part is not None and not receiving.isdisjoint(names(part))

    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return set().union(*map(names, targets)) if sees(node.value) else set()
    # Its assignments may depend on the branch that a result selects.
    if isinstance(node, (*BLOCKS, *FUNCTIONS, ast.Lambda)) and sees(node):
        return _assigned_names(node) | ({node.name} if isinstance(node, FUNCTIONS) else set())
    if isinstance(node, ast.comprehension) and sees(node.iter):
        return names(node.target)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in functions:
            # A program can call back a method or a function that it is passed.
            callbacks = [part for part in node.args if isinstance(part, ast.Attribute | ast.Lambda)]
            return set().union(*map(names, callbacks))
        return names(node) if any(map(sees, node.args)) else set()
    return set()


def _assigned_names(tree: ast.AST) -> set[str]:
    """Return the names that code assigns, or of whose objects it calls methods."""
    assigned: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            assigned |= names(node)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            assigned.add(node.id)
    return assigned
