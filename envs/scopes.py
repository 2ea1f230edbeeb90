"""Which variable each name of a module means, by Python's scopes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (*DEFINITIONS, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Variable = tuple[ast.AST, str]
"""The scope that a name belongs to (a module, class, function or comprehension), and the name."""


@dataclass(frozen=True)
class Scopes:
    """The variables of a module. Names that nothing binds belong to the module, as builtins do."""

    module: ast.Module
    variables: dict[ast.Name, Variable]
    """What each name means."""
    bindings: dict[Variable, list[ast.AST]]
    """The nodes that give a variable a meaning: stored names, definitions, parameters, imports, ..."""

    @classmethod
    def of(cls, module: ast.Module) -> Scopes:
        """Look through a module once."""
        found = _Walk()
        found.walk(module)
        variables = {name: found.resolve(scope, name.id) for name, scope in found.names}
        bindings: dict[Variable, list[ast.AST]] = defaultdict(list)
        for scope, name, node in found.bound:
            bindings[found.resolve(scope, name)].append(node)
        return cls(module, variables, dict(bindings))

    def is_global(self, variable: Variable) -> bool:
        """Whether a variable belongs to the module."""
        return variable[0] is self.module


@dataclass
class _Walk:
    """What one pass over a module notes down; the meaning of a name is known only at its end."""

    names: list[tuple[ast.Name, ast.AST]] = field(default_factory=list)
    bound: list[tuple[ast.AST, str, ast.AST]] = field(default_factory=list)
    outer: dict[ast.AST, ast.AST] = field(default_factory=dict)
    elsewhere: dict[Variable, bool] = field(default_factory=dict)
    """Names declared `global` (True) or `nonlocal` (False) in a scope."""
    own: set[Variable] = field(default_factory=set)

    def walk(self, module: ast.Module) -> None:
        pending: list[tuple[ast.AST, ast.AST]] = [(node, module) for node in module.body]
        while pending:
            node, scope = pending.pop()
            for name in _bound_by(node):
                self.bound.append((scope, name, node))
                self.own.add((scope, name))
            if isinstance(node, ast.Name):
                self.names.append((node, scope))
            elif isinstance(node, ast.Global | ast.Nonlocal):
                is_global = isinstance(node, ast.Global)
                self.elsewhere.update(((scope, name), is_global) for name in node.names)
            pending += self._children(node, scope)

    def _children(self, node: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """The parts of a node, each with the scope that it is evaluated in."""
        outside: list[ast.AST] = []
        if isinstance(node, FUNCTIONS):
            outside = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
            outside += [] if isinstance(node, ast.Lambda) else node.decorator_list
        elif isinstance(node, ast.ClassDef):
            outside = [*node.bases, *node.keywords, *node.decorator_list]
        elif isinstance(node, COMPREHENSIONS):
            outside = [node.generators[0].iter]
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, *COMPREHENSIONS)):
            self.outer[node] = scope
            scope, around = node, scope
            yield from ((part, around) for part in outside)
        skipped = {id(part) for part in outside}
        for child in ast.iter_child_nodes(node):
            for part in [child] if id(child) not in skipped else []:
                if isinstance(part, ast.arguments | ast.comprehension):
                    inner = (p for p in ast.iter_child_nodes(part) if id(p) not in skipped)
                    yield from ((p, scope) for p in inner)
                elif isinstance(node, ast.NamedExpr) and part is node.target:
                    yield (part, self._owner(scope))  # binds outside the comprehension
                else:
                    yield (part, scope)

    def _owner(self, scope: ast.AST) -> ast.AST:
        while isinstance(scope, COMPREHENSIONS):
            scope = self.outer[scope]
        return scope

    def resolve(self, scope: ast.AST, name: str) -> Variable:
        """The variable that `name` means in `scope`."""
        begin = scope
        while scope in self.outer:
            visible = scope is begin or not isinstance(scope, ast.ClassDef)
            declared = self.elsewhere.get((scope, name)) if visible else None
            if declared:
                break
            if visible and declared is None and (scope, name) in self.own:
                return scope, name
            scope = self.outer[scope]
        while scope in self.outer:
            scope = self.outer[scope]
        return scope, name


def _bound_by(node: ast.AST) -> list[str]:
    """The names that a node itself gives a meaning."""
    if isinstance(node, (*DEFINITIONS, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return [node.name] if node.name is not None else []
    if isinstance(node, ast.MatchMapping):
        return [node.rest] if node.rest is not None else []
    return []
