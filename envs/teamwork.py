"""How the entry function uses its team-mate's helper: whether it calls it, ignores it, or only wraps it.

All questions are answered on the AST of the main agent's code. Code that can never run (after a `return`,
under `if False`) does not count, and a helper that the main agent's code defines itself is not the
team-mate's.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from llm_decpomdp.envs.code import FunctionNode, find_function, parsed
from llm_decpomdp.envs.dataflow import Tree, lost

_CALLERS = {"map", "filter", "sorted", "min", "max", "reduce", "starmap", "accumulate", "groupby"}
"""Functions, and `list.sort`, that call a function given to them."""


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
    uses: list[tuple[int, str]] = []
    for part in _reachable(code, node):
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


def _reachable(code: str, function: FunctionNode) -> list[FunctionNode]:
    """The function, and the functions of the same code that it mentions, directly or through others."""
    found = [function]
    for part in found:
        for node in ast.walk(_pruned(part)):
            if isinstance(node, ast.Name):
                other = find_function(code, node.id)
                if other is not None and other not in found:
                    found.append(other)
    return found


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
    return clone


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
