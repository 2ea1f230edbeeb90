"""Which statement may run after which, by the ways that Python's statements lead."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

LOOPS = (ast.For, ast.AsyncFor, ast.While)
TRIES = (ast.Try, ast.TryStar) if sys.version_info >= (3, 11) else (ast.Try,)

Nodes = tuple[ast.AST, ...]
"""Statements and `except` clauses, which one comes to from somewhere."""


@dataclass(frozen=True)
class _Ways:
    """Where jumps lead."""

    breaks: Nodes = ()
    continues: Nodes = ()
    returns: Nodes = ()
    """The blocks that run before a function is left."""
    raises: Nodes = ()


class Paths:
    """The statements of a module, each with those that may follow it.

    An exception may come from every statement that does anything. After a `finally` block the code is taken to go
    on in every way that leads out of there.
    """

    def __init__(self, module: ast.Module) -> None:
        self.following: dict[ast.AST, Nodes] = {}
        """What may run next; nothing after the last statement of a function."""
        self.raising: dict[ast.AST, Nodes] = {}
        """What runs next if the statement raises an exception that its function may catch."""
        self._enter(module.body, (), _Ways())

    def _enter(self, block: Sequence[ast.stmt], after: Nodes, ways: _Ways) -> Nodes:
        """Go through a block, and say where one comes to that enters it."""
        for statement in reversed(block):
            self.raising[statement] = () if _is_calm(statement) else ways.raises
            self.following[statement] = self._through(statement, after, ways)
            after = (statement,)
        return after

    def _through(self, statement: ast.stmt, after: Nodes, ways: _Ways) -> Nodes:
        """What may follow a statement; `after` is what stands behind it."""
        if isinstance(statement, LOOPS):
            inside = replace(ways, breaks=after, continues=(statement,))
            body = self._enter(statement.body, (statement,), inside)
            return body + self._enter(statement.orelse, after, ways)
        if isinstance(statement, ast.If):
            body = self._enter(statement.body, after, ways)
            return body + self._enter(statement.orelse, after, ways)
        if isinstance(statement, ast.Match):
            return sum((self._enter(c.body, after, ways) for c in statement.cases), after)
        if isinstance(statement, ast.With | ast.AsyncWith):  # may swallow exceptions
            return self._enter(statement.body, after, replace(ways, raises=after + ways.raises))
        if isinstance(statement, TRIES):
            return self._through_try(statement, after, ways)
        if isinstance(statement, ast.ClassDef):
            return self._enter(statement.body, after, ways)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            self._enter(statement.body, (), _Ways())
        jumps = {
            ast.Break: ways.breaks,
            ast.Continue: ways.continues,
            ast.Return: ways.returns,
            ast.Raise: ways.raises,
        }
        return jumps.get(type(statement), after)

    def _through_try(self, statement: Any, after: Nodes, ways: _Ways) -> Nodes:
        if statement.finalbody:
            out = after + ways.breaks + ways.continues + ways.returns + ways.raises
            after = self._enter(statement.finalbody, out, ways)
            ways = _Ways(after, after, after, after)
        for handler in statement.handlers:
            self.raising[handler] = ways.raises
            self.following[handler] = self._enter(handler.body, after, ways)
        caught = replace(ways, raises=(*statement.handlers, *ways.raises))
        return self._enter(statement.body, self._enter(statement.orelse, after, ways), caught)


def _is_calm(statement: ast.stmt) -> bool:
    """Whether a statement is too simple to raise an exception."""
    if isinstance(statement, ast.Assign | ast.Expr):
        return isinstance(statement.value, ast.Name | ast.Constant)
    return isinstance(statement, ast.Pass | ast.Break | ast.Continue | ast.Global | ast.Nonlocal)
