"""How the entry function uses its team-mate's helper: whether it calls it, ignores it, or only wraps it.

All questions are answered on the AST of the main agent's code. Code that can never run (after a `return`,
under `if False`) does not count, and a helper that the main agent's code defines itself is not the
team-mate's.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

from llm_decpomdp.envs.code import FunctionNode, find_function

_CALLERS = {"map", "filter", "sorted", "min", "max", "reduce", "starmap", "accumulate", "groupby"}
"""Functions, and `list.sort`, that call a function given to them."""

_Parents = dict[ast.AST, ast.AST]


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
    node = find_function(code, function)
    if node is None or _binds(ast.parse(code), helper):
        return HelperUse(False, False, False)
    uses: list[tuple[int, str]] = []
    for part in _reachable(code, node):
        if not _binds(part, helper):
            uses += _uses(_pruned(part), helper)
    reasons = tuple(f"Line {line}: {why}" for line, why in uses if why)
    wrapper = _is_wrapper(code, _pruned(node), helper)
    return HelperUse(bool(uses), bool(uses) and len(reasons) == len(uses), wrapper, reasons)


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
    parents: _Parents = {
        child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)
    }
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == helper:
            call = _calling(node, parents, function)
            if call is not None:
                found.append((node.lineno, _lost(call, parents)))
    return sorted(found)


def _calling(name: ast.Name, parents: _Parents, function: FunctionNode) -> ast.expr | None:
    """The expression whose value comes from calling what `name` means; None if nothing calls it."""
    parent = parents[name]
    if isinstance(parent, ast.Call) and parent.func is name:
        return parent
    if isinstance(parent, ast.keyword):
        parent = parents[parent]
    if isinstance(parent, ast.Call):
        caller = parent.func.attr if isinstance(parent.func, ast.Attribute) else None
        caller = parent.func.id if isinstance(parent.func, ast.Name) else caller
        return parent if caller in _CALLERS or caller == "sort" else None
    if isinstance(parent, ast.Assign) and parent.value is name:
        aliases = {target.id for target in parent.targets if isinstance(target, ast.Name)}
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in aliases:
                    return node
    return None


def _lost(value: ast.AST, parents: _Parents) -> str:
    """Why nothing uses the value of an expression; "" where something does."""
    node, parent = value, parents.get(value)
    while isinstance(parent, ast.expr | ast.keyword | ast.comprehension):
        if isinstance(parent, ast.Call) and node is not parent.func:
            return ""
        if isinstance(parent, ast.Lambda | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return ""
        if isinstance(parent, ast.comprehension) or (
            isinstance(parent, ast.IfExp) and node is parent.test
        ):
            return ""
        node, parent = parent, parents.get(parent)
    if isinstance(parent, ast.Expr):
        return "" if isinstance(node, ast.Call) and _is_sort(node) else "the result is thrown away"
    if isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        names = [n.id for target in targets for n in _names(target)]
        if names and not any(_read_later(parent, name, parents) for name in names):
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


def _read_later(statement: ast.stmt, name: str, parents: _Parents) -> bool:
    """Whether a name that `statement` assigns may be read before it is assigned again."""
    node: ast.AST = statement
    while node in parents:
        parent = parents[node]
        for later in _following(parent, node):
            if _loads(later, name):
                return True
            if isinstance(later, ast.Assign | ast.AnnAssign) and _assigns(later, name):
                return False
        if isinstance(parent, ast.For | ast.AsyncFor | ast.While) and _loads(parent, name):
            return True
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return any(
                isinstance(n, ast.Global | ast.Nonlocal) and name in n.names
                for n in ast.walk(parent)
            )
        node = parent
    return False


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


def _loads(tree: ast.AST, name: str) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.AugAssign) and name in {n.id for n in _names(node.target)})
        for node in ast.walk(tree)
    )


def _assigns(statement: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return statement.value is not None and any(
        n.id == name for target in targets for n in _names(target)
    )


# Whether there is anything beside the call


def _is_wrapper(code: str, function: FunctionNode, helper: str, seen: tuple[str, ...] = ()) -> bool:
    """Whether the function returns a helper's result unchanged and does nothing else.

    A function of the same code that is itself such a wrapper counts as the helper.
    """
    if isinstance(function, ast.Lambda):
        return _passes_on(code, function.body, set(), helper, seen)
    results: set[str] = set()
    for statement in function.body:
        if _is_padding(statement):
            continue
        if isinstance(statement, ast.Return):
            value = statement.value
            return value is not None and _passes_on(code, value, results, helper, seen)
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            return False
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if not all(isinstance(target, ast.Name) for target in targets):
            return False
        if not _passes_on(code, statement.value, results, helper, seen):
            return False
        results |= {target.id for target in targets if isinstance(target, ast.Name)}
    return True


def _passes_on(
    code: str, value: ast.expr, results: set[str], helper: str, seen: tuple[str, ...]
) -> bool:
    """Whether an expression is a helper's result, unchanged."""
    if isinstance(value, ast.Await):
        value = value.value
    if isinstance(value, ast.Name):
        return value.id in results
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
        return False
    name = value.func.id
    if name == helper:
        return True
    if name in seen:
        return False
    other = find_function(code, name)
    return other is not None and _is_wrapper(code, _pruned(other), helper, (*seen, name))


def _is_padding(statement: ast.stmt) -> bool:
    """Statements that do nothing: docstrings, constants, `pass`, imports."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass | ast.Import | ast.ImportFrom | ast.Global)
