"""What can be read from a test before it runs."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from llm_decpomdp.envs.sandbox.inside.codec import pack_call


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


def looks_into(module: ast.Module, functions: set[str]) -> bool:
    """Whether a test reads attributes of the function."""
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in functions
        for node in ast.walk(module)
    )


def literal_calls(body: list[ast.stmt], function: str) -> Iterator[bytes]:
    """The encoded arguments of calls with literal arguments, in the order in which they will be made."""
    for statement in body:
        if isinstance(statement, ast.Assert | ast.Assign | ast.Expr):
            for call in _always_evaluated(statement):
                if isinstance(call.func, ast.Name) and call.func.id == function:
                    try:
                        args = [ast.literal_eval(argument) for argument in call.args]
                        kwargs = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
                    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                        continue
                    yield pack_call(args, kwargs, _refuse)


def _always_evaluated(node: ast.AST) -> Iterator[ast.Call]:
    """The calls of a statement that no condition decides about, innermost first."""
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return
    parts = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.BoolOp | ast.IfExp):
        parts = [node.values[0] if isinstance(node, ast.BoolOp) else node.test]
    elif isinstance(node, ast.Assert):
        parts = [node.test]
    for part in parts:
        yield from _always_evaluated(part)
    if isinstance(node, ast.Call):
        yield node


def _refuse(value: object) -> object:
    raise TypeError(f"{value!r} is no plain value")


def names(tree: ast.AST) -> set[str]:
    """All names in a piece of code."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def receivers(statement: ast.AST, functions: set[str]) -> set[str]:
    """The names through which a test may see, after a statement, what calls of `functions` returned.

    All that the statement mentions or defines, but not what only stands among the calls' arguments.
    """
    found: set[str] = set()
    pending = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in functions:
            pending += [part for part in ast.walk(node) if isinstance(part, ast.NamedExpr)]
        else:
            pending += ast.iter_child_nodes(node)
    return found
