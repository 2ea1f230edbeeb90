"""Mutation of results: other values of the same type, like the return-value mutators of mutation testing.

A mutation depends on the result alone, so equal results change equally. There are several kinds, as a program may
be sensitive to one and not to another: `aux(a) > aux(b)` to no constant added, `if aux(x)` to no other sign.

| type             | kind 0             | kind 1 | kind 2           | kind 3                   | if it is that |
|------------------|--------------------|--------|------------------|--------------------------|---------------|
| number           | -x - 1             | 0      | x + 1            | x + 1000                 | 1, or 0       |
| str, bytes       | reversed, then `~` | empty  | `~`, then itself | twice itself             | `~`           |
| list, set, deque | its items changed  | empty  | without the last | itself and items changed | an item, 0    |
| dict             | its values changed | empty  | without the last | its keys changed         | {0: 0}        |
| range            | one further        | empty  | one step longer  | 1000 further             | range(1)      |
| None             | 1                  | "~"    | [1]              | 1000                     |               |

All other types have one kind of change, and pass the kind on to their parts: a bool is negated, a member of an
enumeration gives way to the next, a tuple has each item changed (its length belongs to its type; an empty one
becomes `(0,)`), an iterator yields changed items, a coroutine and a function return changed results, an object is
copied with each attribute changed. All others, such as a compiled pattern, become None.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

# Deeper parts are rare, and an object that refers to itself would never end.
MAX_DEPTH = 8  # nesting depth below which parts become None
INSTEAD_OF_NONE = (1, "~", [1], 1000)

Mutator = Callable[[Any], Any]


def mutate_value(value: Any, kind: int, depth: int = 0) -> Any:
    """Return another value of the type of `value`, equal for equal values; `value` is not modified.

    `kind` is one of `channel.MUTATIONS`, `depth` the nesting depth of `value` in the result.
    """
    if value is None:
        return INSTEAD_OF_NONE[kind]
    if depth > MAX_DEPTH:
        return None
    try:
        part = functools.partial(mutate_value, kind=kind, depth=depth + 1)
        return _find_mutator(value)(value, kind, part)
    except Exception:
        return None  # an object of the program that cannot be copied like that


def _find_mutator(value: Any) -> Callable[[Any, int, Mutator], Any]:
    """Return the function that changes values of this type."""
    kind = type(value)
    if hasattr(kind, "__members__"):
        return _member
    for types, change in BY_TYPE:
        if isinstance(value, types):
            return change
    if hasattr(kind, "__next__"):
        return _iterator
    if hasattr(kind, "__await__"):
        return _awaitable
    if callable(value):
        return _function
    return _number if hasattr(kind, "__float__") else _object


def _bool(value: bool, kind: int, part: Mutator) -> bool:
    return not value


def _number(value: Any, kind: int, part: Mutator) -> Any:
    """Change a number, also a `Decimal`, a `Fraction`, or any other type with arithmetic."""
    new = type(value)(0 if kind == 1 else (-value - 1, 0, value + 1, value + 1000)[kind])
    # The number was a fixed point of the change, or is NaN.
    if new == value or new != new:
        new = type(value)(value == 0)
    return new


def _text(value: Any, kind: int, part: Mutator) -> Any:
    mark = "~" if isinstance(value, str) else b"~"
    new = (value[::-1] + mark, value[:0], mark + value, value + value)[kind]
    return type(value)(mark if new == value else new)


def _tuple(value: Any, kind: int, part: Mutator) -> Any:
    make = getattr(value, "_make", type(value))  # of a named tuple
    return make(map(part, value)) if value else (0,)


def _range(value: range, kind: int, part: Mutator) -> range:
    if kind == 1 or not value:
        return range(not value)
    start, stop, step = value.start, value.stop, value.step
    by = (1, 0, 0, 1000)[kind]
    return range(start + by, stop + (step if kind == 2 else by), step)


def _items(value: Any, kind: int, part: Mutator) -> Any:
    items = [*value]
    if kind in (0, 3):
        new = [*(items if kind == 3 else ()), *map(part, items)]
    else:
        new = items[:-1] if kind == 2 else []
    new = new if items else [0]
    if isinstance(value, frozenset):
        return type(value)(new)
    return _refill(value, "update" if isinstance(value, set) else "extend", new)


def _dict(value: Any, kind: int, part: Mutator) -> Any:
    items = [*value.items()]
    if kind == 0:
        items = [(key, part(item)) for key, item in items]
    elif kind == 3:
        items = [(part(key), item) for key, item in items]
    else:
        items = items[:-1] if kind == 2 else []
    return _refill(value, "update", dict(items if value else [(0, 0)]))


def _refill(value: Any, fill: str, items: Any) -> Any:
    """Copy a container with other items, keeping its class."""
    new = value.copy()
    new.clear()
    getattr(new, fill)(items)
    return new


def _member(value: Any, kind: int, part: Mutator) -> Any:
    members = [*type(value).__members__.values()]
    return members[(members.index(value) + 1) % len(members)]


def _iterator(value: Any, kind: int, part: Mutator) -> Iterator[Any]:
    return (part(item) for item in value)


async def _awaitable(value: Awaitable[Any], kind: int, part: Mutator) -> Any:
    return part(await value)


def _function(value: Callable[..., Any], kind: int, part: Mutator) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return part(value(*args, **kwargs))

    return functools.update_wrapper(function, value)


def _object(value: Any, kind: int, part: Mutator) -> Any:
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    names = [*getattr(value, "__dict__", ()), *slots]
    new = object.__new__(type(value)) if names else None
    for name in names:
        if hasattr(value, name):
            object.__setattr__(new, name, part(getattr(value, name)))
    return new


BY_TYPE: tuple[tuple[Any, Callable[[Any, int, Mutator], Any]], ...] = (
    (bool, _bool),
    ((int, float, complex), _number),
    ((str, bytes, bytearray), _text),
    (tuple, _tuple),
    ((list, deque, set, frozenset), _items),
    (dict, _dict),
    (range, _range),
)
"""Functions that change values of some types, and of their subclasses."""
