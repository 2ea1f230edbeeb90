"""What becomes of a value inside a function: is it used, thrown away, or assigned and never read?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from llm_decpomdp.envs.code import FunctionNode

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Tree:
    """A function with what its nodes don't say themselves."""

    root: FunctionNode
    parents: dict[ast.AST, ast.AST]
    loads: dict[ast.AST, set[str]]
    """The names that are read somewhere in a node."""
    sets: dict[ast.AST, set[str]]
    """The names that an assignment gives a new value."""
    shared: set[str]
    """The names that others may read later: `global`, `nonlocal`, and what nested functions read."""

    @classmethod
    def of(cls, function: FunctionNode) -> Tree:
        """Look through a function once."""
        nodes = list(ast.walk(function))
        tree = cls(function, {}, {node: set() for node in nodes}, {}, set())
        tree.parents.update((child, n) for n in nodes for child in ast.iter_child_nodes(n))
        for node in nodes:
            if isinstance(node, ast.Global | ast.Nonlocal):
                tree.shared.update(node.names)
            elif isinstance(node, ast.Assign) or (isinstance(node, ast.AnnAssign) and node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                tree.sets[node] = {name.id for target in targets for name in _names(target)}
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                tree._read(node, node.id)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                tree._read(node, node.target.id)
        for node in nodes:  # a nested function may run at any time after it is defined
            if node is not function and isinstance(node, _FUNCTIONS):
                tree.shared.update(tree.loads[node])
        return tree

    def _read(self, node: ast.AST | None, name: str) -> None:
        while node is not None and name not in self.loads[node]:
            self.loads[node].add(name)
            node = self.parents.get(node)


def lost(value: ast.AST, tree: Tree) -> str:
    """Why nothing uses the value of an expression; "" where something does."""
    node, parent = value, tree.parents.get(value)
    while isinstance(parent, ast.expr | ast.keyword | ast.comprehension):
        if isinstance(parent, ast.Call) and node is not parent.func:
            return ""
        if isinstance(parent, ast.Lambda | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return ""
        if isinstance(parent, ast.comprehension) or (
            isinstance(parent, ast.IfExp) and node is parent.test
        ):
            return ""
        node, parent = parent, tree.parents.get(parent)
    if isinstance(parent, ast.Expr):
        return "" if isinstance(node, ast.Call) and _is_sort(node) else "the result is thrown away"
    if isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        names = [n.id for target in targets for n in _names(target)]
        if names and not any(_read_later(parent, name, tree) for name in names):
            return f"the result is assigned to {names[0]} but never used"
    return ""


def _is_sort(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "sort"


def _names(target: ast.expr) -> Iterator[ast.Name]:
    """The plain names of an assignment's target; none where it is an attribute or an item of something."""
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _names(element)
    elif isinstance(target, ast.Starred):
        yield from _names(target.value)


def _read_later(statement: ast.stmt, name: str, tree: Tree) -> bool:
    """Whether a name that `statement` assigns may be read before it is assigned again."""
    node: ast.AST = statement
    while node in tree.parents and name in tree.loads[tree.root]:
        parent = tree.parents[node]
        for later in _following(parent, node):
            if name in tree.loads[later]:
                return True
            if name in tree.sets.get(later, ()):
                return False
        if isinstance(parent, ast.For | ast.AsyncFor | ast.While) and name in tree.loads[parent]:
            return True
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        node = parent
    return name in tree.shared


def _following(parent: ast.AST, node: ast.AST) -> list[ast.stmt]:
    """The statements that may run after `node` within `parent`."""
    blocks = [getattr(parent, field, []) for field in ("body", "orelse", "finalbody")]
    after: list[ast.stmt] = []
    for block in blocks:
        if isinstance(block, list) and node in block:
            after += block[block.index(node) + 1 :]
        elif isinstance(parent, ast.Try):
            after += block
    if isinstance(parent, ast.Try):
        after += [statement for handler in parent.handlers for statement in handler.body]
    return after
