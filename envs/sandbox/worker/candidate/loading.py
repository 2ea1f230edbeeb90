"""Load a program: capture its output, seed `random`, count its helpers' calls, and change their results.

Changed results are other values of the same type. A change depends on the result alone, so equal results change
equally. There are several kinds, as a program may be sensitive to one and not to another: `aux(a) > aux(b)` to no
constant added, `if aux(x)` to no other sign.

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
import io
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

from llm_decpomdp.envs.sandbox.worker.protocol import channel

# Methods of functions decorated with `functools.lru_cache`. Programs call these on their helpers;
# `functools.update_wrapper` does not copy them.
CACHE_METHODS = ("cache_clear", "cache_info", "cache_parameters")
RECURSION_LIMIT = sys.getrecursionlimit()

ENTRY_POINT = """
def make(helper):
    def {name}(*args, **kwargs):
        return helper(*args, **kwargs)
    return {name}
"""
"""Function that replaces the entry point by a helper. It has the entry point's name and file in a traceback."""

# Deeper parts are rare, and an object that refers to itself would never end.
MAX_DEPTH = 8  # nesting depth below which parts become None
INSTEAD_OF_NONE = (1, "~", [1], 1000)

Change = Callable[[Any], Any]


class Output(io.RawIOBase):
    """Stream that keeps the beginning of a program's output."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.room = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Keep as much of `data` as there is room for."""
        size = len(data)
        if self.room > 0:
            self.data += bytes(data[: self.room])
            self.room -= size
        return size

    def take(self) -> str:
        """Return the output since the last call."""
        text = self.data.decode("utf-8", "replace") if self.data else ""
        self.data.clear()
        return text


class SeededRandom:
    """Finder of the `random` module, which it seeds as soon as it is loaded.

    Preloading it would cost every program three shared libraries, and few programs need it.
    """

    def __init__(self) -> None:
        self.seed = 0

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the spec of `random`; None for all other modules."""
        if name != "random":
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_seed(module: ModuleType) -> None:
                load(module)
                module.seed(self.seed)

            spec.loader.exec_module = load_and_seed  # type: ignore[method-assign]
        return spec


OUTPUT = Output()
RANDOM = SeededRandom()


def load(request: dict[str, Any], helper_calls: list[int]) -> tuple[dict[str, Any], Any]:
    """Run the parts of a program, and return its namespace and its entry point.

    Args:
        request: `segments` (author and code of each part), `entry_point`, `helpers` (author and name), and
            `change`: empty, or a helper and the kind of the changed run, see `channel`.
        helper_calls: Calls of each helper so far, which the program's own calls add to.
    """
    changed_helper, kind = request["change"] or (-1, -1)
    entry_point: Any = None
    module = type(sys)("__program__")
    # Dataclasses and pickle look their class's module up, and `timeit` takes names from the main one.
    sys.modules[module.__name__] = sys.modules["__main__"] = module
    program = module.__dict__
    helpers = request["helpers"]
    # Helpers that call themselves take two frames for each call.
    sys.setrecursionlimit(RECURSION_LIMIT * (2 if helpers else 1))
    for origin, code in request["segments"]:
        exec(_compile(code, f"<{origin}>"), program)
        for index, (author, name) in enumerate(helpers):
            if author != origin or not callable(program.get(name)):
                continue
            # Code that does not name it was passed it, as in `aux_1(map(aux_0, xs))`.
            naming = {o for o, text in request["segments"] if name in text}
            exempt = {f"<{o}>" for o, _ in helpers if o in naming}
            helper = call = program[name]
            if index == changed_helper and kind != channel.IN_PLACE:
                call = _change_results(helper, kind)
            single = 0 if index == changed_helper and kind == channel.FIRST_ARGUMENT else 1
            program[name] = _count_calls(helper_calls, index, helper, exempt, call, single)
            if index == changed_helper and kind == channel.IN_PLACE:
                entry_point = program[name]
    if entry_point is not None:
        scope: dict[str, Any] = {}
        source = ENTRY_POINT.format(name=request["entry_point"])
        exec(compile(source, f"<{request['segments'][-1][0]}>", "exec"), program, scope)
        return program, scope["make"](entry_point)
    return program, program[request["entry_point"]]


# A changed run loads the same code again in the same process.
@functools.lru_cache
def _compile(code: str, name: str) -> CodeType:
    return compile(code, name, "exec", dont_inherit=True)


def _count_calls(
    helper_calls: list[int],
    index: int,
    helper: Callable[..., Any],
    exempt: set[str],
    call: Callable[..., Any],
    single: int,
) -> Callable[..., Any]:
    """Wrap a helper: its calls are counted and made to `call`. A call with one argument counts as `single` calls.

    Calls from `exempt` code, its own and that of other helpers, are neither counted nor changed. All code after
    its own sees the wrapper.
    """

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if sys._getframe(1).f_code.co_filename in exempt:
            return helper(*args, **kwargs)
        helper_calls[index] += 1 if len(args) + len(kwargs) > 1 else single
        return call(*args, **kwargs)

    for name in CACHE_METHODS:
        if hasattr(helper, name):
            setattr(wrapper, name, getattr(helper, name))
    return functools.update_wrapper(wrapper, helper)


def _change_results(helper: Callable[..., Any], kind: int) -> Callable[..., Any]:
    """Return a helper with changed results, or the trivial function that replaces it; see `channel`."""

    def changed(*args: Any, **kwargs: Any) -> Any:
        try:
            result = helper(*args, **kwargs)
        except Exception:
            result = None  # an exception counts as a result, and is changed into another one
        return change_value(result, kind)

    first: list[Any] = []

    def constant(*args: Any, **kwargs: Any) -> Any:
        # Computed anew in each call, from the arguments of the first one: the program may change what it gets.
        if not first:
            first.extend((args, kwargs))
        try:
            result = helper(*first[0], **first[1])
        except Exception:
            if kind == channel.FIRST_RESULT:
                raise
            result = None
        if kind == channel.FIRST_RESULT or (kind == channel.PLAIN_RESULT and _is_plain(result)):
            return result
        return change_value(result, 1)

    def argument(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        if kind != channel.FIRST_ARGUMENT:
            return values
        return values[0] if values else None

    if kind < channel.CHANGES:
        return changed
    return (
        constant
        if kind in (channel.FIRST_RESULT, channel.OTHER_RESULT, channel.PLAIN_RESULT)
        else argument
    )


def _is_plain(value: Any) -> bool:
    """Check whether a value is a constant that needs no thought: None, 0, 1, False, True, or empty."""
    try:
        return value is None or not value or bool(value == 1)
    except Exception:
        return False


def change_value(value: Any, kind: int, depth: int = 0) -> Any:
    """Return another value of the type of `value`, equal for equal values; `value` is not modified.

    Args:
        value: Any object.
        kind: Kind of change, from 0 to `channel.CHANGES` - 1.
        depth: Nesting depth of `value` in the result.
    """
    if value is None:
        return INSTEAD_OF_NONE[kind]
    if depth > MAX_DEPTH:
        return None
    try:
        part = functools.partial(change_value, kind=kind, depth=depth + 1)
        return _find_change(value)(value, kind, part)
    except Exception:
        return None  # an object of the program that cannot be copied like that


def _find_change(value: Any) -> Callable[[Any, int, Change], Any]:
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


def _bool(value: bool, kind: int, part: Change) -> bool:
    return not value


def _number(value: Any, kind: int, part: Change) -> Any:
    """Change a number, also a `Decimal`, a `Fraction`, or any other type with arithmetic."""
    new = type(value)(0 if kind == 1 else (-value - 1, 0, value + 1, value + 1000)[kind])
    # The number was a fixed point of the change, or is NaN.
    if new == value or new != new:
        new = type(value)(value == 0)
    return new


def _text(value: Any, kind: int, part: Change) -> Any:
    mark = "~" if isinstance(value, str) else b"~"
    new = (value[::-1] + mark, value[:0], mark + value, value + value)[kind]
    return type(value)(mark if new == value else new)


def _tuple(value: Any, kind: int, part: Change) -> Any:
    make = getattr(value, "_make", type(value))  # of a named tuple
    return make(map(part, value)) if value else (0,)


def _range(value: range, kind: int, part: Change) -> range:
    if kind == 1 or not value:
        return range(not value)
    start, stop, step = value.start, value.stop, value.step
    by = (1, 0, 0, 1000)[kind]
    return range(start + by, stop + (step if kind == 2 else by), step)


def _items(value: Any, kind: int, part: Change) -> Any:
    items = [*value]
    if kind in (0, 3):
        new = [*(items if kind == 3 else ()), *map(part, items)]
    else:
        new = items[:-1] if kind == 2 else []
    new = new if items else [0]
    if isinstance(value, frozenset):
        return type(value)(new)
    return _refill(value, "update" if isinstance(value, set) else "extend", new)


def _dict(value: Any, kind: int, part: Change) -> Any:
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


def _member(value: Any, kind: int, part: Change) -> Any:
    members = [*type(value).__members__.values()]
    return members[(members.index(value) + 1) % len(members)]


def _iterator(value: Any, kind: int, part: Change) -> Iterator[Any]:
    return (part(item) for item in value)


async def _awaitable(value: Awaitable[Any], kind: int, part: Change) -> Any:
    return part(await value)


def _function(value: Callable[..., Any], kind: int, part: Change) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return part(value(*args, **kwargs))

    return functools.update_wrapper(function, value)


def _object(value: Any, kind: int, part: Change) -> Any:
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    names = [*getattr(value, "__dict__", ()), *slots]
    new = object.__new__(type(value)) if names else None
    for name in names:
        if hasattr(value, name):
            object.__setattr__(new, name, part(getattr(value, name)))
    return new


BY_TYPE: tuple[tuple[Any, Callable[[Any, int, Change], Any]], ...] = (
    (bool, _bool),
    ((int, float, complex), _number),
    ((str, bytes, bytearray), _text),
    (tuple, _tuple),
    ((list, deque, set, frozenset), _items),
    (dict, _dict),
    (range, _range),
)
"""Functions that change values of some types, and of their subclasses."""
