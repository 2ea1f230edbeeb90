"""Lines of feedback about helpers, read from the code of the entry function's author.

Points are decided by running (`sandbox/worker/evaluator/helpers.py`).
"""

from __future__ import annotations

import ast

from llm_decpomdp.envs.source_code.completion import parsed

USED, IGNORED, NOT_CALLED, UNKNOWN = "used", "ignored", "not called", "unknown"
"""Uses of a helper when the program runs; unknown where no test passes."""


def names(code: str, helper: str) -> bool:
    """Check whether code has the name of a helper in it at all."""
    tree = parsed(code)
    return tree is not None and any(helper in _names(statement) for statement in tree.body)


def lost_results(code: str, helper: str) -> tuple[str, ...]:
    """Return each line on which a call's result is plainly lost: "Line N: why". Others may be lost too."""
    tree = parsed(code)
    nodes = [*ast.walk(tree)] if tree is not None else []
    read = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    lines = []
    for node in nodes:
        if not isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign) or not _is_call(
            node.value, helper
        ):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        stored = [name for target in targets if target is not None for name in _stored(target)]
        if isinstance(node, ast.Expr):
            lines.append((node.lineno, "the result is thrown away"))
        elif stored and read.isdisjoint(stored):
            lines.append((node.lineno, f"the result is assigned to {stored[0]} but never used"))
    return tuple(f"Line {line}: {reason}" for line, reason in sorted(lines))


def _is_call(value: ast.expr | None, helper: str) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == helper
    )


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _stored(target: ast.AST) -> list[str]:
    """Return the names that a target of an assignment binds; none where it is anything else."""
    parts = [part for part in ast.walk(target) if isinstance(part, ast.Name)]
    return [part.id for part in parts if isinstance(part.ctx, ast.Store)]
