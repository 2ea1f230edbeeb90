"""Which code can run: branches that constants decide, and statements that nothing reaches, fall away."""

from __future__ import annotations

import ast
from typing import Any, cast

from llm_decpomdp.envs.scopes import DEFINITIONS, Scopes, Variable
from llm_decpomdp.envs.truth import is_zero, same, truth


def prune(scopes: Scopes) -> None:
    """Remove from a module, in place, what can never run, and annotations, which decide nothing.

    In a product or power, a local variable that only ever stands for zero is replaced by it.
    """
    _Pruner(scopes).visit(scopes.module)


def _zeros(scopes: Scopes) -> set[Variable]:
    """The local variables of functions that are assigned once, and zero."""
    found: set[Variable] = set()
    for node in ast.walk(scopes.module):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and is_zero(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {scopes.variables[t] for t in targets if isinstance(t, ast.Name)}
    return {v for v in found if isinstance(v[0], DEFINITIONS) and len(scopes.bindings[v]) == 1}


def _alike(left: list[ast.stmt], right: list[ast.stmt]) -> bool:
    return len(left) == len(right) and all(map(same, left, right))


def is_padding(statement: ast.stmt) -> bool:
    """Statements that do nothing: docstrings, constants, `pass`, imports, declarations."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    nothing = ast.Pass | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal
    return isinstance(statement, nothing)


def own_loop_jumps(loop: ast.stmt) -> list[ast.stmt]:
    """The `break` and `continue` statements that belong to a loop."""
    found: list[ast.stmt] = []
    pending: list[ast.AST] = list(getattr(loop, "body", []))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Break | ast.Continue):
            found.append(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            pending += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending += [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr)]
    return found


def _ends(statement: ast.stmt) -> bool:
    """Whether what follows a statement can never run."""
    if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
        return True
    if isinstance(statement, ast.Assert):
        return truth(statement.test) is False
    if isinstance(statement, ast.If):
        return all(block and _ends(block[-1]) for block in (statement.body, statement.orelse))
    if isinstance(statement, ast.While):
        jumps = own_loop_jumps(statement)
        return truth(statement.test) is True and not any(isinstance(j, ast.Break) for j in jumps)
    if isinstance(statement, ast.Try):
        if statement.finalbody and _ends(statement.finalbody[-1]):
            return True
        blocks = [statement.orelse or statement.body, *(h.body for h in statement.handlers)]
        return all(_ends(block[-1]) for block in blocks)
    return False


def _before(test: ast.expr, block: list[ast.stmt]) -> list[ast.stmt]:
    """`block`, after the evaluation of a test that decides nothing."""
    if not any(isinstance(n, ast.Call | ast.NamedExpr | ast.Await) for n in ast.walk(test)):
        return block
    return [ast.copy_location(ast.Expr(test), test), *block]


def _decided(node: ast.If) -> ast.If | list[ast.stmt]:
    """An `if`, or what is left of it where its test decides nothing."""
    decided = truth(node.test)
    if decided is not None:
        return _before(node.test, node.body if decided else node.orelse)
    return _before(node.test, node.body) if _alike(node.body, node.orelse) else node


def _captures(case: ast.match_case) -> bool:
    parts = ast.walk(case.pattern)
    return any(getattr(part, "name", None) or getattr(part, "rest", None) for part in parts)


def _always_alike(match: ast.Match) -> bool:
    """Whether one of the cases of a `match` runs in any event, no matter which."""
    last = match.cases[-1]
    if not isinstance(last.pattern, ast.MatchAs) or any(map(_captures, match.cases)):
        return False
    return all(case.guard is None and _alike(case.body, last.body) for case in match.cases)


class _Pruner(ast.NodeTransformer):
    """Works from the inside out."""

    def __init__(self, scopes: Scopes) -> None:
        self.variables, self.zeros = scopes.variables, _zeros(scopes)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and (block or name == "body"):
                setattr(node, name, _reachable(block))
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult | ast.Pow | ast.BitAnd):
            node.left, node.right = self._factor(node.left), self._factor(node.right)
        return node

    def _factor(self, node: ast.expr) -> ast.expr:
        zero = isinstance(node, ast.Name) and self.variables[node] in self.zeros
        return ast.copy_location(ast.Constant(0), node) if zero else node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return _decided(node)

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        decided = truth(node.test)
        if decided is False:
            return _before(node.test, node.orelse)
        jumps = own_loop_jumps(node)
        once = _ends(node.body[-1]) and not any(isinstance(j, ast.Continue) for j in jumps)
        if once and not jumps:
            return _decided(ast.copy_location(ast.If(node.test, node.body, node.orelse), node))
        if once and jumps == [node.body[-1]] and not node.orelse:
            body: list[ast.stmt] = node.body[:-1] or [ast.Pass()]
            return _decided(ast.copy_location(ast.If(node.test, body, []), node))
        return node

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return _before(node.iter, node.orelse) if truth(node.iter) is False else node

    def visit_Match(self, node: ast.Match) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return _before(node.subject, node.cases[-1].body) if _always_alike(node) else node

    def visit_Try(self, node: ast.Try) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if node.body and _ends(node.body[-1]):
            node.orelse = []
        node.handlers = [h for h in node.handlers if h.type is None or truth(h.type) is not False]
        if all(is_padding(s) and not isinstance(s, ast.Import | ast.ImportFrom) for s in node.body):
            node.handlers = []
        if all(map(is_padding, node.finalbody)):
            node.finalbody = []
        return node if node.handlers or node.finalbody else [*node.body, *node.orelse]

    def visit_Assert(self, node: ast.Assert) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return _before(node.test, []) if truth(node.test) is True else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        decided = truth(node.test)
        if decided is None or _before(node.test, []):
            return node
        return node.body if decided else node.orelse

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        decisive = isinstance(node.op, ast.Or)
        kept: list[ast.expr] = []
        for value in node.values:
            decided = truth(value)
            last = decided is decisive or value is node.values[-1]
            if last or decided is None or _before(value, []):
                kept.append(value)
            if last:
                break
        node.values = kept
        return node if len(kept) > 1 else kept[0]

    def _comprehension(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        for generator in node.generators:
            tests = [truth(test) for test in generator.ifs]
            if truth(generator.iter) is False or False in tests:
                return ast.copy_location(ast.List([], ast.Load()), node)
        return cast(ast.AST, node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: Any) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef


def _reachable(block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block up to the last that can run; never none."""
    for index, statement in enumerate(block):
        following = block[index + 1 :]
        if isinstance(statement, ast.If) and not statement.orelse and _ends(statement.body[-1]):
            if _alike(statement.body, following[: len(statement.body)]):
                return [*block[:index], *_before(statement.test, statement.body)]
        if _ends(statement):
            return block[: index + 1]
    return block or [ast.Pass()]
