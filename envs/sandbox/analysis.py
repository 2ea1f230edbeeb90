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


def receivers(module: ast.Module, functions: set[str]) -> set[str]:
    """The names through which a test may see what a call of `functions` returned, and `functions` themselves.

    What is assigned from such a value, runs over it, is given it together with something else, or is changed
    where it decides. Not what only stands among the arguments of a call, unless the call could call back.
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
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and sees(node.iter):
        return names(node.target)
    if isinstance(node, ast.withitem) and sees(node.context_expr):
        return names(node.optional_vars) if node.optional_vars else set()
    if isinstance(node, ast.If | ast.While) and sees(node.test):
        return set().union(*(_changed(part) for part in node.body + node.orelse))
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


def calls_are_fixed(module: ast.Module, functions: set[str], known: set[str]) -> bool:
    """Whether no argument of a call of `functions` can depend on what another call returned."""
    called: set[ast.AST] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func)
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
            if node.func.id in functions and not all(known.isdisjoint(names(p)) for p in parts):
                return False
    mentions = (n for n in ast.walk(module) if isinstance(n, ast.Name) and n.id in functions)
    return all(mention in called for mention in mentions)  # no other name for them
