"""What stands for functions, iterators and objects of the program on the side of the tests."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from llm_decpomdp.envs.sandbox.inside.conversation import Conversation

CONTAINERS = (list, tuple, dict, set, bytearray, deque)


class Ended(Exception):
    """An iterator has no more items."""


class Function:
    """A function of the program."""

    def __init__(self, conversation: Conversation, handle: int, generation: int, name: str) -> None:
        self._place = (conversation, handle, generation)
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        conversation, handle, generation = self._place
        return conversation.call(handle, generation, args, kwargs)

    def in_place(self, *args: Any, **kwargs: Any) -> None:
        """Call the function for what it does to its arguments."""
        conversation, handle, generation = self._place
        conversation.call(handle, generation, args, kwargs, in_place=True)


class Iterator:
    """An iterator of the program; each item is fetched when it is needed."""

    def __init__(self, conversation: Conversation, handle: int, generation: int) -> None:
        self._place = (conversation, handle, generation)
        self._ended = False

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        conversation, handle, generation = self._place
        try:
            return conversation.next(handle, generation)
        except Ended:
            self._ended = True
            raise StopIteration from None
        except Exception:
            self._ended = True
            raise


class Opaque:
    """An object of the program that cannot be sent; it equals nothing but itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name} object>"


def assign(old: Any, new: Any) -> None:
    """Make a container's content that of another one of the same type, and that of containers in it."""
    if type(old) is not type(new):
        return
    if isinstance(old, list | tuple) and len(old) == len(new):
        for place, (inner_old, inner_new) in enumerate(zip(old, new, strict=True)):
            if isinstance(inner_old, CONTAINERS) and type(inner_old) is type(inner_new):
                assign(inner_old, inner_new)
            elif isinstance(old, list):
                old[place] = inner_new
    elif isinstance(old, list | bytearray):
        old[:] = new
    elif isinstance(old, dict):
        kept = {key: value for key, value in old.items() if isinstance(value, CONTAINERS)}
        old.clear()
        for key, value in new.items():
            if type(kept.get(key)) is type(value):
                assign(kept[key], value)
                old[key] = kept[key]
            else:
                old[key] = value
    elif isinstance(old, set):
        old.clear()
        old.update(new)
    elif isinstance(old, deque):
        old.clear()
        old.extend(new)
