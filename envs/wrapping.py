"""Whether a function does anything beside returning the helper's result."""

from __future__ import annotations

import ast

from llm_decpomdp.envs.calls import Calls
from llm_decpomdp.envs.code import FunctionNode
from llm_decpomdp.envs.pruning import is_padding
from llm_decpomdp.envs.scopes import DEFINITIONS, Variable
from llm_decpomdp.envs.truth import same


def is_wrapper(calls: Calls, function: FunctionNode, known: dict[ast.AST, bool]) -> bool:
    """Whether the function returns a helper's result unchanged and does nothing else that matters.

    An operator, a container or a conversion around the result is something else, even one that happens to
    change nothing. A function of the same code that is itself a wrapper counts as the helper; `known`
    remembers which functions are.
    """
    if function not in known:
        known[function] = False  # while it is looked into: one that only calls itself is no wrapper
        look = _Look(calls, set(), known)
        if isinstance(function, ast.Lambda):
            known[function] = look.passes_on(function.body)
        else:
            known[function] = look.block(function.body)
    return known[function]


class _Look:
    """The look through one function; `results` are the variables that hold the helper's result."""

    def __init__(self, calls: Calls, results: set[Variable], known: dict[ast.AST, bool]) -> None:
        self.calls, self.results, self.known = calls, results, known

    def block(self, statements: list[ast.stmt]) -> bool:
        """Whether each statement is without effect or hands the result on."""
        return all(map(self._statement, statements))

    def _statement(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Return):
            return statement.value is not None and self.passes_on(statement.value)
        if isinstance(statement, ast.Assign) and self.passes_on(statement.value):
            self.results |= self.calls.flow.code.stores[statement]
            return all(isinstance(target, ast.Name) for target in statement.targets)
        if is_padding(statement) or isinstance(statement, (*DEFINITIONS, ast.ClassDef)):
            return True
        if statement in self.calls.aliases or not self.calls.flow.matters(statement):
            return True
        if isinstance(statement, ast.Assign):
            return isinstance(statement.value, ast.Name | ast.Constant | ast.Lambda)
        if isinstance(statement, ast.With):
            return self.block(statement.body)
        if isinstance(statement, ast.For):  # one round at most
            return isinstance(statement.body[-1], ast.Return) and self.block(statement.body)
        if isinstance(statement, ast.Try):
            given_up = all(_gives_up(handler.body) for handler in statement.handlers)
            rest = [*statement.body, *statement.orelse, *statement.finalbody]
            return given_up and self.block(rest)
        return False

    def passes_on(self, value: ast.expr) -> bool:
        """Whether an expression is the helper's result, unchanged."""
        if isinstance(value, ast.Await | ast.NamedExpr):
            value = value.value
        if isinstance(value, ast.Name):
            return self.calls.flow.code.scopes.variables[value] in self.results
        if isinstance(value, ast.IfExp):
            return same(value.body, value.orelse) and self.passes_on(value.body)
        if isinstance(value, ast.BoolOp):
            first, *others = value.values
            return all(same(first, other) for other in others) and self.passes_on(first)
        if not isinstance(value, ast.Call):
            return False
        function = self.calls.flow.code.definition(value.func)
        if function is not None:
            return is_wrapper(self.calls, function, self.known)
        return value in self.calls.direct or value in self.calls.indirect


def _gives_up(handler: list[ast.stmt]) -> bool:
    """Whether an `except` does no more than raise, return nothing, or go on."""
    for statement in handler:
        nothing = ast.Return(ast.Constant(None))
        if isinstance(statement, ast.Return) and not (
            statement.value is None or same(statement, nothing)
        ):
            return False
        if not (is_padding(statement) or isinstance(statement, ast.Raise | ast.Return)):
            return False
    return True
