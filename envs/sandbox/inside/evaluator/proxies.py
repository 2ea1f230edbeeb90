"""What stands for functions, iterators and objects of the program on the side of the tests.

An object of the program stays where it is. Here it equals only itself, whatever its `__eq__` would say; what is
read from it, and what its methods return, are values, which are compared here, or further objects.

A program that returns an object where a value is expected must neither be told that value nor decide about it. So
an object has no comparisons, its arithmetic is only what the task's own text defines, which gives objects when the
other operand is a value, and of the methods that values have (`startswith`, `issubset`) only those of that text.
"""

from __future__ import annotations

from llm_decpomdp.envs.sandbox.inside.protocol.requests import ARITHMETIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from llm_decpomdp.envs.sandbox.inside.evaluator.conversation import Conversation

    Place = tuple[Conversation, int, int]
    """Whom to ask, the object's number, and the generation of its process."""

READ = ("__annotations__", "__qualname__")
"""Attributes of the interpreter's that may be read like others; `__dict__`, `__doc__` and `__name__` may too."""


def of_values() -> frozenset[str]:
    """The methods of values."""
    if not _OF_VALUES:
        from collections import deque
        from datetime import date, datetime, time, timedelta
        from decimal import Decimal
        from fractions import Fraction

        kinds: list[type] = [str, bytearray, int, complex, float, list, dict, set, range]
        kinds += [deque, date, datetime, time, timedelta, Decimal, Fraction]
        _OF_VALUES.update(name for kind in kinds for name in dir(kind))
    return frozenset(_OF_VALUES)


_OF_VALUES: set[str] = set()


class Ended(Exception):
    """An iterator has no more items."""


class Opaque:
    """An object of which nothing can be asked; it equals nothing but itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name} object>"


def attribute(place: Place, name: str) -> Any:
    """What the program has under a name of one of its objects."""
    if name.startswith("__") and name.endswith("__") and name not in READ:
        raise AttributeError(name)
    value = place[0].operate(place, "get", name)
    if callable(value) and name in of_values() and name not in place[0].own:
        raise AttributeError(f"only values have a method {name!r} here, not objects of the program")
    return value


class Object:
    """An object of the program."""

    __slots__ = ("__weakref__", "_name", "_place")
    __hash__ = object.__hash__

    def __init__(self, place: Place, name: str) -> None:
        object.__setattr__(self, "_place", place)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        return attribute(self._place, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("set", name, value)

    def __delattr__(self, name: str) -> None:
        self._ask("del", name)

    def _ask(self, operation: str, *args: Any) -> Any:
        return self._place[0].operate(self._place, operation, *args)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return self._ask("get", "__dict__")

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return self._ask("get", "__doc__")

    def __len__(self) -> Any:
        return self._ask("len")

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Any:
        return self._ask("iter")

    def __getitem__(self, key: Any) -> Any:
        return self._ask("getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._ask("setitem", key, value)

    def __delitem__(self, key: Any) -> None:
        self._ask("delitem", key)

    def __enter__(self) -> Any:
        return self._ask("enter")

    def __exit__(self, *error: object) -> None:
        self._ask("exit")  # which cannot make the test's exceptions undone

    def __str__(self) -> Any:
        return self._ask("str")

    def __repr__(self) -> Any:
        # Only where it can be what is tested: else each failed comparison would ask for the text of its message.
        return self._ask("repr") if "__repr__" in self._place[0].own else f"<{self._name} object>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an object of the program cannot be copied")


def _operator(name: str, special: str) -> Callable[[Any, Any], Any]:
    def operate(self: Object, other: Any) -> Any:
        if special not in self._place[0].own:
            return NotImplemented
        value = self._ask(name, other)
        if not isinstance(value, Object) and not isinstance(other, Object):
            raise TypeError(f"{special} of an object and a value that gives a value")
        return value

    return operate


for _name in ARITHMETIC:
    setattr(Object, f"__{_name}__", _operator(_name, f"__{_name}__"))


class Function(Object):
    """A function or class of the program."""

    __slots__ = ()

    @property
    def __name__(self) -> str:
        return str(self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        conversation, handle, generation = self._place
        return conversation.call(handle, generation, args, kwargs)

    def __in_place__(self, *args: Any, **kwargs: Any) -> None:
        """Call the function for what it does to its arguments."""
        conversation, handle, generation = self._place
        conversation.call(handle, generation, args, kwargs, in_place=True)


class Iterator(Object):
    """An iterator of the program; each item is fetched when it is needed."""

    __slots__ = ("_ended",)

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name)
        object.__setattr__(self, "_ended", False)

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        conversation, handle, generation = self._place
        try:
            return conversation.next(handle, generation)
        except Ended:
            object.__setattr__(self, "_ended", True)
            raise StopIteration from None
        except Exception:
            object.__setattr__(self, "_ended", True)
            raise


for _kind in (Function, Iterator):
    setattr(_kind, "__doc__", vars(Object)["__doc__"])  # noqa: B010 (a class's own one would hide it)


class Valued:
    """A value of a class of the program's: it is its base value, and what that lacks is read from the program."""

    _place: Place

    def __getattr__(self, name: str) -> Any:
        return attribute(self._place, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        base = type(self).__mro__[2]
        return base, (base(self),)


VALUED: dict[type, type] = {
    base: type(base.__name__, (Valued, base), {"__module__": "builtins"})
    for base in (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
}
"""For each class of values, that of such values with a place."""


def valued(value: Any, place: Place) -> Any:
    """A value that is read on at its place."""
    found = VALUED[type(value)](value)
    found._place = place
    return found
