"""The slips of which `mutation` makes faults: for each kind, the edits that one node of a program allows."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from llm_decpomdp.envs.programs.positions import FUNCTIONS, Located, Place

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "//"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
"""Each operator, and what it is mistaken for."""

COMPARISONS: dict[type[ast.AST], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: (r"not\s+in", ("in",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: (r"is\s+not", ("is",)),
}

HAS_OPPOSITE = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
UNMISTAKEN = ("self", "cls", "_")

SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Continue, ast.Break, ast.Delete)
"""Statements that can be dropped."""

PRIMARY = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Constant)
"""Expressions that need no brackets beside an operator."""


class Edit(NamedTuple):
    """A piece of the text, in bytes, and what to put in its place."""

    start: int
    end: int
    text: str


Slips = Callable[[Located, Place], Iterator[Edit]]


def operator(text: Located, place: Place) -> Iterator[Edit]:
    """Another operator, or a lost minus sign."""
    node = place.node
    if isinstance(node, ast.BinOp):
        yield from _swap_operator(text, node.op, node.left, node.right)
    elif isinstance(node, ast.AugAssign):
        yield from _swap_operator(text, node.op, node.target, node.value)
    elif isinstance(node, ast.BoolOp):
        for left, right in pairwise(node.values):
            yield from _swap_operator(text, node.op, left, right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield Edit(text.start(node), text.start(node) + 1, "")


def _swap_operator(text: Located, kind: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Edit]:
    if type(kind) in OPERATORS:
        old, new = OPERATORS[type(kind)]
        yield from _between(text, re.escape(old), new, left, right)


def _between(
    text: Located, pattern: str, new: str, left: ast.expr, right: ast.expr
) -> Iterator[Edit]:
    """Replace what stands between two operands: brackets, an operator and perhaps comments."""
    start = text.end(left)
    gap = text.data[start : text.start(right)]
    gap = re.sub(rb"#[^\r\n]*", lambda comment: b" " * len(comment[0]), gap)
    if pattern[0].isalpha():
        pattern = rf"\b{pattern}\b"
    found = re.search(pattern.encode(), gap)
    if found:
        yield Edit(start + found.start(), start + found.end(), new)


def comparison(text: Located, place: Place) -> Iterator[Edit]:
    """Another comparison."""
    node = place.node
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for left, kind, right in zip(operands, node.ops, operands[1:], strict=False):
            old, others = COMPARISONS[type(kind)]
            for new in others:
                yield from _between(text, old, new, left, right)


def off_by_one(text: Located, place: Place) -> Iterator[Edit]:
    """A number that counts or bounds something, more or less by one."""
    node = place.node
    if _is_int(node) and _counts(place):
        assert isinstance(node, ast.Constant) and isinstance(node.value, int)
        for value in (node.value - 1, node.value + 1):
            if value >= 0:
                yield Edit(text.start(node), text.end(node), str(value))
    elif isinstance(node, ast.expr) and not isinstance(node, ast.UnaryOp) and _bounds(place):
        segment = text.segment(node)
        if not isinstance(node, PRIMARY):
            segment = f"({segment})"
        for sign in "-+":
            yield Edit(text.start(node), text.end(node), f"{segment} {sign} 1")


def _is_int(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _counts(place: Place) -> bool:
    """Whether a number is a bound, an index, or stands beside `+`, `-` or a comparison."""
    parent = place.parent
    if isinstance(parent, ast.UnaryOp):
        parent = place.above[1]
    if isinstance(parent, ast.BinOp | ast.AugAssign):
        return isinstance(parent.op, ast.Add | ast.Sub)
    return isinstance(parent, ast.Compare | ast.Slice) or _is_range(parent) or _is_index(place)


def _bounds(place: Place) -> bool:
    """Whether an expression bounds a range or a slice, or is an index."""
    return (
        (_is_range(place.parent) and place.field == "args")
        or (isinstance(place.parent, ast.Slice) and place.field != "step")
        or (_is_index(place) and isinstance(place.node, ast.Name | ast.BinOp))
    )


def _is_range(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "range"


def _is_index(place: Place) -> bool:
    near = place.above[isinstance(place.parent, ast.UnaryOp)]
    return isinstance(near, ast.Subscript) and (
        place.field == "slice" or (near is not place.parent and near.slice is place.parent)
    )


def wrong_variable(text: Located, place: Place) -> Iterator[Edit]:
    """The variable that an earlier statement was the last to bind for the first time, other than it."""
    node = place.node
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    inner = {
        name.id
        for around in place.above
        if isinstance(around, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        for generator in around.generators
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name)
    }
    if node.id not in (inner | {name for _, name in place.names}).difference(UNMISTAKEN):
        return
    statement = next(around for around in place.above if isinstance(around, ast.stmt))
    before = text.start(node) if isinstance(statement, FUNCTIONS) else text.start(statement)
    others = [
        name for at, name in place.names if at < before and name not in (node.id, "self", "_")
    ]
    if others:
        yield Edit(text.start(node), text.end(node), others[-1])


def dropped_statement(text: Located, place: Place) -> Iterator[Edit]:
    """A statement on lines of its own is gone; `pass` stands where nothing else would."""
    node = place.node
    guard = isinstance(node, ast.If) and not node.orelse
    if not isinstance(node, ast.stmt) or not (guard or isinstance(node, SIMPLE)):
        return
    block = getattr(place.parent, place.field)
    if guard and isinstance(place.parent, ast.If) and place.field == "orelse" and len(block) == 1:
        return  # `elif`, or the same written as a block
    if len(block) == 1:
        yield Edit(text.start(node), text.end(node), "pass")
        return
    assert node.end_lineno is not None
    first = text.lines[node.lineno - 1]
    last = text.lines[node.end_lineno] if node.end_lineno < len(text.lines) else len(text.data)
    rest = text.data[text.end(node) : last].strip()
    if not text.data[first : text.start(node)].strip() and (not rest or rest.startswith(b"#")):
        yield Edit(first, last, "")


def swapped_arguments(text: Located, place: Place) -> Iterator[Edit]:
    """Two neighbours among the positional arguments of a call."""
    node = place.node
    if not isinstance(node, ast.Call):
        return
    for one, two in pairwise(node.args):
        first, second = text.segment(one), text.segment(two)
        starred = isinstance(one, ast.Starred) or isinstance(two, ast.Starred)
        if not starred and first != second:
            gap = text.data[text.end(one) : text.start(two)].decode()
            yield Edit(text.start(one), text.end(two), f"{second}{gap}{first}")


def wrong_constant(text: Located, place: Place) -> Iterator[Edit]:
    """Another constant."""
    node = place.node
    if not isinstance(node, ast.Constant) or _is_default(place):
        return
    if isinstance(place.parent, ast.Expr) or (_is_int(node) and _counts(place)):
        return
    yield from _other_constant(text, node)


def wrong_default(text: Located, place: Place) -> Iterator[Edit]:
    """Another default of a parameter."""
    if _is_default(place) and isinstance(place.node, ast.Constant):
        yield from _other_constant(text, place.node)


def _is_default(place: Place) -> bool:
    return isinstance(place.parent, ast.arguments) and place.field in ("defaults", "kw_defaults")


def _other_constant(text: Located, node: ast.Constant) -> Iterator[Edit]:
    value = node.value
    other: object = None
    if isinstance(value, bool):
        other = not value
    elif isinstance(value, int):
        other = 0 if value == 1 else value + 1
    elif isinstance(value, float) and math.isfinite(value):
        other = value + 1.0
    elif isinstance(value, str):
        other = value.swapcase()
        if other == value:
            other = value + (value[-1:] or " ")
    if other is not None:
        yield Edit(text.start(node), text.end(node), repr(other))


def negated_condition(text: Located, place: Place) -> Iterator[Edit]:
    """The opposite of a condition."""
    node, parent = place.node, place.parent
    is_test = place.field == "test" and isinstance(parent, ast.If | ast.While | ast.IfExp)
    is_filter = place.field == "ifs" and isinstance(parent, ast.comprehension)
    if not isinstance(node, ast.expr) or not (is_test or is_filter):
        return
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        if isinstance(node.ops[0], HAS_OPPOSITE):
            return
    start, end = text.start(node), text.end(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        word = re.match(rb"not\s*", text.data[start:end])
        assert word is not None
        yield Edit(start, start + word.end(), "")
    elif isinstance(node, (*PRIMARY, ast.Compare)):
        yield Edit(start, start, "not ")
    else:
        yield Edit(start, end, f"not ({text.segment(node)})")


def missing_return(text: Located, place: Place) -> Iterator[Edit]:
    """A value is computed and not returned."""
    node = place.node
    if isinstance(node, ast.Return) and node.value is not None:
        word = re.match(rb"return[ \t]*", text.data[text.start(node) : text.end(node)])
        assert word is not None
        yield Edit(text.start(node), text.start(node) + word.end(), "")


SLIPS: dict[str, Slips] = {
    slips.__name__: slips
    for slips in (
        operator,
        comparison,
        off_by_one,
        wrong_variable,
        dropped_statement,
        swapped_arguments,
        wrong_constant,
        wrong_default,
        negated_condition,
        missing_return,
    )
}
"""The kinds of faults."""
