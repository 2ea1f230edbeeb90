"""Proxies of the program's objects in one conversation, and numbers of the test's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llm_decpomdp.envs.sandbox.worker.evaluator.failures import refuse
from llm_decpomdp.envs.sandbox.worker.evaluator.proxies import (
    VALUED,
    Function,
    Iterator,
    Object,
    Opaque,
    Valued,
    valued,
)
from llm_decpomdp.envs.sandbox.worker.evaluator.reports import is_count
from llm_decpomdp.envs.sandbox.worker.protocol.codec import (
    MAX_DECODED,
    Decoder,
    Maker,
    Unsendable,
    decode_call,
    encode,
    pack_call,
)
from llm_decpomdp.envs.sandbox.worker.protocol.operations import assign

if TYPE_CHECKING:
    from llm_decpomdp.envs.sandbox.worker.evaluator.conversation import Conversation

KINDS: dict[str, type[Object]] = {"object": Object, "function": Function, "iterator": Iterator}
"""Class of an object's proxy, by the kind in its handle."""

MAX_SHARED = 1000
"""Maximum number of containers of the program's objects that a test may hold."""

FIXED = (int, float, complex, str, bytes, tuple, frozenset)
"""Immutable types: a value of a subclass in the program can be passed back as the same object."""


class Objects:
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
        makers: dict[str, Maker] = {
            "handle": (list, self._object),
            "value": (list, self._valued),
            "shared": (list, self._shared),
            "callback": (int, self._test_function),
        }
        self.decode = Decoder(makers, MAX_DECODED).decode

    def __call__(self, value: Any, content: Any) -> Any:
        """Encode a proxy as its handle, and a function or an iterator of the test as its number."""
        if isinstance(value, Object | Valued):
            _, handle, generation = value._reference
            required = content is None
            if required or isinstance(value, FIXED):
                if self.conversation.can_pass(handle, generation, required):
                    return {"handle": handle}
        if content is None and hasattr(type(value), "__next__") and not callable(value):
            number = self._number(value)
            self.callbacks[number] = value.__next__
            return {"items": number}
        if content is not None or not callable(value):
            return refuse(value, content)
        return {"callback": self._number(value)}

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
        args, kwargs = decode_call(content[1])
        return encode(self._test_function(content[0])(*args, **kwargs), self)

    def send_changes(self) -> None:
        """Send the program the content of those containers that the test has changed."""
        for (generation, number), (container, content) in self.shared.items():
            if content and generation == self.session.generation:
                data = self._packed(container)
                if data != content:
                    self.shared[generation, number] = container, data
                    self.session.send(("assign", data, number))

    def _packed(self, container: Any) -> bytes:
        """Encode a container as an argument; empty if it cannot be one."""
        try:
            return pack_call([container], {}, self, plain=False)
        except (TypeError, Unsendable, RecursionError):
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
            return self.conversation.awaited(*reference[1:])
        if reference[1:] not in self.proxies:
            self.proxies[reference[1:]] = KINDS[kind](reference, name)
        return self.proxies[reference[1:]]

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
        container = self.shared[key][0] if key in self.shared else None
        if type(container) is type(value):
            assign(container, value)
            value = container
        elif len(self.shared) >= MAX_SHARED:
            raise ValueError("too many containers")
        self.shared[key] = value, self._packed(value)
        return value
