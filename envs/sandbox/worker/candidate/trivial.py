"""Trivial functions: which of them turn one value of a program into another.

Values of a program may fail or take long where they are compared. So large values are not copied, and the callers
take a comparison that fails for one that holds.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

MAX_CONSTANTS = 16  # constants of a code that a step may use
MAX_ITEMS = 10_000  # items of a value that are copied or compared
MAX_DIGITS = 15
MAX_DEPTH = 8  # nesting depth of values that are compared

NUMBERS = (int, float, complex)
PLAIN = (*NUMBERS, str, bytes)

Step = Callable[[Any, Any], Any]
"""Operation on a value and a constant, which may be None."""

ARITHMETIC: tuple[Step, ...] = (
    operator.add,
    operator.sub,
    lambda a, b: b - a,
    lambda a, b: a * (b or None),  # all numbers times 0 are equal
    operator.floordiv,
    operator.truediv,
    operator.mod,
    operator.xor,
    lambda a, b: round(a, b if b is None or 0 <= b <= MAX_DIGITS else None),
)
OTHERS: tuple[Step, ...] = (
    operator.getitem,
    lambda a, b: a[b:],
    lambda a, b: a[:b],
    lambda a, b: b + a,
    lambda a, b: a + b,
    lambda a, b: b.join(a),
    lambda a, b: a.split(b),
    lambda a, b: a.strip(b),
    lambda a, b: a[:: b or -1],
    lambda a, b: a.lower(),
    lambda a, b: a.upper(),
)
"""Operations on texts and containers."""

# `repr` of tuples and lists, and JSON differ in these.
SIMPLER = str.maketrans("()'", '[]"', " ,")

Name = tuple[Any, ...]
"""Name of a trivial function."""


def constants(code: CodeType) -> list[Any]:
    """Return the numbers and texts in code, each once."""
    literals: list[Any] = []
    for value in code.co_consts:
        if isinstance(value, CodeType):
            literals += constants(value)
        elif isinstance(value, tuple):
            literals += [item for item in value if type(item) in PLAIN]
        elif value is None or type(value) in (bool, *PLAIN):
            literals.append(value)
    return list({(type(value), value): value for value in literals}.values())


def plain(value: Any, depth: int = 0) -> Any:
    """Copy a value: instances of subclasses become their builtin class, tuples become lists.

    So two copies compare by their content alone.
    """
    if depth > MAX_DEPTH or value is None or type(value) in PLAIN:
        return value
    if not depth and count(value) >= MAX_ITEMS:
        return value
    part = functools.partial(plain, depth=depth + 1)
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple):
        return [*map(part, value)]
    if isinstance(value, dict):
        return {key: part(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return set(value)
    kind: Any = next((kind for kind in PLAIN if isinstance(value, kind)), None)
    return value if kind is None else kind(value)


def is_same(value: Any, other: Any) -> bool:
    """Check whether two `plain` values are equal, or the first one is after a cast to the type of the other."""
    try:
        if bool in (type(value), type(other)):
            return value is other  # False stands for no 0; see `CHOICE`
        if value == other:
            return True
        if isinstance(other, set | dict) and isinstance(value, list | dict | set):
            return bool(type(other)(value) == other)
        if isinstance(value, str) and isinstance(other, list | dict | set):
            return [*value] == other or (value.translate(SIMPLER) == repr(other).translate(SIMPLER))
        if isinstance(other, list):
            if isinstance(value, set | dict | range):
                return [*value] == other
            return len(other) == 1 and bool(other[0] == value)
        if isinstance(other, str):
            texts = [str(value), *attempt("".join, value if isinstance(value, list) else [])]
            if isinstance(value, list | dict | set):
                return other in texts or texts[0].translate(SIMPLER) == other.translate(SIMPLER)
            return other in (texts[0], repr(value)) or texts[0] in (repr(other), f'"{other}"')
        if isinstance(value, str) and isinstance(other, int | float):
            return float(value) == other
        return type(other) is int and type(value) is float and int(value) == other
    except Exception:
        return False


def items(value: Any) -> list[Any]:
    """Return the items of a container, the values of a dict, the attributes of an object; none of other values."""
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, list | set | str | range):
        return [*value]
    return [*map(plain, getattr(value, "__dict__", {}).values())]


def steps(value: Any, expected: Any, values: Sequence[Any]) -> Iterator[Name]:
    """Yield the names of the operations with which a value becomes another one, after a cast if needed."""
    is_number = isinstance(value, NUMBERS)
    for constant in (None, 1, *values[:MAX_CONSTANTS]):
        if not is_number or constant is None or type(constant) in NUMBERS:
            for number, step in enumerate(ARITHMETIC if is_number else OTHERS):
                for result in attempt(step, value, constant):
                    if is_same(result, expected):
                        yield number, constant, cast(result, expected)
    if is_number and is_same(-value, expected):
        yield "-", cast(-value, expected)


def cast(value: Any, expected: Any) -> type | None:
    """Return the type to which a value is cast to be the `expected` one; None if they are equal."""
    return None if value == expected else type(expected)


def attempt(function: Callable[..., Any], *values: Any) -> Iterator[Any]:
    """Yield the result of a function, unless it raises."""
    try:
        yield plain(function(*values))
    except Exception:
        return


class Explanation:
    """The trivial functions that explain all values so far."""

    def __init__(self) -> None:
        self.names: set[Name] | None = None

    def explain(self, names: Iterable[Name]) -> bool:
        """Drop those that are not in `names`, and tell whether any is left."""
        self.names = {*names} if self.names is None else self.names.intersection(names)
        return bool(self.names)


def count(value: Any, most: int = MAX_ITEMS, depth: int = 0) -> int:
    """Return the number of items in a value of builtin containers, at least `most` if there are more."""
    kind = type(value)
    if kind not in (list, tuple, set, dict) or depth > MAX_DEPTH:
        return most if depth > MAX_DEPTH else 1
    if len(value) >= most:
        return most
    total = 1
    for item in value.values() if kind is dict else value:
        total += count(item, most - total, depth + 1) if total < most else 0
    return total


def copy(value: Any) -> Any:
    """Copy a value; objects other than builtin containers stay the same objects, and so do large ones."""
    return value if count(value) >= MAX_ITEMS else _copy(value)


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind in (list, tuple, set):
        return kind(map(_copy, value))
    return {key: _copy(item) for key, item in value.items()} if kind is dict else value
