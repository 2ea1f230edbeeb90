"""Whether an expression is always true or always false, whatever runs before it.

Only what is plain to see is decided (literals and what operators make of them); a condition that hangs on a
variable may always go both ways.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

_EMPTY_CALLS = {"list", "tuple", "set", "dict", "frozenset", "str", "bytes", "int", "float", "bool"}
"""Types that give something false when they are called with nothing."""

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.USub: lambda _, value: -value,
    ast.UAdd: lambda _, value: +value,
    ast.Not: lambda _, value: not value,
}

_MAX_NUMBER = 10**6
"""Arithmetic on larger constants is not done."""

_UNKNOWN = object()


def truth(test: ast.expr) -> bool | None:
    """Whether an expression is always true or always false; None where it may be either."""
    if isinstance(test, ast.BoolOp):
        parts = [truth(value) for value in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = truth(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.IfExp):
        body, orelse = truth(test.body), truth(test.orelse)
        return body if body == orelse else None
    if isinstance(test, ast.NamedExpr):
        return truth(test.value)
    if isinstance(test, ast.Tuple | ast.List | ast.Set):
        if all(isinstance(element, ast.Starred) for element in test.elts):
            return None if test.elts else False
        return True
    if isinstance(test, ast.Dict):
        return bool(test.keys) if None not in test.keys else None
    if isinstance(test, ast.Lambda):
        return True
    if isinstance(test, ast.Name | ast.Attribute):
        return _truth_of_name(test)
    if isinstance(test, ast.Call):
        return _truth_of_call(test)
    if _compares_alike(test):
        return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is)
    value = _value(test)
    return None if value is _UNKNOWN else bool(value)


def _truth_of_name(test: ast.Name | ast.Attribute) -> bool | None:
    name = test.id if isinstance(test, ast.Name) else test.attr
    return {"TYPE_CHECKING": False, "__debug__": True}.get(name)


def _truth_of_call(call: ast.Call) -> bool | None:
    if not isinstance(call.func, ast.Name) or call.keywords:
        return None
    if call.func.id in _EMPTY_CALLS and not call.args:
        return False
    if call.func.id == "bool" and len(call.args) == 1:
        return truth(call.args[0])
    if call.func.id == "range":
        values = [_value(argument) for argument in call.args]
        whole = all(isinstance(value, int) for value in values)
        if whole and 1 <= len(values) <= 3 and 0 not in values[2:]:
            return bool(range(*values))
    return None


def _compares_alike(test: ast.expr) -> bool:
    """Whether `test` is `x is x`, `x is not x`, `x < x` or `x > x`; the other comparisons tell NaN apart."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.Is | ast.IsNot | ast.Lt | ast.Gt)
        and same(test.left, test.comparators[0])
    )


def _value(node: ast.expr) -> Any:
    """What an expression of constants gives, or `_UNKNOWN`."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        values = tuple(_value(element) for element in node.elts)
        return _UNKNOWN if _UNKNOWN in values else values
    if isinstance(node, ast.UnaryOp):
        return _apply(type(node.op), None, _value(node.operand))
    if isinstance(node, ast.BinOp):
        return _apply(type(node.op), _value(node.left), _value(node.right))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        if isinstance(node.left, ast.Name) and node.left.id == "__name__":
            return _apply(type(node.ops[0]), "", _value(node.comparators[0]))
        return _apply(type(node.ops[0]), _value(node.left), _value(node.comparators[0]))
    return _UNKNOWN


def _apply(kind: type, left: Any, right: Any) -> Any:
    if _UNKNOWN in (left, right) or kind not in _OPERATORS:
        return _UNKNOWN
    arithmetic = issubclass(kind, ast.operator)
    if arithmetic and not all(
        isinstance(value, int | float) and abs(value) < _MAX_NUMBER for value in (left, right)
    ):
        return _UNKNOWN
    try:
        return _OPERATORS[kind](left, right)
    except (TypeError, ZeroDivisionError):
        return _UNKNOWN


def same(left: ast.AST, right: ast.AST) -> bool:
    """Whether two pieces of code read the same."""
    return type(left) is type(right) and ast.dump(left) == ast.dump(right)


def makes_no_difference(node: ast.AST, parent: ast.expr, around: ast.AST) -> bool:
    """Whether an expression gives the same whatever this part of it is, in the plain forms only.

    Args:
        node: A part of `parent`, which is itself a part of `around`.
    """
    if isinstance(parent, ast.Tuple | ast.List | ast.Dict):
        return _is_left_out(node, parent, around)
    if isinstance(parent, ast.BinOp):
        if isinstance(parent.op, ast.Sub | ast.BitXor | ast.Div | ast.FloorDiv | ast.Mod):
            return same(parent.left, parent.right)
        if isinstance(parent.op, ast.Pow):
            return node is parent.left and is_zero(parent.right)
        other = parent.right if node is parent.left else parent.left
        return isinstance(parent.op, ast.Mult | ast.BitAnd) and is_zero(other)
    if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Slice):
        upper = parent.slice.upper
        return node is parent.value and upper is not None and is_zero(upper)
    if isinstance(parent, ast.Compare):
        return len(parent.comparators) == 1 and same(parent.left, parent.comparators[0])
    if isinstance(parent, ast.BoolOp) and node is not parent.values[-1]:
        return isinstance(node, ast.expr) and truth(node) is not None
    if isinstance(parent, ast.IfExp) and node is parent.test:
        return truth(parent.test) is not None or same(parent.body, parent.orelse)
    if isinstance(parent, ast.IfExp):
        return truth(parent.test) is (node is parent.orelse)
    return False


def is_zero(node: ast.expr) -> bool:
    """Whether an expression of constants gives zero."""
    return bool(_value(node) == 0)


def _is_left_out(node: ast.AST, display: ast.Tuple | ast.List | ast.Dict, taker: ast.AST) -> bool:
    """Whether `display[index]`, with a constant index, takes another element."""
    if not (isinstance(taker, ast.Subscript) and taker.value is display):
        return False
    index = _value(taker.slice)
    if isinstance(display, ast.Dict):
        return index is not _UNKNOWN and _is_other_item(node, display, index)
    starred = any(isinstance(element, ast.Starred) for element in display.elts)
    if starred or not isinstance(index, int):
        return False
    return node is not display.elts[index % len(display.elts)]


def _is_other_item(node: ast.AST, display: ast.Dict, index: Any) -> bool:
    """Whether a value of a dict stands under another key, or is replaced by a later one."""
    if not isinstance(node, ast.expr) or node not in display.values:
        return False
    place = display.values.index(node)
    own, *later = display.keys[place:]
    key = _UNKNOWN if own is None else _value(own)
    if key is _UNKNOWN or key != index:
        return key is not _UNKNOWN
    return any(other is not None and _value(other) == index for other in later)
