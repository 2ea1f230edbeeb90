"""Handles: numbers for the objects of a program that the tests refer to."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from llm_decpomdp.envs.sandbox.worker.protocol.channel import ARITHMETIC, CONTAINERS, assign
from llm_decpomdp.envs.sandbox.worker.protocol.codec import Unsendable, encode, to_text

# Each shared container is encoded again after each call.
MAX_SHARED = 100
"""Maximum number of containers whose changes are reported; further ones are sent as plain values."""

MAX_NAME = 60  # longest name of a class that is sent


def _exit(value: Any) -> None:
    type(value).__exit__(value, None, None, None)


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{"get": getattr, "set": setattr, "del": delattr, "next": next},
    **{"iter": iter, "len": len, "str": str, "repr": repr},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem", *ARITHMETIC)},
    # By its type, as the `with` statement does.
    "enter": lambda value: type(value).__enter__(value),
    "exit": _exit,
}
"""Operations on an object, besides to call it or run it."""


class Items:
    """Iterator of the test, with its number there; each item is requested when the program wants it."""

    def __init__(self, number: int, following: Callable[[], Any]) -> None:
        self.number = number
        self._following = following

    def __iter__(self) -> Items:
        return self

    def __next__(self) -> Any:
        return self._following()


class HandleTable:
    """The objects that have a number. Called, it encodes them, as the argument `other` of `encode`.

    Containers that are attributes of an object are *shared*: changes by the tests are made here before the next
    call, and changes here are sent to the tests with the next answer.
    """

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.callbacks: dict[int, int] = {}
        """Numbers of the tests' functions, by the identity of their stand-ins here."""
        self.shared: dict[int, str] = {}
        """Content of the shared containers, as last sent to the tests."""

    def __call__(self, value: Any, content: Any) -> Any:
        """Encode an object that is no value as a handle."""
        if id(value) in self.callbacks:
            return {"callback": self.callbacks[id(value)]}
        if content is not None:
            return {"value": [self.number(value), content]}
        cls = type(value)
        kind = "function" if callable(value) else "object"
        if hasattr(cls, "__next__") and hasattr(cls, "__iter__"):
            kind = "iterator"
        elif hasattr(cls, "cr_await"):
            kind = "coroutine"
        return {"handle": [kind, self.number(value), cls.__name__[:MAX_NAME]]}

    def number(self, value: Any) -> int:
        """Return the number of an object, which it keeps from now on."""
        number = self.numbers.setdefault(id(value), len(self.objects))
        # `objects` keeps the object alive, so that its id stays its own.
        if number == len(self.objects):
            self.objects.append(value)
        return number

    def encode_argument(self, value: Any, content: Any) -> Any:
        """Encode an argument that is an object as the tests sent it, for `encode`."""
        if id(value) in self.callbacks:
            return {"callback": self.callbacks[id(value)]}
        if type(value) is Items:
            return {"items": value.number}
        if id(value) in self.numbers:
            return {"handle": self.numbers[id(value)]}
        return opaque(value, content)

    def share(self, value: Any) -> Any:
        """Encode the value of an attribute, sharing it if it is a container."""
        if not isinstance(value, CONTAINERS) or isinstance(value, tuple):
            return encode(value, self)
        content = self._content(value)
        number = self.number(value)
        if number not in self.shared and len(self.shared) >= MAX_SHARED:
            return content
        self.shared[number] = to_text(content)
        return {"shared": [number, content]}

    def _content(self, container: Any) -> Any:
        """Encode a container as one of its base type."""
        content = encode(container, self)
        return content["value"][1] if type(content) is dict and "value" in content else content

    def changes(self) -> Iterator[Any]:
        """Yield the shared containers that differ from what was last sent."""
        for number, text in self.shared.items():
            try:
                content = self._content(self.objects[number])
            except (Unsendable, RecursionError):
                continue
            if to_text(content) != text:
                self.shared[number] = to_text(content)
                yield {"shared": [number, content]}

    def assign(self, number: int, value: Any) -> None:
        """Set the content of a shared container, as changed by the tests."""
        assign(self.objects[number], value)
        self.shared[number] = to_text(encode(value, self))


def opaque(value: Any, content: Any) -> Any:
    """Encode an object without operations, or its base value, for `encode`."""
    if content is not None:
        return content
    return {"handle": ["object", -1, type(value).__name__[:MAX_NAME]]}
