"""The calls of the helper: where they are, by whatever name, and what becomes of their results."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence

from llm_decpomdp.envs.dataflow import Flow
from llm_decpomdp.envs.listing import DISPLAYS, Listing, parts, taker
from llm_decpomdp.envs.scopes import Variable

_LAZY = {"map", "filter", "starmap", "accumulate", "iter"}
_CALLERS = _LAZY | {"sorted", "min", "max", "reduce", "groupby", "sort"}
"""Functions, and `list.sort`, that call a function given to them; some of them only on demand."""

_KEEPERS = {"setattr", "staticmethod", "classmethod", "property"}
"""Builtins that put a function given to them where others may call it."""

_THROUGH = (*DISPLAYS, ast.Set, ast.Dict, ast.Starred, ast.Subscript, ast.Call, ast.keyword)
"""What a function may be put into, and taken out of again."""

_LOOKS = (
    *(ast.IfExp, ast.Compare, ast.UnaryOp, ast.FormattedValue, ast.Attribute),
    *(ast.If, ast.While, ast.Assert, ast.Expr),
)
"""What only asks for a function, or does nothing with it."""


class Calls:
    """The calls of helpers, one or several, in the code that runs."""

    def __init__(self, flow: Flow, helpers: tuple[str, ...]) -> None:
        self.flow = flow
        self.direct: set[ast.expr] = set()
        """Calls of the helper by any name."""
        self.indirect: set[ast.expr] = set()
        """Calls of what the helper was put into, such as `table["square"](x)`."""
        self.handed_on: list[ast.Name] = []
        """Names of the helper given to something that calls it."""
        self.kept: list[ast.Name] = []
        """Names of the helper put into something, or given to something that may call it or not."""
        self.aliases: set[ast.AST] = set()
        """Statements that only give the helper another name."""
        module = flow.code.scopes.module
        self._trace([name for h in helpers for name in flow.code.reads((module, h))], self._follow)
        self._trace(self.kept, self._follow_kept)

    def _trace(self, names: list[ast.Name], follow: Callable[[ast.Name], list[ast.Name]]) -> None:
        """Follow names, and those that they lead to."""
        pending, seen = [*names], set()
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                pending += follow(name)

    def _follow(self, name: ast.Name) -> list[ast.Name]:
        """Note what a name of the helper is for; where it gets further names, their reads."""
        code = self.flow.code
        node: ast.AST = name
        parent = code.parents[node]
        reads: list[ast.Name] = []
        while _is_same(parent, node):
            if isinstance(parent, ast.NamedExpr):
                reads += code.reads(code.scopes.variables[parent.target])
            node, parent = parent, code.parents[parent]
        variables = self._renamed(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            self.direct.add(parent)
        elif variables:
            statement = code.places[node]
            reads += [read for v in variables for read in code.reads_after(statement, v)]
            if any(isinstance(scope, ast.ClassDef) for scope, _ in variables):
                self.kept.append(name)  # and called as an attribute
        elif isinstance(parent, ast.arguments):
            reads += code.reads_of_default(node, parent)
        else:
            reads += self._given(name, node)
        return reads

    def _renamed(self, node: ast.AST) -> set[Variable]:
        """The variables that get the helper by an assignment, as in `f = aux` and `f, g = aux, abs`."""
        code = self.flow.code
        parent = code.parents[node]
        if isinstance(parent, ast.Assign):
            self.aliases.add(parent)
            return code.stores[parent]
        statement = code.parents[parent]
        if not (isinstance(parent, DISPLAYS) and isinstance(statement, ast.Assign)):
            return set()
        if all(isinstance(part, ast.Name | ast.Constant | ast.Lambda) for part in parent.elts):
            self.aliases.add(statement)
        pairs = [(target, taker(target, parent, node)) for target in statement.targets]
        names = [name for target, name in pairs if name is not target]
        return {code.scopes.variables[name] for name in names if isinstance(name, ast.Name)}

    def _given(self, name: ast.Name, node: ast.AST) -> list[ast.Name]:
        """Note who is given the helper; where its own code sees it, the reads there."""
        code = self.flow.code
        parent = code.parents[node]
        argument = parent if isinstance(parent, ast.keyword) else node
        call = code.parents[argument]
        if isinstance(call, ast.Call):
            function = code.definition(call.func)
            if function is not None:
                return [r for v in code.parameters(function, call, argument) for r in code.reads(v)]
            if _callee(call) in _CALLERS:
                self.handed_on.append(name)
                return []
        if not isinstance(parent, _LOOKS) and not (call is parent and self._is_builtin(call)):
            self.kept.append(name)
        return []

    def _is_builtin(self, call: ast.AST) -> bool:
        """Whether a call is one of a builtin that does not keep what it is given: those that call it are known."""
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            return False
        scopes, name = self.flow.code.scopes, call.func.id
        own = scopes.variables[call.func] in scopes.bindings
        return hasattr(builtins, name) and name not in _KEEPERS and not own

    def _follow_kept(self, name: ast.Name) -> list[ast.Name]:
        """Note where something is called that the helper was put into; where that gets names, their reads."""
        code = self.flow.code
        node: ast.AST = name
        parent = code.parents[node]
        while isinstance(parent, _THROUGH):
            if isinstance(parent, ast.Call) and parent.func is node:
                self.indirect.add(parent)
                return []
            node, parent = parent, code.parents[parent]
        if isinstance(parent, ast.Assign):
            self.aliases.add(parent)
            return [read for v in code.stores[parent] for read in code.reads_after(parent, v)]
        if isinstance(parent, ast.For):
            names = [part for part in parts(parent.target) if isinstance(part, ast.Name)]
            return [r for n in names for r in code.reads_after(parent, code.scopes.variables[n])]
        return []

    def uses(self) -> list[tuple[ast.expr, str]]:
        """Each use of the helper, and why its result is lost ("" where it is used).

        Where nothing is seen to call the helper, what was given it may do so, and so may what it was put into, if
        that is used: only running tells.
        """
        sure = self._judged([*self.direct, *self.handed_on])
        parents = self.flow.code.parents
        return sure or [
            (name, why)
            for name, why in self._judged(self.kept)
            if not why or isinstance(parents[name], ast.Call | ast.keyword)
        ]

    def _judged(self, values: Sequence[ast.expr]) -> list[tuple[ast.expr, str]]:
        found: list[tuple[ast.expr, str]] = []
        for value in values:
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


def _is_same(node: ast.AST, part: ast.AST) -> bool:
    """Whether an expression may be its part itself, or the same function with some arguments given."""
    if isinstance(node, ast.IfExp):
        return part is not node.test
    return isinstance(node, ast.BoolOp | ast.NamedExpr) or _is_partial(node, part)
