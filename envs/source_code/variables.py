"""Variables that code of a function reads and assigns, on its way through it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from llm_decpomdp.envs.source_code.statements import Statement, names_bound_by

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (*COMPREHENSIONS, ast.Lambda)
"""Expressions with variables of their own."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

Names = frozenset[str]
NONE: Names = frozenset()


@dataclass(frozen=True)
class Flow:
    """Variables on the way through code."""

    reads: Names = NONE
    """May be read before the code itself assigns them; names of functions and modules are among them."""
    writes: Names = NONE
    """May be assigned."""
    sure: Names = NONE
    """Are assigned wherever the code goes on behind its end."""
    changes: Names = NONE
    """Their objects are plainly changed, as in `items.append(x)` or `table[0] = x`."""
    ends: bool = False
    """Whether it never goes on behind its end: every path returns, raises or leaves a loop."""

    def then(self, following: Flow) -> Flow:
        """Return the flow of this code and what follows it."""
        if self.ends:
            return self
        return Flow(
            self.reads | (following.reads - self.sure),
            self.writes | following.writes,
            self.sure | following.sure,
            self.changes | following.changes,
            following.ends,
        )

    def either(self, other: Flow) -> Flow:
        """Return the flow of this code or another one."""
        first, second = (self if not self.ends else other), (other if not other.ends else self)
        return Flow(
            self.reads | other.reads,
            self.writes | other.writes,
            first.sure & second.sure,
            self.changes | other.changes,
            self.ends and other.ends,
        )


def variable_flow(statements: Sequence[ast.stmt]) -> Flow:
    """Return the flow of statements, in which generators and `nonlocal` are not considered."""
    flow = Flow()
    for statement in statements:
        flow = flow.then(_statement_flow(statement))
    return flow


def _statement_flow(node: ast.stmt) -> Flow:
    match node:
        case ast.If():
            branches = variable_flow(node.body).either(variable_flow(node.orelse))
            return Flow(loaded_names(node.test)).then(branches)
        case ast.For():
            target = bound_in([node.target])
            body = Flow(writes=target, sure=target).then(variable_flow(node.body))
            # A `break` leaves the rest out, and the `else` too.
            body, orelse = _leave(body), _leave(variable_flow(node.orelse))
            reads = loaded_names(node.iter) | loaded_names(node.target)
            return Flow(reads).then(body).then(orelse)
        case ast.While():
            body, orelse = _leave(variable_flow(node.body)), _leave(variable_flow(node.orelse))
            return Flow(loaded_names(node.test)).then(body).then(orelse)
        case ast.With():
            bound = bound_in(node.items)
            return Flow(loaded_names(*node.items), bound, bound).then(variable_flow(node.body))
        case ast.Try():
            flow = variable_flow(node.body).then(variable_flow(node.orelse))
            for handler in node.handlers:
                types = loaded_names(*filter(None, [handler.type]))
                caught = variable_flow(handler.body)
                reads = types | caught.reads - {handler.name}
                flow = flow.either(replace(caught, reads=reads))
            final = variable_flow(node.finalbody)
            # The last block also runs where the body was left at any place.
            return Flow(
                flow.reads | final.reads,
                flow.writes | final.writes,
                flow.sure | final.sure,
                flow.changes | final.changes,
                flow.ends or final.ends,
            )
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return Flow(loaded_names(node), ends=True)
    # `match` and `except*`: nothing in them is sure.
    if isinstance(node, ast.Match) or hasattr(node, "handlers"):
        return Flow(loaded_names(node), bound_in([node]))
    reads, bound = loaded_names(node), bound_in([node])
    if isinstance(node, ast.AugAssign):
        reads |= bound
    if isinstance(node, ast.AnnAssign) and node.value is None:
        bound = NONE
    return Flow(reads, bound, bound, Statement(node).changed_names)


def _leave(body: Flow) -> Flow:
    """Return the flow of the body of a loop, which may not run, or may be left."""
    return Flow(body.reads, body.writes, NONE, body.changes)


def loaded_names(*nodes: ast.AST) -> Names:
    """Return the names that code reads, without the variables of functions and comprehensions in it."""
    return frozenset(name for node in nodes for name in _loads(node, NONE))


def _loads(node: ast.AST, bound: Names) -> Iterable[str]:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in bound:
            yield node.id
        return
    if isinstance(node, COMPREHENSIONS):
        # The first iterable is evaluated outside.
        first, *_ = node.generators
        yield from _loads(first.iter, bound)
        bound |= bound_in([node])
        parts: list[ast.AST] = [*(g.iter for g in node.generators[1:])]
        parts += [test for g in node.generators for test in g.ifs]
        parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for part in parts:
            yield from _loads(part, bound)
        return
    if isinstance(node, FUNCTIONS):
        arguments = {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
        outside = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        outside += getattr(node, "decorator_list", [])
        for part in outside:
            yield from _loads(part, bound)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        inner = bound | arguments | (NONE if isinstance(node, ast.Lambda) else bound_in(body))
        for part in body:
            yield from _loads(part, inner)
        return
    for child in ast.iter_child_nodes(node):
        yield from _loads(child, bound)


def bound_in(nodes: Iterable[ast.AST]) -> Names:
    """Return the names that code binds in its own scope; of a comprehension or lambda its own variables."""
    names: set[str] = set()
    pending = [*nodes]
    match pending:
        case [ast.Lambda() as scope]:
            return frozenset(arg.arg for arg in ast.walk(scope.args) if isinstance(arg, ast.arg))
        case [ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() as scope]:
            pending = [generator.target for generator in scope.generators]
    while pending:
        node = pending.pop()
        if isinstance(node, SCOPES):
            continue
        names.update(names_bound_by(node))
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            pending += ast.iter_child_nodes(node)
    return frozenset(names)
