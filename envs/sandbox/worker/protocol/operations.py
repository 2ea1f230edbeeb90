"""Operations on values and objects that evaluator and program agree on."""

from __future__ import annotations

from collections import deque
from typing import Any

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
"""Operations on objects, named as in `operator`."""

CHANGES = 4
"""Number of kinds of change to a helper's results, see `changes`. They are the kinds 0 to 3 of a changed run."""

FIRST_RESULT, OTHER_RESULT, PLAIN_RESULT, FIRST_ARGUMENT, ALL_ARGUMENTS = range(4, 9)
"""Kinds of a changed run in which a trivial function replaces the helper.

It returns the result of the helper's first call, another constant of that type, a plain constant of that type
(0, 1, None, or what is empty), its first argument, or all arguments. Calls with a single argument are not counted
where it returns the first.
"""

IN_PLACE = 9
"""Kind of a changed run in which the helper replaces the entry point."""

# A tuple cannot change, but the containers in it can.
CONTAINERS = (list, tuple, dict, set, bytearray, deque)


def assign(old: Any, new: Any) -> None:
    """Give a container the content of another one of its type or base type, nested containers included.

    An array of numbers keeps its shape, or stays as it is.
    """
    if not isinstance(old, type(new)):
        return
    if isinstance(old, tuple):
        merge(old, new)
    elif isinstance(old, list):
        if len(old) == len(new):
            new = [*map(merge, old, new)]
        old[:] = new
    elif isinstance(old, bytearray):
        old[:] = new
    elif isinstance(old, dict):
        items = {key: merge(old[key], new[key]) if key in old else new[key] for key in new}
        old.clear()
        old.update(items)
    elif isinstance(old, set):
        old.clear()
        old.update(new)
    elif isinstance(old, deque):
        old.clear()
        old.extend(new)
    elif type(old).__name__ == "array":
        old[:] = new
    elif type(old).__name__ == "ndarray" and old.shape == new.shape:
        old[...] = new


def merge(old: Any, new: Any) -> Any:
    """Return a part of a container with its new content: the old object where it can change, else a new one."""
    if not isinstance(new, CONTAINERS) or not isinstance(old, type(new)):
        return new
    if not isinstance(old, tuple):
        assign(old, new)
        return old
    if len(old) != len(new):
        return new
    make = getattr(old, "_make", tuple)  # of a named tuple
    return make(map(merge, old, new))
