"""What can be read from a test before it runs."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import lru_cache

from llm_decpomdp.envs.programs.parsing import parse

FILES = frozenset(
    (
        *("open", "os", "io", "pathlib", "shutil", "tempfile", "glob", "codecs", "fileinput"),
        *("sqlite3", "dbm", "shelve", "xml", "configparser", "tomllib", "plistlib", "PIL"),
        *("zipfile", "tarfile", "gzip", "bz2", "lzma"),
    )
)
"""Names with which code reaches files."""
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)


def variables(module: ast.Module, body: list[ast.stmt], function: str) -> Iterator[tuple[str, ...]]:
    """The names in each stage that may stand for data: not functions, classes, modules, builtins."""
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
    """The names of the methods of all classes in code; none where it does not parse."""
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
    """Whether a test may read or write files, which calls that are made ahead would find otherwise."""
    nodes = [*ast.walk(module)]
    imported = {
        alias.name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in [*node.names, ast.alias(getattr(node, "module", None) or "")]
    }
    return not FILES.isdisjoint(imported | names(module))


def names(tree: ast.AST) -> set[str]:
    """All names in a piece of code."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def receivers(module: ast.Module, functions: set[str]) -> set[str]:
    """The names through which a test may see what a call of `functions` returned, and `functions` themselves.

    What is assigned from such a value, runs over it, is given it together with something else, or is changed
    in a block where one occurs. Not what only stands among the arguments of a call, unless it could call back.
    """
    found = set(functions)
    while True:
        before = len(found)
        for node in ast.walk(module):
            found |= _receives(node, found, functions)
        if len(found) == before:
            return found


def _receives(node: ast.AST, known: set[str], functions: set[str]) -> set[str]:
    """The names that a node lets see what the `known` ones know."""

    def sees(part: ast.AST | None) -> bool:
        return part is not None and not known.isdisjoint(names(part))

    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and sees(
        node.value
    ):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return set().union(*map(names, targets))
    if isinstance(node, BLOCKS) and sees(node):
        return _changed(node)  # what it sets may depend on which way an answer took it
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
    """The names that code sets, or of whose objects it calls methods."""
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not _is_read(n)}
    return found | {
        name for n in ast.walk(tree) if isinstance(n, ast.Attribute) for name in names(n)
    }


def _called_back(argument: ast.AST) -> set[str]:
    """The names that an argument gives a program's calls access to: what a function among them uses."""
    if isinstance(argument, ast.Attribute | ast.Lambda):
        return names(argument)
    return set()


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)
