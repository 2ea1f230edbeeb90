"""Static analysis of a test: the variables of each stage, files, receivers of results."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import lru_cache

from llm_decpomdp.envs.source_code.parsing import parse

FILES = frozenset(
    (
        *("open", "os", "io", "pathlib", "shutil", "tempfile", "glob", "codecs", "fileinput"),
        *("sqlite3", "dbm", "shelve", "xml", "configparser", "tomllib", "plistlib", "PIL"),
        *("zipfile", "tarfile", "gzip", "bz2", "lzma"),
    )
)
"""Names by which code reaches files."""
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)


def variables(module: ast.Module, body: list[ast.stmt], function: str) -> Iterator[tuple[str, ...]]:
    """Yield the names in each stage that may stand for data: not functions, classes, modules, builtins."""
    fixed = {function, *dir(builtins)}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            fixed.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            fixed |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    for statement in body:
        yield tuple(sorted(names(statement) - fixed))


@lru_cache(maxsize=2048)
def methods(code: str) -> frozenset[str]:
    """Return the names of the methods of all classes in code; none where it does not parse."""
    try:
        nodes = [*ast.walk(parse(code))]
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    bodies = [
        statement for node in nodes if isinstance(node, ast.ClassDef) for statement in node.body
    ]
    return frozenset(
        statement.name
        for statement in bodies
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def uses_files(module: ast.Module) -> bool:
    """Check whether a test may read or write files, which prefetched calls would find in another state."""
    nodes = [*ast.walk(module)]
    imported = {
        alias.name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in [*node.names, ast.alias(getattr(node, "module", None) or "")]
    }
    return not FILES.isdisjoint(imported | names(module))


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

    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and sees(
        node.value
    ):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return set().union(*map(names, targets))
    if isinstance(node, BLOCKS) and sees(node):
        return _changed(node)  # its assignments may depend on the branch that a result selects
    if isinstance(node, ast.comprehension) and sees(node.iter):
        return names(node.target)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and sees(node):
        return _changed(node) | ({node.name} if not isinstance(node, ast.Lambda) else set())
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in functions:
            return set().union(*map(_called_back, node.args))
        return names(node) if any(map(sees, node.args)) else set()
    return set()


def _changed(tree: ast.AST) -> set[str]:
    """Return the names that code assigns, or of whose objects it calls methods."""
    assigned = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not _is_read(n)}
    return assigned | {
        name for n in ast.walk(tree) if isinstance(n, ast.Attribute) for name in names(n)
    }


def _called_back(argument: ast.AST) -> set[str]:
    """Return the names that a program can reach by calling an argument: those that a function uses."""
    if isinstance(argument, ast.Attribute | ast.Lambda):
        return names(argument)
    return set()


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)
