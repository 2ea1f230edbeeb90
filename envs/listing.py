"""A module's code with what its nodes don't say themselves: who holds whom, and who reads which variable."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from llm_decpomdp.envs.code import FunctionNode
from llm_decpomdp.envs.paths import Paths
from llm_decpomdp.envs.scopes import DEFINITIONS, FUNCTIONS, Scopes, Variable

DISPLAYS = (ast.Tuple, ast.List)

MAX_STEPS = 100_000
"""Bound on the work for one module; beyond it `RecursionError` is raised."""


@dataclass
class Listing:
    """A module, numbered and indexed. Its nodes stay as they are."""

    scopes: Scopes
    paths: Paths
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    regions: dict[ast.AST, ast.AST] = field(default_factory=dict)
    """The function whose body a node stands in; outside all functions the top-level statement."""
    places: dict[ast.AST, ast.AST] = field(default_factory=dict)
    """The innermost statement, or `except` clause, that a node is a part of."""
    fallible: set[ast.AST] = field(default_factory=set)
    """Places that call or look something up, as `int(x)` and `d[k]`: they may well raise before they assign."""
    loads: dict[Variable, list[ast.Name]] = field(default_factory=lambda: defaultdict(list))
    """The reads of each variable, in the order of the code."""
    defined: dict[ast.AST, list[Variable]] = field(default_factory=lambda: defaultdict(list))
    """The variables that stand for each function, class and lambda, and those that a pattern captures."""
    stores: dict[ast.AST, set[Variable]] = field(default_factory=dict)
    """The variables that an assignment gives a new value."""
    later: dict[tuple[ast.AST, Variable], list[ast.Name]] = field(default_factory=dict)
    """What is known of the reads after statements."""
    steps: int = 0

    @classmethod
    def of(cls, scopes: Scopes) -> Listing:
        """Look through a module once."""
        listing = cls(scopes, Paths(scopes.module))
        for statement in scopes.module.body:
            listing.parents[statement] = scopes.module
            listing._number(statement)
        for variable, bound in scopes.bindings.items():
            for node in bound:
                if isinstance(node, (*DEFINITIONS, ast.ClassDef, ast.pattern)):
                    listing.defined[node].append(variable)
                elif isinstance(node, ast.Name) and (value := listing._named_lambda(node)):
                    listing.defined[value].append(variable)
        for node in listing.regions:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                listing.loads[scopes.variables[node]].append(node)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                listing.loads[scopes.variables[node.target]].append(node.target)
            elif isinstance(node, ast.Assign):
                names = (part for target in targets(node) for part in parts(target))
                listing.stores[node] = {
                    scopes.variables[name] for name in names if isinstance(name, ast.Name)
                }
        return listing

    def _number(self, statement: ast.stmt) -> None:
        pending: list[tuple[ast.AST, ast.AST, ast.AST]] = [(statement, statement, statement)]
        while pending:
            node, region, place = pending.pop()
            place = node if isinstance(node, ast.stmt | ast.ExceptHandler) else place
            self.regions[node] = region
            self.places[node] = place
            if isinstance(node, ast.Call | ast.Subscript):
                self.fallible.add(place)
            body = node.body if isinstance(node, FUNCTIONS) else ()
            inside = {id(part) for part in (body if isinstance(body, list) else (body,))}
            for child in reversed(list(ast.iter_child_nodes(node))):
                if not isinstance(child, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop):
                    self.parents[child] = node
                    pending.append((child, node if id(child) in inside else region, place))

    def restrict(self, live: set[ast.AST]) -> None:
        """Forget the reads outside these regions: they never run."""
        self.later.clear()
        for variable, names in self.loads.items():
            self.loads[variable] = [name for name in names if self.regions[name] in live]

    def step(self) -> None:
        """Count a piece of work.

        Raises:
            RecursionError: If there has been too much of it.
        """
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise RecursionError("the code is too entangled to be looked through")

    def is_loading(self, node: ast.AST) -> bool:
        """Whether a node stands outside all functions, and so runs once, when the code is loaded."""
        region = self.regions[node]
        while node is not region and self.parents[node] is not region:
            node = self.parents[node]
        body = region.body if isinstance(region, FUNCTIONS) else []
        return not (node is body or (isinstance(body, list) and node in body))

    def reads(self, variable: Variable) -> list[ast.Name]:
        """The reads of a variable."""
        return self.loads.get(variable, [])

    def reads_after(self, statement: ast.AST, variable: Variable) -> list[ast.Name]:
        """The reads of a variable that may follow a statement before it is assigned again."""
        if (statement, variable) not in self.later:
            self.later[statement, variable] = self._reads_after(statement, variable)
        return self.later[statement, variable]

    def _reads_after(self, statement: ast.AST, variable: Variable) -> list[ast.Name]:
        names, here = self.reads(variable), self.regions[statement]
        if here is not variable[0] and not self.scopes.is_global(variable):
            return names
        found = [name for name in names if self.regions[name] is not here]  # run at any time
        wanted: dict[ast.AST, list[ast.Name]] = {}
        for name in names if len(found) < len(names) else ():
            wanted.setdefault(self.places[name], []).append(name)
        pending, seen = [*self.paths.following[statement]], set()
        while pending and wanted:
            place = pending.pop()
            if place not in seen:
                self.step()
                seen.add(place)
                found[:0] = wanted.pop(place, ())  # far reads come last: who looks begins with them
                stored = variable in self.stores.get(place, ())
                if not stored:
                    pending += self.paths.following[place]
                if not stored or place in self.fallible:
                    pending += self.paths.raising[place]
        return found

    def definition(self, callee: ast.expr) -> FunctionNode | None:
        """The function of this module that an expression stands for, if it can only be that one."""
        if isinstance(callee, ast.Lambda):
            return callee
        if not isinstance(callee, ast.Name):
            return None
        bound = self.scopes.bindings.get(self.scopes.variables[callee], [])
        node = bound[0] if len(bound) == 1 else None
        if isinstance(node, ast.Name):
            return self._named_lambda(node)
        if isinstance(node, DEFINITIONS) and not node.decorator_list:
            return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
        return None

    def _named_lambda(self, name: ast.Name) -> ast.Lambda | None:
        parent = self.parents.get(name)
        if isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Lambda):
            return parent.value
        return None

    def calls(self, function: ast.AST) -> Iterator[ast.expr]:
        """The calls of a function, and the places where it is handed on as a value."""
        parent = self.parents[function]
        if isinstance(function, ast.Lambda) and not isinstance(parent, ast.Assign):
            yield parent if isinstance(parent, ast.Call) and parent.func is function else function
        for variable in self.defined.get(function, ()):
            for name in self.reads(variable):
                user = self.parents[name]
                yield user if isinstance(user, ast.Call) and user.func is name else name

    def parameters(
        self, function: FunctionNode, call: ast.Call, argument: ast.AST
    ) -> list[Variable]:
        """The parameters that an argument of a call may become."""
        arguments = function.args
        places = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        rest = [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]
        names = [*places, *(a.arg for a in arguments.kwonlyargs), *rest]
        if not any(isinstance(a, ast.Starred) for a in call.args):
            if isinstance(argument, ast.keyword) and argument.arg is not None:
                names = [name for name in names if name == argument.arg] or rest
            elif isinstance(argument, ast.expr) and argument in call.args:
                index = call.args.index(argument)
                names = [places[index]] if index < len(places) else rest
        return [(function, name) for name in names]

    def reads_of_default(self, default: ast.AST, arguments: ast.arguments) -> list[ast.Name]:
        """The reads of the parameter that has this default."""
        places = [*arguments.posonlyargs, *arguments.args][::-1]
        pairs = [*zip(places, reversed(arguments.defaults), strict=False)]
        named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        pairs += [(argument, value) for argument, value in named if value is not None]
        names = [argument.arg for argument, value in pairs if value is default]
        return [r for name in names for r in self.reads((self.parents[arguments], name))]

    def arguments(self, function: FunctionNode, name: str) -> list[ast.expr] | None:
        """The expressions that a parameter may stand for; None if some of its calls are out of sight."""
        found: list[ast.expr] = []
        for call in self.calls(function):
            if not isinstance(call, ast.Call):
                return None
            passed: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
            for argument in passed:
                if (function, name) in self.parameters(function, call, argument):
                    value = argument.value if isinstance(argument, ast.keyword) else argument
                    found.append(value)
        return found


def targets(statement: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    """What stands left of an assignment's `=`."""
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def taker(target: ast.expr, display: ast.Tuple | ast.List, element: ast.AST) -> ast.expr:
    """The part of a target that an element of the assigned display goes to, as `b` in `a, b = x, element`.

    The target itself where the two don't pair.
    """
    if not isinstance(target, DISPLAYS) or any(isinstance(e, ast.Starred) for e in display.elts):
        return target
    takers = [*target.elts]
    for index, part in enumerate(target.elts):
        if isinstance(part, ast.Starred):  # takes what the others leave
            takers[index : index + 1] = [part] * (len(display.elts) - len(target.elts) + 1)
    if len(takers) != len(display.elts):
        return target
    return next(part for part, e in zip(takers, display.elts, strict=True) if e is element)


def parts(target: ast.expr) -> Iterator[ast.expr]:
    """The single targets of an assignment: names, items, attributes."""
    if isinstance(target, DISPLAYS):
        for element in target.elts:
            yield from parts(element)
    elif isinstance(target, ast.Starred):
        yield from parts(target.value)
    else:
        yield target
