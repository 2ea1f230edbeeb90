"""What the tests know of the program's objects, and the program of their functions, on the side of the tests."""

from __future__ import annotations

from llm_decpomdp.envs.sandbox.inside.evaluator.failures import refuse
from llm_decpomdp.envs.sandbox.inside.evaluator.proxies import (
    VALUED,
    Function,
    Iterator,
    Object,
    Opaque,
    Valued,
    valued,
)
from llm_decpomdp.envs.sandbox.inside.evaluator.reports import is_count
from llm_decpomdp.envs.sandbox.inside.protocol.codec import (
    MAX_HELD,
    Decoder,
    Unsendable,
    decode_call,
    encode,
    pack_call,
)
from llm_decpomdp.envs.sandbox.inside.protocol.containers import assign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from llm_decpomdp.envs.sandbox.inside.evaluator.conversation import Conversation
    from llm_decpomdp.envs.sandbox.inside.protocol.codec import Maker

KINDS: dict[str, type[Object]] = {"object": Object, "function": Function, "iterator": Iterator}
"""What stands for an object, by what it is."""

MAX_SHARED = 1000
"""Containers of the program's objects that a test may hold."""

FIXED = (int, float, complex, str, bytes, tuple, frozenset)
"""Classes of values that cannot be changed: one of the program's own classes can be given back as it was."""


class Objects:
    """The objects of one conversation. Called, it is what `encode` needs for arguments.

    Reading a message makes objects, and changes the containers that the tests have read from them; it never asks
    the program for anything.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.session = conversation.session
        self.function = Function((conversation, -1, 0), self.session.request["entry_point"])
        """The entry point."""
        self.known: dict[tuple[int, int], Object] = {}
        """What stands for an object, by generation and number."""
        self.shared: dict[tuple[int, int], tuple[Any, bytes]] = {}
        """Containers that the test has read from objects, and their content as the program knows it."""
        self.callbacks: list[Callable[..., Any]] = []
        self.callback_numbers: dict[int, int] = {}
        makers: dict[str, Maker] = {
            "handle": (list, self._object),
            "value": (list, self._valued),
            "shared": (list, self._shared),
            "callback": (int, self._own_function),
        }
        self.decode = Decoder(makers, MAX_HELD).decode

    def __call__(self, value: Any, content: Any) -> Any:
        if isinstance(value, Object | Valued):
            _, handle, generation = value._place
            needed = content is None
            if needed or isinstance(value, FIXED):
                if self.conversation.can_ask(handle, generation, needed):
                    return {"handle": handle}
        if content is not None or not callable(value):
            return refuse(value, content)
        number = self.callback_numbers.setdefault(id(value), len(self.callbacks))
        if number == len(self.callbacks):
            self.callbacks.append(value)
        return {"callback": number}

    def answer_callback(self, content: Any) -> Any:
        """What a function of the test returns to the program, encoded."""
        if type(content) is not list or len(content) != 2:
            raise TypeError("not a call of a function of the test")
        args, kwargs = decode_call(content[1])
        return encode(self._own_function(content[0])(*args, **kwargs), self)

    def tell_changes(self) -> None:
        """Have the program change those of its containers that the test has changed here."""
        for (generation, number), (container, known) in self.shared.items():
            if known and generation == self.session.generation:
                data = self._packed(container)
                if data != known:
                    self.shared[generation, number] = container, data
                    self.session.send(("assign", data, number))

    def _packed(self, container: Any) -> bytes:
        """A container as an argument; nothing if it cannot be one."""
        try:
            return pack_call([container], {}, self, plain=False)
        except (TypeError, Unsendable, RecursionError):
            return b""

    # What is read from messages of someone who is not trusted

    def _own_function(self, number: int) -> Any:
        if not is_count(number):
            raise TypeError("not a function of the test")
        return self.callbacks[number]

    def _object(self, content: list[Any]) -> Any:
        kind, number, name = content
        if type(number) is not int or type(name) is not str:
            raise TypeError("not a handle")
        if number < 0:
            return self.function if kind == "function" else Opaque(name)
        place = (self.conversation, number, self.session.generation)
        self.conversation.handed_out |= kind != "object"
        if kind == "coroutine":
            return self.conversation.awaited(*place[1:])
        if place[1:] not in self.known:
            self.known[place[1:]] = KINDS[kind](place, name)
        return self.known[place[1:]]

    def _valued(self, content: list[Any]) -> Any:
        number, value = content
        if not is_count(number) or type(value) not in VALUED:
            raise TypeError("not a value of a class of the program's")
        return valued(value, (self.conversation, number, self.session.generation))

    def _shared(self, content: list[Any]) -> Any:
        number, value = content
        if not is_count(number):
            raise TypeError("not a container of the program's")
        key = (self.session.generation, number)
        known = self.shared[key][0] if key in self.shared else None
        if type(known) is type(value):
            assign(known, value)
            value = known
        elif len(self.shared) >= MAX_SHARED:
            raise ValueError("too many containers")
        self.shared[key] = value, self._packed(value)
        return value
