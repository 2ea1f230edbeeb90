"""The calls of the helper: where they are, by whatever name, and what becomes of their results."""

from __future__ import annotations

import ast

from llm_decpomdp.envs.dataflow import Flow
from llm_decpomdp.envs.listing import Listing
from llm_decpomdp.envs.scopes import Variable

_LAZY = {"map", "filter", "starmap", "accumulate"}
_CALLERS = _LAZY | {"sorted", "min", "max", "reduce", "groupby", "sort"}
"""Functions, and `list.sort`, that call a function given to them; some of them only on demand."""


class Calls:
    """The calls of helpers, one or several, in the code that runs."""

    def __init__(self, flow: Flow, helpers: tuple[str, ...]) -> None:
        self.flow = flow
        self.direct: set[ast.expr] = set()
        """Calls of the helper by any name."""
        self.handed_on: list[ast.Name] = []
        """Names of the helper given to something that calls it."""
        self.aliases: set[ast.AST] = set()
        """Expressions that only give the helper another name."""
        seen: set[ast.AST] = set()
        module = flow.code.scopes.module
        pending = [name for helper in helpers for name in flow.code.reads((module, helper))]
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                pending += self._follow(name)

    def _follow(self, name: ast.Name) -> list[ast.Name]:
        """Note what a name of the helper is for; where it gets further names, their reads."""
        code = self.flow.code
        node: ast.AST = name
        parent = code.parents[node]
        while isinstance(parent, ast.IfExp | ast.BoolOp) or _is_partial(parent, node):
            node, parent = parent, code.parents[parent]
        if isinstance(parent, ast.Call) and parent.func is node:
            self.direct.add(parent)
            return []
        if isinstance(parent, ast.Assign):
            self.aliases.add(parent)
            return [read for v in code.stores[parent] for read in code.reads_after(parent, v)]
        if isinstance(parent, ast.arguments):
            return code.reads_of_default(node, parent)
        argument = node
        if isinstance(parent, ast.keyword):
            argument, parent = parent, code.parents[parent]
        if not isinstance(parent, ast.Call):
            return []
        function = code.definition(parent.func)
        if function is not None:
            return [r for v in code.parameters(function, parent, argument) for r in code.reads(v)]
        if _callee(parent) in _CALLERS:
            self.handed_on.append(name)
        return []

    def uses(self) -> list[tuple[ast.expr, str]]:
        """Each use of the helper, and why its result is lost ("" where it is used)."""
        found: list[tuple[ast.expr, str]] = []
        for value in (*self.direct, *self.handed_on):
            why = self.flow.lost(value)
            if not why or not (self.flow.code.is_loading(value) or self._is_never_asked(value)):
                found.append((value, why))
        return sorted(found, key=lambda use: (use[0].lineno, use[0].col_offset))

    def _is_never_asked(self, value: ast.AST) -> bool:
        """Whether a call stands in a `map` or the like, or a generator, of which nobody takes anything."""
        code = self.flow.code
        parent = code.parents[value]
        while isinstance(parent, ast.expr | ast.keyword | ast.comprehension):
            eager = isinstance(parent, ast.comprehension) and value is parent.iter
            lazy = isinstance(parent, ast.GeneratorExp) and not eager
            if lazy or (isinstance(parent, ast.Call) and _callee(parent) in _LAZY):
                return _is_dropped(code, parent)
            value, parent = parent, code.parents[parent]
            if eager:
                value, parent = parent, code.parents[parent]
        return False


def _is_dropped(code: Listing, value: ast.AST) -> bool:
    statement = code.parents[value]
    if isinstance(statement, ast.Assign):
        variables: set[Variable] = code.stores[statement]
        return bool(variables) and not any(code.reads_after(statement, v) for v in variables)
    return isinstance(statement, ast.Expr)


def _callee(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_partial(node: ast.AST, argument: ast.AST) -> bool:
    """Whether `node` is `partial(argument, ...)`, the same function with some arguments given."""
    return isinstance(node, ast.Call) and _callee(node) == "partial" and node.args[:1] == [argument]
