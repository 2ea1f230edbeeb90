"""Where values go: whether what an expression gives may ever reach the caller of the entry function.

A value travels from an expression to the one around it, from an assignment to the later reads of its names,
from an argument to the parameter, from a `return` to the calls of its function, from a condition to what it
decides. It matters if this way ends in what the entry function returns, yields, raises or changes outside
itself. Where the way cannot be followed, it is taken to matter.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from llm_decpomdp.envs.code import FunctionNode
from llm_decpomdp.envs.listing import DISPLAYS, Listing, parts, taker, targets
from llm_decpomdp.envs.paths import LOOPS
from llm_decpomdp.envs.scopes import DEFINITIONS
from llm_decpomdp.envs.truth import makes_no_difference, truth

_BUILTINS = set(dir(builtins)) - {"setattr", "exec", "eval", "__import__"}

_READERS = {
    name for kind in (str, bytes, int, float, tuple, frozenset, range) for name in dir(kind)
}
"""Methods of types that never change: they don't change what they are called on."""

_WRITERS = {"heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right"}
"""Functions that change their first argument."""


@dataclass(frozen=True)
class Flow:
    """A pruned module, seen from its entry function."""

    code: Listing
    entry: FunctionNode
    helpers: tuple[str, ...]

    def matters(self, node: ast.AST) -> bool:
        """Whether an expression's value, or the running of a statement, may reach the caller."""
        seen: set[ast.AST] = {node}
        pending = [node]
        while pending:
            for following in self._flows(pending.pop()):
                self.code.step()
                if following is self.entry:
                    return True
                if following not in seen:
                    seen.add(following)
                    pending.append(following)
        return False

    def lost(self, value: ast.AST) -> str:
        """Why nothing uses the value of an expression; "" where something does."""
        if self.matters(value):
            return ""
        node, given = value, self._targets(value)
        while not given and isinstance(node, ast.expr | ast.keyword | ast.comprehension):
            node = self.code.parents[node]
            given = self._targets(node)
        for name in (part for target in given for part in parts(target)):
            if isinstance(name, ast.Name):
                return f"the result is assigned to {name.id} but never used"
        return "the result is thrown away"

    # Where a value goes next

    def _flows(self, node: ast.AST) -> Iterable[ast.AST]:
        """Where a value goes next, or what depends on whether a statement runs."""
        if isinstance(node, ast.stmt):
            return self._effects(node)
        given = self._targets(node)
        if given:
            return self._assigned(given, self.code.places[node])
        parent = self.code.parents[node]
        if isinstance(parent, ast.expr):
            return self._out_of(node, parent)
        if isinstance(parent, ast.keyword):
            return self._flows(parent)
        if isinstance(parent, ast.comprehension):
            idle = isinstance(node, ast.expr) and node in parent.ifs and truth(node) is not None
            return () if idle else (self.code.parents[parent],)
        if isinstance(parent, ast.arguments):
            return self.code.reads_of_default(node, parent)
        return self._into(parent) if isinstance(parent, ast.stmt) else (self.entry,)

    def _out_of(self, node: ast.AST, parent: ast.expr) -> Iterator[ast.AST]:
        """From an expression to the one around it."""
        if isinstance(parent, ast.Lambda):
            yield from self._results(parent)
        elif isinstance(parent, ast.Call):
            yield from self._through_call(node, parent)
        elif isinstance(parent, ast.Yield | ast.YieldFrom):
            yield from self._results(self.code.regions[parent])
        elif isinstance(parent, ast.NamedExpr):
            yield from self.code.reads(self.code.scopes.variables[parent.target])
            yield parent
        elif isinstance(parent, ast.Subscript | ast.Attribute) and not _is_read(parent):
            yield from () if node is parent.value else self._changed(parent)
        elif not makes_no_difference(node, parent, self.code.parents[parent]):
            yield parent

    def _through_call(self, node: ast.AST, call: ast.Call) -> Iterator[ast.AST]:
        function = self.code.definition(call.func)
        if function is not None and node is not call.func:
            for parameter in self.code.parameters(function, call, node):
                yield from self.code.reads(parameter)
            return
        yield call
        if node is not call.func:
            yield from self._changed_by(call)
            return
        for argument in call.args if not isinstance(node, ast.Attribute) else ():
            yield from self._changed(argument)

    def _into(self, statement: ast.stmt) -> Iterable[ast.AST]:
        """From an expression to what its statement does with it."""
        if isinstance(statement, ast.Expr):
            return ()
        if isinstance(statement, ast.Match) and _always_fits(statement.cases[0]):
            return self._captured(statement.cases[0].pattern)
        known = ast.Return | ast.If | ast.For | ast.AsyncFor | ast.Match | ast.Assert
        return self._effects(statement) if isinstance(statement, known) else (self.entry,)

    def _targets(self, value: ast.AST) -> list[ast.expr]:
        """What a value is assigned to, alone or in a display that is unpacked or looped over; else nothing."""
        holder = self.code.parents[value]
        if isinstance(holder, ast.Assign | ast.AugAssign):
            return targets(holder)
        if isinstance(value, ast.Starred) or not isinstance(holder, DISPLAYS):
            return []
        loop = self.code.parents[holder]
        if isinstance(loop, ast.For | ast.comprehension) and loop.iter is holder:
            return [loop.target]
        return [taker(target, holder, value) for target in self._targets(holder)]

    def _assigned(self, given: list[ast.expr], statement: ast.AST) -> Iterator[ast.AST]:
        """From a value to its targets, single or not."""
        for target in given:
            for part in parts(target):
                if isinstance(part, ast.Name):
                    yield from self._stored(part, statement)
                else:
                    yield from self._changed(part)

    def _stored(self, name: ast.Name, statement: ast.AST) -> Iterator[ast.AST]:
        """From an assignment to the reads of its name."""
        variable = self.code.scopes.variables[name]
        if isinstance(variable[0], ast.ClassDef):  # read by any use of the class
            yield from self.code.calls(variable[0])
        inside = isinstance(self.code.regions[statement], DEFINITIONS)
        if inside and self.code.scopes.is_global(variable):
            yield self.entry  # the next call may read it
        yield from self.code.reads_after(statement, variable)

    def _captured(self, pattern: ast.pattern) -> Iterator[ast.AST]:
        """From the subject of a `match` to the reads of what a pattern captures."""
        for variable in self.code.defined.get(pattern, ()):
            yield from self.code.reads(variable)

    def _results(self, function: ast.AST) -> Iterator[ast.AST]:
        """Where the result of a function goes."""
        if function is self.entry or self._is_out_of_sight(function):
            yield self.entry
        else:
            yield from self.code.calls(function)

    def _is_out_of_sight(self, function: ast.AST) -> bool:
        """Whether others may call a function: a method, or what a decorator has taken hold of."""
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        parent = self.code.parents[function]
        return bool(function.decorator_list) or isinstance(parent, ast.ClassDef)

    # What else changes

    def _changed_by(self, call: ast.Call) -> Iterable[ast.AST]:
        """What a call of a function that is out of sight changes beside giving a result."""
        callee, scopes = call.func, self.code.scopes
        name = callee.attr if isinstance(callee, ast.Attribute) else None
        name = callee.id if isinstance(callee, ast.Name) else name
        if name in _WRITERS and call.args:
            return self._changed(call.args[0])
        if isinstance(callee, ast.Attribute):
            return () if callee.attr in _READERS else self._changed(callee.value)
        if not isinstance(callee, ast.Name):
            return (self.entry,)
        variable = scopes.variables[callee]
        bound = scopes.bindings.get(variable, [])
        if not bound:
            return () if name in _BUILTINS or name in self.helpers else (self.entry,)
        harmless = all(isinstance(node, ast.ImportFrom | ast.ClassDef) for node in bound)
        return () if harmless else (self.entry,)

    def _changed(self, target: ast.expr) -> Iterator[ast.AST]:
        """Who may see a change of the object that an expression stands for."""
        pending, seen = [target], set()
        while pending:
            root = _root(pending.pop())
            if not isinstance(root, ast.Name) or self.code.scopes.variables[root] in seen:
                continue
            variable = self.code.scopes.variables[root]
            seen.add(variable)
            for binding in self.code.scopes.bindings.get(variable, [variable[0]]):
                taken_from = self._sources(binding, variable[0])
                if taken_from is None:
                    yield self.entry
                else:
                    pending += taken_from
            yield from self.code.reads(variable)

    def _sources(self, binding: ast.AST, scope: ast.AST) -> list[ast.expr] | None:
        """What a variable's object may be taken from, as `a` in `x = a[0]`; None where others know it."""
        if isinstance(binding, ast.Import | ast.ImportFrom | ast.ClassDef):
            return []
        if (
            isinstance(binding, ast.arg)
            and scope is not self.entry
            and not self._is_out_of_sight(scope)
        ):
            assert isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            return self.code.arguments(scope, binding.arg)
        if not isinstance(binding, ast.Name):
            return None
        node = self.code.parents.get(binding)  # None: pruned away
        while isinstance(node, ast.expr):
            node = self.code.parents[node]
        if isinstance(node, ast.Assign):
            return [node.value]
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            return [
                n for n in ast.walk(node.iter) if isinstance(n, ast.Name) and n.id not in _BUILTINS
            ]
        return []

    # What a statement does

    def _effects(self, statement: ast.stmt) -> Iterator[ast.AST]:
        """What depends on whether a statement runs."""
        if isinstance(statement, ast.Return):
            yield from self._results(self.code.regions[statement])
        elif isinstance(statement, ast.Raise | ast.Assert | ast.Delete):
            yield self.entry
        elif isinstance(statement, ast.Break | ast.Continue):
            loop: ast.AST = statement
            while not isinstance(loop, LOOPS):
                loop = self.code.parents[loop]
            yield loop
        elif isinstance(statement, (*DEFINITIONS, ast.ClassDef)):
            yield from self.code.calls(statement)
        else:
            if isinstance(statement, ast.Assign | ast.AugAssign):
                yield from self._assigned(targets(statement), statement)
            yield from self._effects_of_parts(statement)

    def _effects_of_parts(self, statement: ast.stmt) -> Iterator[ast.AST]:
        pending: list[ast.AST] = list(ast.iter_child_nodes(statement))
        while pending:
            node = pending.pop()
            if isinstance(node, ast.stmt):
                yield node
                continue
            if isinstance(node, ast.Call):
                function = self.code.definition(node.func)
                if function is None:
                    yield from self._changed_by(node)
                else:
                    yield from (
                        function.body if isinstance(function.body, list) else (function.body,)
                    )
            elif isinstance(node, ast.Yield | ast.YieldFrom):
                yield from self._results(self.code.regions[node])
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield from self._stored(node, statement)
            elif isinstance(node, ast.pattern):
                yield from self._captured(node)
            if not isinstance(node, ast.Lambda):
                pending.extend(ast.iter_child_nodes(node))


def _is_read(node: ast.Subscript | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _always_fits(case: ast.match_case) -> bool:
    """Whether a case is a mere name or `_`, for which any subject will do."""
    pattern = case.pattern
    return case.guard is None and isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _root(target: ast.expr) -> ast.expr:
    """The object that an expression reaches into, as `a` in `a.b[0].c()`."""
    while True:
        if isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
            target = target.value
        elif isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
            target = target.func.value
        else:
            return target
