"""Signs of helper use in the code of the entry function's author, as far as they are plain to see.

Whether a helper is called and used is decided by running (`sandbox/inside/evaluator/helpers.py`). Reading decides
only what running cannot, whether the entry function does work of its own, and gives feedback a line to name.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from llm_decpomdp.envs.programs.bindings import FunctionNode
from llm_decpomdp.envs.programs.completion import parsed

USED, IGNORED, NOT_CALLED, UNKNOWN = "used", "ignored", "not called", "unknown"
"""Uses of a helper when the program runs; unknown where no test passes."""

PADDING = (
    *(ast.Pass, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
"""Statements that decide nothing about what the function returns, in the plain forms of a wrapper."""

PLAIN = (ast.Name, ast.NamedExpr, ast.Constant, ast.Subscript, ast.List, ast.Tuple, ast.Dict)
"""Ways to write a function that a helper is, or is taken from."""


WITH_MEMORY = {"lru_cache", "cache", "partial"}
"""Names in code that returns a function like another one: `lru_cache(None)(aux)`, `partial(aux, x)`."""


def names(code: str, helper: str) -> bool:
    """Check whether code has the name of a helper in it at all."""
    tree = parsed(code)
    return tree is not None and any(helper in _names(statement) for statement in tree.body)


def lost_results(code: str, helper: str) -> tuple[str, ...]:
    """Return each line on which a call's result is plainly lost: "Line N: why". Others may be lost too."""
    tree = parsed(code)
    nodes = [*ast.walk(tree)] if tree is not None else []
    read = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    lines = []
    for node in nodes:
        if not isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign) or not _is_call(
            node.value, helper
        ):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        stored = [name for target in targets if target is not None for name in _stored(target)]
        if isinstance(node, ast.Expr):
            lines.append((node.lineno, "the result is thrown away"))
        elif stored and read.isdisjoint(stored):
            lines.append((node.lineno, f"the result is assigned to {stored[0]} but never used"))
    return tuple(f"Line {line}: {reason}" for line, reason in sorted(lines))


def is_wrapper(code: str, function: str, helpers: Collection[str]) -> bool:
    """Check whether a function plainly does no more than return the results of one or several helpers.

    It gives names to helpers, results, arguments and constants, and returns such a result or the call of a helper;
    `with`, and a `try` that gives up, may stand around that. What it calls may be a function of the same code of
    which that holds. Whatever else it does counts as work, even where it changes nothing.
    """
    tree = parsed(code)
    try:
        return tree is not None and _Wrappers(tree, helpers).is_one(function)
    except RecursionError:
        return False  # what is nested so deeply is not plain


class _Wrappers:
    """The functions of a module that return no more than helpers do."""

    def __init__(self, tree: ast.Module, helpers: Collection[str]) -> None:
        self.helpers = set(helpers)
        """Names that stand for a helper, or hold one."""
        self.functions: dict[str, FunctionNode | ast.Name] = {}
        """The last meaning of each name that stands for a function."""
        self.known: dict[str, bool] = {}
        """True for wrappers, by name. A function that is being looked into is none: it calls itself."""
        self.results: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[node.name] = node
        for statement in tree.body:
            self._statement(statement)

    def is_one(self, name: str) -> bool:
        """Check whether the function of this name is one, or a helper."""
        if name not in self.known:
            self.known[name] = False
            function = self.functions.get(name)
            if isinstance(function, ast.Name):
                self.known[name] = self.is_one(function.id)
            elif function is not None:
                self.known[name] = self._is_thin(function)
        return self.known[name] or name in self.helpers

    def _is_thin(self, function: FunctionNode) -> bool:
        if isinstance(function, ast.Lambda):
            return self._passes_on(function.body)
        return self._block(function.body)

    def _block(self, statements: Sequence[ast.stmt]) -> bool:
        thin = [self._statement(statement) for statement in statements]
        return all(thin)

    def _statement(self, statement: ast.stmt) -> bool:
        """Check whether a statement hands a result on or does nothing of its own; note the names that it binds."""
        if isinstance(statement, ast.Return):
            return statement.value is not None and self._passes_on(statement.value)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            return self._assignment(statement, statement.value)
        if isinstance(statement, ast.With):
            return self._block(statement.body)
        if isinstance(statement, ast.Try):
            given_up = all(map(_gives_up, statement.handlers))
            rest = [*statement.body, *statement.orelse, *statement.finalbody]
            return given_up and self._block(rest)
        if isinstance(statement, ast.Expr):  # a docstring, a `print`
            callee = getattr(statement.value, "func", statement.value)
            local = isinstance(callee, ast.Name) and callee.id in self.functions
            return isinstance(callee, ast.Constant | ast.Name) and not local
        return isinstance(statement, PADDING)

    def _assignment(self, statement: ast.Assign | ast.AnnAssign, value: ast.expr) -> bool:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        stored = [name for target in targets for name in _stored(target)]
        if isinstance(value, ast.Lambda | ast.Name):
            self.functions.update(dict.fromkeys(stored, value))
        passes_on, holds = self._passes_on(value), self._holds_helper(value)
        if passes_on:
            self.results.update(stored)
        elif holds:
            self.helpers.update(stored)
        return passes_on or holds or isinstance(value, ast.Name | ast.Constant | ast.Lambda)

    def _passes_on(self, value: ast.expr) -> bool:
        """Check whether an expression is the result of a helper, unchanged."""
        if isinstance(value, ast.Await | ast.NamedExpr):
            return self._passes_on(value.value)
        if isinstance(value, ast.Name):
            return value.id in self.results
        if not isinstance(value, ast.Call):
            return False
        if isinstance(value.func, ast.Lambda):
            return self._is_thin(value.func)
        if isinstance(value.func, ast.Name) and value.func.id in self.functions:
            return self.is_one(value.func.id)
        return self._holds_helper(value.func)

    def _holds_helper(self, value: ast.expr) -> bool:
        """Check whether an expression is a helper, a choice with one in it, or a helper with a memory."""
        if isinstance(value, ast.Call):
            remembers = not WITH_MEMORY.isdisjoint(_names(value.func))
            return remembers and any(map(self._holds_helper, value.args[:1]))
        return isinstance(value, PLAIN) and not self.helpers.isdisjoint(_names(value))


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Check whether an `except` does no more than raise, return nothing, or go on."""
    return all(
        isinstance(part, ast.Pass | ast.Raise) or ast.unparse(part) in ("return", "return None")
        for part in handler.body
    )


def _is_call(value: ast.expr | None, helper: str) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == helper
    )


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _stored(target: ast.AST) -> list[str]:
    """Return the names that a target of an assignment binds; none where it is anything else."""
    parts = [part for part in ast.walk(target) if isinstance(part, ast.Name)]
    return [part.id for part in parts if isinstance(part.ctx, ast.Store)]
