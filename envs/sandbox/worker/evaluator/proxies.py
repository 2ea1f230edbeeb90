"""Proxies of the program's functions, iterators and objects, which the tests work with.

An object of the program stays where it is. Here it equals only itself, whatever its `__eq__` would say; what is
read from it, and what its methods return, are values, which are compared here, or further objects.

A program that returns an object where a value is expected must neither learn that value nor decide about it. So an
object has no comparisons. It has only the arithmetic that the task's own text defines, which gives objects when
the other operand is a value, and of the methods that values have (`startswith`, `issubset`) only those of that
text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llm_decpomdp.envs.sandbox.worker.evaluator.reports import is_count
from llm_decpomdp.envs.sandbox.worker.protocol import codec
from llm_decpomdp.envs.sandbox.worker.protocol.channel import ARITHMETIC, assign

if TYPE_CHECKING:
    from llm_decpomdp.envs.sandbox.worker.evaluator.conversation import Conversation


# The conversation, the object's number (-1: the entry point), and the generation of its process.
Reference = tuple["Conversation", int, int]

# Special attributes that may be read; `__dict__`, `__doc__` and `__name__` may too. Other special attributes
# could be methods of the protocol of values, such as `__eq__`.
READ = ("__annotations__", "__qualname__")


@functools.cache
def value_methods() -> frozenset[str]:
    """Return the names of the methods of values."""
    # Few tests need these modules.
    from collections import deque
    from datetime import date, datetime, time, timedelta
    from decimal import Decimal
    from fractions import Fraction

    kinds: list[type] = [str, bytearray, int, complex, float, list, dict, set, range]
    kinds += [deque, date, datetime, time, timedelta, Decimal, Fraction]
    return frozenset(name for kind in kinds for name in dir(kind))


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

    # Not asked: a program must not decide `if candidate(x):` or `assert candidate(x)`.
    def __bool__(self) -> bool:
        return True

    def __exit__(self, *error: object) -> None:
        self._ask("exit")  # its result cannot suppress the test's exceptions

    def __repr__(self) -> Any:
        # Only where a test may check it: else each failed comparison would request the text for its message.
        if "__repr__" in self._reference[0].methods:
            return self._ask("repr")
        return f"<{self._name} object>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A copy would be equal to nothing.
        raise TypeError("an object of the program cannot be copied")


def _forward(name: str) -> Callable[..., Any]:
    return lambda self, *args: self._ask(name, *args)


# No comparisons, see above; arithmetic only as the task's text defines it.
for _name in ("len", "iter", "getitem", "setitem", "delitem", "enter", "str"):
    setattr(Object, f"__{_name}__", _forward(_name))


def _operator(name: str) -> Callable[[Any, Any], Any]:
    special = f"__{name}__"

    def operate(self: Object, other: Any) -> Any:
        if special not in self._reference[0].methods:
            return NotImplemented
        value = self._ask(name, other)
        if not isinstance(value, Object) and not isinstance(other, Object):
            raise TypeError(f"{special} of an object and a value that gives a value")
        return value

    return operate


for _name in ARITHMETIC:
    setattr(Object, f"__{_name}__", _operator(_name))


class Function(Object):
    """A function or class of the program."""

    __slots__ = ()

    @property
    def __name__(self) -> str:
        return str(self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and return a value or a proxy."""
        return self._reference[0].call(self._reference, args, kwargs)

    def __call_in_place__(self, *args: Any, **kwargs: Any) -> None:
        """Call the function to change its arguments."""
        self._reference[0].call(self._reference, args, kwargs, in_place=True)


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
        try:
            return self._reference[0].next(self._reference)
        except Exception as error:
            object.__setattr__(self, "_ended", True)
            if isinstance(error, Exhausted):
                raise StopIteration from None
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
        # Copies and pickles are plain values, without the reference.
        base = type(self).__mro__[2]
        return base, (base(self),)


VALUED: dict[type, type] = {
    base: type(base.__name__, (Valued, base), {"__module__": "builtins"})
    for base in (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
}
"""For each type of values, the type of values with a reference."""


# Class of an object's proxy, by the kind in its handle.
KINDS: dict[str, type[Object]] = {"object": Object, "function": Function, "iterator": Iterator}
# Each is encoded before each call to see whether the test has changed it.
MAX_SHARED = 1000  # maximum number of containers of the program's objects that a test may hold
# Immutable types: a value of a subclass in the program can be passed back as the same object.
FIXED = (int, float, complex, str, bytes, tuple, frozenset)


def refuse(value: Any, content: Any) -> Any:
    """Refuse values of a test that cannot be sent and have no base value, for `encode`."""
    if content is not None:
        return content
    raise TypeError(
        f"a {type(value).__name__} cannot be sent to the program; test it with split=False"
    )


class ProxyTable:
    """The objects of one conversation. Called, it encodes arguments, as the argument `other` of `encode`.

    Decoding a message creates objects, and changes the containers that the tests have read from them; it never
    calls the program.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.session = conversation.session
        self.function = Function((conversation, -1, 0), self.session.request["entry_point"])
        """Proxy of the entry point."""
        self.proxies: dict[tuple[int, int], Object] = {}
        """Proxy of an object, by generation and number."""
        self.shared: dict[tuple[int, int], tuple[Any, bytes]] = {}
        """Containers that the test has read from objects, and their content as last sent."""
        self.callbacks: list[Callable[..., Any]] = []
        self.callback_numbers: dict[int, int] = {}
        makers: dict[str, codec.Maker] = {
            "handle": (list, self._object),
            "value": (list, self._make_valued),
            "shared": (list, self._make_shared),
            "callback": (int, self._test_function),
        }
        self.decode = codec.Decoder(makers, codec.MAX_DECODED).decode

    def __call__(self, value: Any, content: Any) -> Any:
        """Encode a proxy as its handle, and a function or an iterator of the test as its number."""
        if isinstance(value, Object | Valued) and (content is None or isinstance(value, FIXED)):
            if self.conversation.can_pass(value._reference, required=content is None):
                return {"handle": value._reference[1]}
        if content is None and hasattr(type(value), "__next__") and not callable(value):
            number = self._number(value)
            self.callbacks[number] = value.__next__
            return {"items": number}
        if content is None and callable(value):
            return {"callback": self._number(value)}
        return refuse(value, content)

    def _number(self, value: Any) -> int:
        """Return the number of a function or an iterator of the test, which it keeps from now on."""
        number = self.callback_numbers.setdefault(id(value), len(self.callbacks))
        if number == len(self.callbacks):
            self.callbacks.append(value)
        return number

    def answer_callback(self, content: Any) -> Any:
        """Call a function of the test for the program, and encode the result."""
        if type(content) is not list or len(content) != 2:
            raise TypeError("not a call of a function of the test")
        args, kwargs = codec.decode_call(content[1])
        return codec.encode(self._test_function(content[0])(*args, **kwargs), self)

    def send_changes(self) -> None:
        """Send the program the content of those containers that the test has changed."""
        for (generation, number), (container, content) in self.shared.items():
            if content and generation == self.session.generation:
                data = self._pack(container)
                if data != content:
                    self.shared[generation, number] = container, data
                    self.session.send(("assign", data, number))

    def _pack(self, container: Any) -> bytes:
        """Encode a container as an argument; empty if it cannot be one."""
        try:
            return codec.pack_call([container], {}, self, plain=False)
        except (TypeError, codec.Unsendable, RecursionError):
            return b""

    # Decoders of the tagged contents of untrusted messages

    def _test_function(self, number: int) -> Any:
        if not is_count(number):
            raise TypeError("not a function of the test")
        return self.callbacks[number]

    def _object(self, content: list[Any]) -> Any:
        kind, number, name = content
        if type(number) is not int or type(name) is not str:
            raise TypeError("not a handle")
        if number < 0:
            return self.function if kind == "function" else Opaque(name)
        reference = (self.conversation, number, self.session.generation)
        self.conversation.holds_live_values |= kind != "object"
        if kind == "coroutine":
            return self.conversation.run_coroutine(reference)
        return self.proxies.setdefault(reference[1:], KINDS[kind](reference, name))

    def _make_valued(self, content: list[Any]) -> Any:
        number, value = content
        if not is_count(number) or type(value) not in VALUED:
            raise TypeError("not a value of a class of the program's")
        valued = VALUED[type(value)](value)
        valued._reference = (self.conversation, number, self.session.generation)
        return valued

    def _make_shared(self, content: list[Any]) -> Any:
        number, value = content
        if not is_count(number):
            raise TypeError("not a container of the program's")
        key = (self.session.generation, number)
        container = self.shared[key][0] if key in self.shared else None
        if type(container) is type(value):
            assign(container, value)
            value = container
        elif len(self.shared) >= MAX_SHARED:
            raise ValueError("too many containers")
        self.shared[key] = value, self._pack(value)
        return value
