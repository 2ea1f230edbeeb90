"""Operations on values and objects that evaluator and program agree on."""

from __future__ import annotations

from collections import deque
from typing import Any

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
"""Operations on objects, named as in `operator`."""

CHANGES = 4
"""Number of kinds of change to a helper's results, see `changes`."""

CONTAINERS = (list, tuple, dict, set, bytearray, deque)


def assign(old: Any, new: Any) -> None:
    """Give a container the content of another one of its type or base type, nested containers included."""
    if not isinstance(old, type(new)):
        return
    if isinstance(old, list | tuple) and len(old) == len(new):
        for index, (inner_old, inner_new) in enumerate(zip(old, new, strict=True)):
            if isinstance(inner_new, CONTAINERS) and isinstance(inner_old, type(inner_new)):
                assign(inner_old, inner_new)
            elif isinstance(old, list):
                old[index] = inner_new
    elif isinstance(old, list | bytearray):
        old[:] = new
    elif isinstance(old, dict):
        containers = {key: value for key, value in old.items() if isinstance(value, CONTAINERS)}
        old.clear()
        for key, value in new.items():
            if key in containers and isinstance(containers[key], type(value)):
                assign(containers[key], value)
                old[key] = containers[key]
            else:
                old[key] = value
    elif isinstance(old, set):
        old.clear()
        old.update(new)
    elif isinstance(old, deque):
        old.clear()
        old.extend(new)
