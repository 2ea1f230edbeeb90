"""How the entry function uses its team-mate's helper: whether it calls it, ignores it, or only wraps it.

All questions are answered on the AST of the main agent's code. Code that can never run (after a `return`,
under `if False`) does not count, and a helper that the main agent's code defines itself is not the
team-mate's.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from dataclasses import dataclass

from llm_decpomdp.envs.code import FunctionNode, find_function, parsed
from llm_decpomdp.envs.dataflow import Tree, lost

_CALLERS = {"map", "filter", "sorted", "min", "max", "reduce", "starmap", "accumulate", "groupby"}
"""Functions, and `list.sort`, that call a function given to them."""


MAX_ROUNDS = 20
"""Bound on looking for nested functions that nothing calls."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class HelperUse:
    """How a function uses a helper."""

    called: bool
    """The helper is called, or handed to something that calls it."""
    ignored: bool
    """It is called, but no call's result is ever used."""
    wrapper: bool
    """The function does nothing but return the helper's result."""
    reasons: tuple[str, ...] = ()
    """For each call whose result is lost: "Line N: why"."""


def helper_use(code: str, function: str, helper: str = "aux") -> HelperUse:
    """How `function`, defined in `code`, uses `helper`, which is defined elsewhere.

    Functions of `code` that `function` mentions count as parts of it. Code nested too deeply to be looked
    through uses nothing.
    """
    try:
        return _helper_use(code, function, helper)
    except RecursionError:
        return HelperUse(False, False, False)


def _helper_use(code: str, function: str, helper: str) -> HelperUse:
    module, node = parsed(code), find_function(code, function)
    if module is None or node is None or _binds(module, helper):
        return HelperUse(False, False, False)
    functions, values = _reachable(module, node)
    uses = [(value.lineno, "") for value in values if _mentions(value, helper)]
    for part in functions:
        if not _binds(part, helper):
            uses += _uses(_pruned(part), helper)
    reasons = tuple(f"Line {line}: {why}" for line, why in uses if why)
    if not uses:
        return HelperUse(False, False, False)
    wrapper = _is_wrapper(code, _pruned(node), {helper: True, function: False})
    return HelperUse(True, len(reasons) == len(uses), wrapper, reasons)


# Which code counts


def _binds(tree: ast.AST, name: str) -> bool:
    """Whether a module (outside its functions) or a function gives `name` a meaning of its own."""
    inside_functions = not isinstance(tree, ast.Module)
    pending = [tree] if inside_functions else list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        if node is not tree and getattr(node, "name", None) == name:  # def, class, except ... as
            return True
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.arg) and node.arg == name:
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) == name:
            return True
        nested = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if inside_functions or not nested:
            pending.extend(ast.iter_child_nodes(node))
    return False


def _reachable(
    module: ast.Module, function: FunctionNode
) -> tuple[list[FunctionNode], list[ast.stmt]]:
    """What a function mentions at the module's top level, directly or through others.

    Returns:
        The function itself, other functions and the methods of classes; and the assignments.
    """
    bound = _top_level(module)
    functions: list[FunctionNode] = [function]
    values: list[ast.stmt] = []
    seen: set[str] = set()
    pending: list[ast.AST] = [_pruned(function)]
    while pending:
        for name in {n.id for n in ast.walk(pending.pop()) if isinstance(n, ast.Name)} - seen:
            seen.add(name)
            other = bound.get(name)
            if other is None or other is function:
                continue
            pending.append(other)
            if isinstance(other, ast.ClassDef):
                methods = [n for n in other.body if isinstance(n, _DEFINITIONS)]
                functions += methods
            elif isinstance(other, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(other)
            elif isinstance(other, ast.Assign) and isinstance(other.value, ast.Lambda):
                if other.value is not function:
                    functions.append(other.value)
            else:
                values.append(other)
    return functions, values


def _top_level(module: ast.Module) -> dict[str, ast.stmt]:
    """The statement that last gives each top-level name its meaning."""
    bound: dict[str, ast.stmt] = {}
    for statement in module.body:
        if isinstance(statement, (*_DEFINITIONS, ast.ClassDef)):
            bound[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    bound[target.id] = statement
    return bound


def _mentions(tree: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


class _Pruner(ast.NodeTransformer):
    """Removes statements that can never run."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        return node

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant) and not node.test.value:
            return node.orelse
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                for index, statement in enumerate(block):
                    if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
                        del block[index + 1 :]
                        break
        return super().generic_visit(node)


def _pruned(function: FunctionNode) -> FunctionNode:
    """A copy of the function without statements that can never run."""
    clone: FunctionNode = copy.deepcopy(function)
    _Pruner().visit(clone)
    for _ in range(MAX_ROUNDS):  # what only a removed function called is unused too
        remover = _UnusedFunctions(clone)
        remover.visit(clone)
        if not remover.removed:
            break
    return clone


class _UnusedFunctions(ast.NodeTransformer):
    """Removes nested functions whose names nothing outside them reads."""

    def __init__(self, root: FunctionNode) -> None:
        self.root = root
        self.reads = _reads(root)
        self.removed = False

    def visit(self, node: ast.AST) -> ast.AST | None:
        if node is not self.root and not getattr(node, "decorator_list", None):
            if isinstance(node, _DEFINITIONS):
                names = {node.name}
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.ClassDef):
                return node
            else:
                names = set()
            inside = _reads(node) if names else Counter()
            if names and all(self.reads[name] == inside[name] for name in names):
                self.removed = True
                return None
        return self.generic_visit(node)


def _reads(tree: ast.AST) -> Counter[str]:
    """How often each name is read."""
    return Counter(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )


# What becomes of each call


def _uses(function: FunctionNode, helper: str) -> list[tuple[int, str]]:
    """For each use of the helper its line, and why its result is lost ("" where it is used)."""
    tree = Tree.of(function)
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == helper:
            call = _calling(node, tree)
            if call is not None:
                found.append((node.lineno, lost(call, tree)))
    return sorted(found)


def _calling(name: ast.Name, tree: Tree) -> ast.expr | None:
    """The expression whose value comes from calling what `name` means; None if nothing calls it."""
    parent = tree.parents[name]
    if isinstance(parent, ast.Call) and parent.func is name:
        return parent
    if isinstance(parent, ast.keyword):
        parent = tree.parents[parent]
    if isinstance(parent, ast.Call):
        caller = parent.func.attr if isinstance(parent.func, ast.Attribute) else None
        caller = parent.func.id if isinstance(parent.func, ast.Name) else caller
        return parent if caller in _CALLERS or caller == "sort" else None
    if isinstance(parent, ast.Assign) and parent.value is name:
        aliases = {target.id for target in parent.targets if isinstance(target, ast.Name)}
        for node in ast.walk(tree.root):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in aliases:
                    return node
    return None


# Whether there is anything beside the call


def _is_wrapper(code: str, function: FunctionNode, known: dict[str, bool]) -> bool:
    """Whether the function returns a helper's result unchanged and does nothing else.

    A function of the same code that is itself such a wrapper counts as the helper; `known` remembers which
    functions are.
    """
    if isinstance(function, ast.Lambda):
        return _passes_on(code, function.body, set(), known)
    results: set[str] = set()
    for statement in function.body:
        if _is_padding(statement):
            continue
        if isinstance(statement, ast.Return):
            value = statement.value
            return value is not None and _passes_on(code, value, results, known)
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            return False
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if not all(isinstance(target, ast.Name) for target in targets):
            return False
        if not _passes_on(code, statement.value, results, known):
            return False
        results |= {target.id for target in targets if isinstance(target, ast.Name)}
    return True


def _passes_on(code: str, value: ast.expr, results: set[str], known: dict[str, bool]) -> bool:
    """Whether an expression is a helper's result, unchanged."""
    if isinstance(value, ast.Await):
        value = value.value
    if isinstance(value, ast.Name):
        return value.id in results
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
        return False
    name = value.func.id
    if name not in known:
        known[name] = (
            False  # while it is looked into: a function that only calls itself is no wrapper
        )
        other = find_function(code, name)
        known[name] = other is not None and _is_wrapper(code, _pruned(other), known)
    return known[name]


def _is_padding(statement: ast.stmt) -> bool:
    """Statements that do nothing: docstrings, constants, `pass`, imports."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass | ast.Import | ast.ImportFrom | ast.Global)
