"""Mutants of a program: single faults in its text, such as its author might have made by mistake.

Only the changed piece of the text is replaced, so comments and layout stay. Nothing is run: tests must show
whether a mutant behaves differently, and whether it ends.

| kind                | what is changed                                                             |
|---------------------|-----------------------------------------------------------------------------|
| `operator`          | `+` for `-`, `and` for `or`, a lost minus sign                              |
| `comparison`        | `<` for `<=`, `==` for `!=`, `in` for `not in`                              |
| `off_by_one`        | a bound, an index or a number next to `+`, `-` or a comparison, by one      |
| `wrong_variable`    | a variable read in place of the one that was bound before it                |
| `dropped_statement` | a statement, or an `if` without `else`, is gone                             |
| `swapped_arguments` | two neighbours among a call's positional arguments                          |
| `wrong_constant`    | any other number, text or truth value                                       |
| `wrong_default`     | the default of a parameter                                                  |
| `negated_condition` | a condition that is no single `==`, `in` or `is`, which `comparison` covers |
| `missing_return`    | the value is computed and not returned                                      |
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from llm_decpomdp.envs.source_code.located_source import LocatedSource, Location
from llm_decpomdp.envs.source_code.parsing import FUNCTIONS, parse

OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "//"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.MatMult: ("@",),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Lt: ("<", "<=", ">"),
    ast.LtE: ("<=", "<", ">="),
    ast.Gt: (">", ">=", "<"),
    ast.GtE: (">=", ">", "<="),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
"""Text of each operator, and of its replacements."""

# Their negation is a mutation of kind `comparison` already.
HAS_OPPOSITE = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
# Names that no author confuses with others.
UNMISTAKEN = ("self", "cls", "_")

SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Continue, ast.Break, ast.Delete)
"""Statements that can be dropped."""

PRIMARY = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Constant)
"""Expressions that need no brackets next to an operator."""


class Edit(NamedTuple):
    """A piece of the text, in bytes, and its replacement."""

    start: int
    end: int
    text: str


MutationOperator = Callable[[LocatedSource, Location], Iterator[Edit]]


def operator(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Replace an operator, or drop a minus sign."""
    node = location.node
    if isinstance(node, ast.BinOp):
        yield from _swap_operator(text, node.op, node.left, node.right)
    elif isinstance(node, ast.AugAssign):
        yield from _swap_operator(text, node.op, node.target, node.value)
    elif isinstance(node, ast.BoolOp):
        for left, right in pairwise(node.values):
            yield from _swap_operator(text, node.op, left, right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield Edit(text.start(node), text.start(node) + 1, "")


def _swap_operator(
    text: LocatedSource, kind: ast.AST, left: ast.expr, right: ast.expr
) -> Iterator[Edit]:
    """Replace an operator between two operands, amid brackets and comments."""
    old, *replacements = OPERATORS[type(kind)]
    pattern = r"\s+".join(map(re.escape, old.split()))
    if old[0].isalpha():
        pattern = rf"\b{pattern}\b"
    start = text.end(left)
    gap = text.data[start : text.start(right)]
    # An operator in a comment between the operands is none. The length stays.
    gap = re.sub(rb"#[^\r\n]*", lambda comment: b" " * len(comment[0]), gap)
    if match := re.search(pattern.encode(), gap):
        for new in replacements:
            yield Edit(start + match.start(), start + match.end(), new)


def comparison(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Replace a comparison."""
    node = location.node
    if isinstance(node, ast.Compare):
        operands = pairwise([node.left, *node.comparators])
        for kind, (left, right) in zip(node.ops, operands, strict=True):
            yield from _swap_operator(text, kind, left, right)


def off_by_one(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Increment or decrement a number that is a count or a bound."""
    node = location.node
    if isinstance(node, ast.Constant) and type(node.value) is int and _counts(location):
        for value in (node.value - 1, node.value + 1):
            if value >= 0:
                yield Edit(text.start(node), text.end(node), str(value))
    elif isinstance(node, ast.expr) and not isinstance(node, ast.UnaryOp) and _bounds(location):
        segment = text.segment(node)
        if not isinstance(node, PRIMARY):
            segment = f"({segment})"
        for sign in "-+":
            yield Edit(text.start(node), text.end(node), f"{segment} {sign} 1")


def _counts(location: Location) -> bool:
    """Check whether a number is a bound, an index, or stands next to `+`, `-` or a comparison."""
    parent = location.parent
    if isinstance(parent, ast.UnaryOp):
        parent = location.above[1]
    if isinstance(parent, ast.BinOp | ast.AugAssign):
        return isinstance(parent.op, ast.Add | ast.Sub)
    return isinstance(parent, ast.Compare | ast.Slice) or _is_range(parent) or _is_index(location)


def _bounds(location: Location) -> bool:
    """Check whether an expression bounds a range or a slice, or is an index."""
    return (
        (_is_range(location.parent) and location.field == "args")
        or (isinstance(location.parent, ast.Slice) and location.field != "step")
        or (_is_index(location) and isinstance(location.node, ast.Name | ast.BinOp))
    )


def _is_range(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "range"


def _is_index(location: Location) -> bool:
    near = location.above[isinstance(location.parent, ast.UnaryOp)]
    return isinstance(near, ast.Subscript) and (
        location.field == "slice" or (near is not location.parent and near.slice is location.parent)
    )


def wrong_variable(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Replace a variable by another one, the last that an earlier statement binds for the first time."""
    node = location.node
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    inner = {
        name.id
        for ancestor in location.above
        if isinstance(ancestor, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        for generator in ancestor.generators
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name)
    }
    if node.id not in (inner | {name for _, name in location.names}).difference(UNMISTAKEN):
        return
    statement = next(ancestor for ancestor in location.above if isinstance(ancestor, ast.stmt))
    # A default value may use parameters before it; a statement, what earlier statements bind.
    before = text.start(node) if isinstance(statement, FUNCTIONS) else text.start(statement)
    candidates = [
        name for at, name in location.names if at < before and name not in (node.id, "self", "_")
    ]
    if candidates:
        yield Edit(text.start(node), text.end(node), candidates[-1])


def dropped_statement(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Drop a statement on lines of its own, or replace the only one of a block by `pass`."""
    node = location.node
    guard = isinstance(node, ast.If) and not node.orelse
    if not isinstance(node, ast.stmt) or not (guard or isinstance(node, SIMPLE)):
        return
    alone = len(getattr(location.parent, location.field)) == 1
    if guard and alone and isinstance(location.parent, ast.If) and location.field == "orelse":
        return  # `elif`, or the same written as a block
    if alone:
        yield Edit(text.start(node), text.end(node), "pass")
        return
    assert node.end_lineno is not None
    first = text.lines[node.lineno - 1]
    last = text.lines[node.end_lineno] if node.end_lineno < len(text.lines) else len(text.data)
    rest = text.data[text.end(node) : last].strip()
    if not text.data[first : text.start(node)].strip() and (not rest or rest.startswith(b"#")):
        yield Edit(first, last, "")


def swapped_arguments(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Swap two neighbours among the positional arguments of a call."""
    node = location.node
    if not isinstance(node, ast.Call):
        return
    for left, right in pairwise(node.args):
        first, second = text.segment(left), text.segment(right)
        starred = isinstance(left, ast.Starred) or isinstance(right, ast.Starred)
        if not starred and first != second:
            gap = text.data[text.end(left) : text.start(right)].decode()
            yield Edit(text.start(left), text.end(right), f"{second}{gap}{first}")


def wrong_constant(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Replace a constant that is no default, no docstring, and no count."""
    node = location.node
    if isinstance(node, ast.Constant) and not _is_default(location):
        count = type(node.value) is int and _counts(location)
        if not count and not isinstance(location.parent, ast.Expr):
            yield from _other_constant(text, node)


def wrong_default(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Replace the default of a parameter."""
    if _is_default(location) and isinstance(location.node, ast.Constant):
        yield from _other_constant(text, location.node)


def _is_default(location: Location) -> bool:
    defaults = location.field in ("defaults", "kw_defaults")
    return defaults and isinstance(location.parent, ast.arguments)


def _other_constant(text: LocatedSource, node: ast.Constant) -> Iterator[Edit]:
    value, new = node.value, None
    if isinstance(value, bool):
        new = repr(not value)
    elif isinstance(value, int):
        new = repr(0 if value == 1 else value + 1)
    elif isinstance(value, float) and math.isfinite(value):
        new = repr(value + 1.0)
    elif isinstance(value, str):
        swapped = value.swapcase()
        new = repr(swapped if swapped != value else value + (value[-1:] or " "))
    if new is not None:
        yield Edit(text.start(node), text.end(node), new)


def negated_condition(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Negate a condition."""
    node, parent = location.node, location.parent
    is_test = location.field == "test" and isinstance(parent, ast.If | ast.While | ast.IfExp)
    is_filter = location.field == "ifs" and isinstance(parent, ast.comprehension)
    if not isinstance(node, ast.expr) or not (is_test or is_filter):
        return
    if (
        isinstance(node, ast.Compare)
        and len(node.ops) == 1
        and isinstance(node.ops[0], HAS_OPPOSITE)
    ):
        return  # `comparison` has this mutation
    start, end = text.start(node), text.end(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        word = re.match(rb"not\s*", text.data[start:end])
        assert word is not None
        yield Edit(start, start + word.end(), "")
    elif isinstance(node, (*PRIMARY, ast.Compare)):
        yield Edit(start, start, "not ")
    else:
        yield Edit(start, end, f"not ({text.segment(node)})")


def missing_return(text: LocatedSource, location: Location) -> Iterator[Edit]:
    """Drop a `return`, and leave its value."""
    node = location.node
    if isinstance(node, ast.Return) and node.value is not None:
        word = re.match(rb"return[ \t]*", text.data[text.start(node) : text.end(node)])
        assert word is not None
        yield Edit(text.start(node), text.start(node) + word.end(), "")


MUTATION_OPERATORS: dict[str, MutationOperator] = {
    function.__name__: function
    for function in (
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
"""Mutation operators by the kind of fault."""

KINDS = tuple(MUTATION_OPERATORS)


@dataclass(frozen=True)
class Mutation:
    """A piece of a text and its replacement."""

    key: str
    """Name of the mutation within its program: kind, line and column, and a number from the second on."""
    kind: str
    line: int
    """First line of the piece, counted from 1."""
    start: int
    """Offset of the piece, in bytes of UTF-8."""
    end: int
    text: str
    """Replacement of the piece."""


@dataclass(frozen=True)
class Mutant:
    """A program with one fault."""

    kind: str
    line: int
    source: str
    key: str


def mutations(source: str) -> tuple[Mutation, ...]:
    """Return all mutations of the functions and methods of `source`, in the order of the text.

    Some may give a text that does not parse or is equivalent; `mutants` leaves these out.

    Raises:
        SyntaxError: If `source` does not parse.
    """
    text = LocatedSource.from_text(source)
    locations = list(text.locations)
    edits = [
        (edit.start, edit.end, number, edit.text, kind)
        for number, (kind, operator) in enumerate(MUTATION_OPERATORS.items())
        for location in locations
        for edit in operator(text, location)
    ]
    counts: dict[str, int] = {}
    result = []
    for start, end, _, replacement, kind in sorted(set(edits)):
        line, column = text.position(start)
        key = f"{kind}@{line}:{column}"
        counts[key] = counts.get(key, 0) + 1
        if counts[key] > 1:
            key += f"~{counts[key]}"
        result.append(Mutation(key, kind, line, start, end, replacement))
    return tuple(result)


def mutants(source: str) -> tuple[Mutant, ...]:
    """Return the programs with one fault each, in the order of the text, all different and all well-formed.

    Raises:
        SyntaxError: If `source` does not parse.
    """
    # Programs are equal if their trees are: layout and redundant brackets do not count.
    meanings = {ast.dump(parse(source))}
    result = []
    for mutation in mutations(source):
        mutant = mutate(source, [mutation])
        try:
            tree = parse(mutant)
            # It refuses what parses and cannot run, such as a `return` outside of functions. A program does not
            # inherit the future imports of this module.
            compile(tree, "<mutant>", "exec", dont_inherit=True)
        except SyntaxError:
            continue
        if (meaning := ast.dump(tree)) not in meanings:
            meanings.add(meaning)
            result.append(Mutant(mutation.kind, mutation.line, mutant, mutation.key))
    return tuple(result)


def mutate(source: str, faults: Iterable[Mutation]) -> str:
    """Put several faults into a program at once.

    Raises:
        ValueError: If two of them change the same piece.
    """
    data = source.encode()
    ordered = sorted(faults, key=lambda fault: fault.start)
    # The second change would be at a wrong place.
    if overlap(ordered):
        raise ValueError(f"{[fault.key for fault in ordered]} change the same piece of the text")
    for fault in reversed(ordered):
        data = data[: fault.start] + fault.text.encode() + data[fault.end :]
    return data.decode()


def overlap(faults: Sequence[Mutation]) -> bool:
    """Check whether any two mutations touch."""
    ordered = sorted(faults, key=lambda fault: fault.start)
    return any(left.end >= right.start for left, right in pairwise(ordered))
