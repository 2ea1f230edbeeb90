"""The objects of a program that the tests know, on the program's side."""

from __future__ import annotations

import operator

from llm_decpomdp.envs.sandbox.inside.protocol.codec import Unsendable, encode, to_text
from llm_decpomdp.envs.sandbox.inside.protocol.containers import CONTAINERS, assign
from llm_decpomdp.envs.sandbox.inside.protocol.requests import ARITHMETIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MAX_SHARED = 100
"""Containers whose changes are told; more are sent as they are."""

MAX_NAME = 60
"""Longest name of a class that is told."""


def _enter(value: Any) -> Any:
    return type(value).__enter__(value)


def _exit(value: Any) -> None:
    type(value).__exit__(value, None, None, None)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "get": getattr,
    "set": setattr,
    "del": delattr,
    "next": next,
    "iter": iter,
    "len": len,
    "str": str,
    "repr": repr,
    "enter": _enter,
    "exit": _exit,
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem", *ARITHMETIC)},
}
"""What can be asked of an object, besides to call it or run it."""


class Handles:
    """The objects that have a number. Called, it is what `encode` needs for them.

    Containers that are attributes of an object are *shared*: what the tests change in theirs is changed here
    before the next call, and they are told what has changed here with the next answer.
    """

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.callbacks: dict[int, int] = {}
        """The numbers of the tests' own functions, by the identity of what stands for them here."""
        self.shared: dict[int, str] = {}
        """The containers' content, as the tests know it."""

    def __call__(self, value: Any, content: Any) -> Any:
        if id(value) in self.callbacks:
            return {"callback": self.callbacks[id(value)]}
        kind = type(value)
        if content is not None:
            return {"value": [self.number(value), content]}
        what = "function" if callable(value) else "object"
        if hasattr(kind, "__next__") and hasattr(kind, "__iter__"):
            what = "iterator"
        elif hasattr(kind, "cr_await"):
            what = "coroutine"
        return {"handle": [what, self.number(value), kind.__name__[:MAX_NAME]]}

    def number(self, value: Any) -> int:
        """The number of an object, which it has from now on."""
        known = self.numbers.setdefault(id(value), len(self.objects))
        if known == len(self.objects):
            self.objects.append(value)
        return known

    def sent(self, value: Any, content: Any) -> Any:
        """For `encode`: an argument that is an object as the tests have sent it."""
        if id(value) in self.callbacks:
            return {"callback": self.callbacks[id(value)]}
        if id(value) in self.numbers:
            return {"handle": self.numbers[id(value)]}
        return opaque(value, content)

    def share(self, value: Any) -> Any:
        """An attribute's value, encoded."""
        if not isinstance(value, CONTAINERS) or isinstance(value, tuple):
            return encode(value, self)
        content = self._content(value)
        number = self.number(value)
        if number not in self.shared and len(self.shared) >= MAX_SHARED:
            return content
        self.shared[number] = to_text(content)
        return {"shared": [number, content]}

    def _content(self, container: Any) -> Any:
        """A container as one of its base type."""
        content = encode(container, self)
        return content["value"][1] if type(content) is dict and "value" in content else content

    def changes(self) -> Iterator[Any]:
        """The shared containers that are no longer as the tests know them."""
        for number, text in self.shared.items():
            try:
                content = self._content(self.objects[number])
            except (Unsendable, RecursionError):
                continue
            if to_text(content) != text:
                self.shared[number] = to_text(content)
                yield {"shared": [number, content]}

    def assign(self, number: int, value: Any) -> None:
        """Change a shared container as the tests have changed theirs."""
        assign(self.objects[number], value)
        self.shared[number] = to_text(encode(value, self))


def opaque(value: Any, content: Any) -> Any:
    """For `encode`: what nothing can be asked about, or its base value."""
    return (
        {"handle": ["object", -1, type(value).__name__[:MAX_NAME]]} if content is None else content
    )
