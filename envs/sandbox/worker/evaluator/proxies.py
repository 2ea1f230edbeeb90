"""Proxies of the program's functions, iterators and objects, which the tests work with.

An object of the program stays where it is. Here it equals only itself, whatever its `__eq__` would say; what is
read from it, and what its methods return, are values, which are compared here, or further objects.

A program that returns an object where a value is expected must neither learn that value nor decide about it. So an
object has no comparisons. It has only the arithmetic that the task's own text defines, which gives objects when
the other operand is a value, and of the methods that values have (`startswith`, `issubset`) only those of that
text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llm_decpomdp.envs.sandbox.worker.protocol.operations import ARITHMETIC

if TYPE_CHECKING:
    from llm_decpomdp.envs.sandbox.worker.evaluator.conversation import Conversation

    Reference = tuple[Conversation, int, int]
    """The conversation, the object's number, and the generation of its process."""

READ = ("__annotations__", "__qualname__")
"""Special attributes that may be read; `__dict__`, `__doc__` and `__name__` may too."""


def value_methods() -> frozenset[str]:
    """Return the names of the methods of values."""
    if not _VALUE_METHODS:
        from collections import deque
        from datetime import date, datetime, time, timedelta
        from decimal import Decimal
        from fractions import Fraction

        kinds: list[type] = [str, bytearray, int, complex, float, list, dict, set, range]
        kinds += [deque, date, datetime, time, timedelta, Decimal, Fraction]
        _VALUE_METHODS.update(name for kind in kinds for name in dir(kind))
    return frozenset(_VALUE_METHODS)


_VALUE_METHODS: set[str] = set()


class Exhausted(Exception):
    """An iterator has no more items."""


class Opaque:
    """An object without operations; it equals nothing but itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name} object>"


def attribute(reference: Reference, name: str) -> Any:
    """Return an attribute of an object of the program."""
    if name.startswith("__") and name.endswith("__") and name not in READ:
        raise AttributeError(name)
    value = reference[0].operate(reference, "get", name)
    if callable(value) and name in value_methods() and name not in reference[0].methods:
        raise AttributeError(f"only values have a method {name!r} here, not objects of the program")
    return value


class Object:
    """An object of the program."""

    __slots__ = ("__weakref__", "_name", "_reference")
    __hash__ = object.__hash__

    def __init__(self, reference: Reference, name: str) -> None:
        object.__setattr__(self, "_reference", reference)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        return attribute(self._reference, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("set", name, value)

    def __delattr__(self, name: str) -> None:
        self._ask("del", name)

    def _ask(self, operation: str, *args: Any) -> Any:
        return self._reference[0].operate(self._reference, operation, *args)

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
        self._ask("exit")  # its result cannot suppress the test's exceptions

    def __str__(self) -> Any:
        return self._ask("str")

    def __repr__(self) -> Any:
        # Only where a test may check it: else each failed comparison would request the text for its message.
        return (
            self._ask("repr")
            if "__repr__" in self._reference[0].methods
            else f"<{self._name} object>"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an object of the program cannot be copied")


def _operator(name: str, special: str) -> Callable[[Any, Any], Any]:
    def operate(self: Object, other: Any) -> Any:
        if special not in self._reference[0].methods:
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
        """Call the function, and return a value or a proxy."""
        conversation, handle, generation = self._reference
        return conversation.call(handle, generation, args, kwargs)

    def __in_place__(self, *args: Any, **kwargs: Any) -> None:
        """Call the function to change its arguments."""
        conversation, handle, generation = self._reference
        conversation.call(handle, generation, args, kwargs, in_place=True)


class Iterator(Object):
    """An iterator of the program; each item is fetched on demand."""

    __slots__ = ("_ended",)

    def __init__(self, reference: Reference, name: str) -> None:
        super().__init__(reference, name)
        object.__setattr__(self, "_ended", False)

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        conversation, handle, generation = self._reference
        try:
            return conversation.next(handle, generation)
        except Exhausted:
            object.__setattr__(self, "_ended", True)
            raise StopIteration from None
        except Exception:
            object.__setattr__(self, "_ended", True)
            raise


for _kind in (Function, Iterator):
    setattr(_kind, "__doc__", vars(Object)["__doc__"])  # noqa: B010 (a class's own one would hide it)


class Valued:
    """A value of a class of the program: its base value, with all other attributes read from the program."""

    _reference: Reference

    def __getattr__(self, name: str) -> Any:
        return attribute(self._reference, name)

    def __repr__(self) -> Any:
        if "__repr__" in self._reference[0].methods:  # see `Object`
            return self._reference[0].operate(self._reference, "repr")
        return super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        base = type(self).__mro__[2]
        return base, (base(self),)


VALUED: dict[type, type] = {
    base: type(base.__name__, (Valued, base), {"__module__": "builtins"})
    for base in (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
}
"""For each type of values, the type of values with a reference."""


def valued(value: Any, reference: Reference) -> Any:
    """Attach a reference to a value."""
    copy = VALUED[type(value)](value)
    copy._reference = reference
    return copy
