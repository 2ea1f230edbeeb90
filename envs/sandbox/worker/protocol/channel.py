"""Messages between the processes of a worker over stream sockets, and the operations that they name.

Each message has its length in front. Messages to a less trusted process are `marshal` data, which is fast.
Messages from it are JSON, because reading `marshal` data of an untrusted process is dangerous.
"""

from __future__ import annotations

import json
import marshal
import os
import struct
from collections import deque
from typing import Any

from llm_decpomdp.envs.sandbox.worker.protocol.codec import to_text

MAX_MESSAGE = 8 * 2**20  # longest message of a program, in bytes
# `os.read` allocates as much as it may return.
MAX_READ = 2**20  # maximum number of bytes read at once
OUT_OF_MEMORY = 77  # exit status of a program that has no memory left for a message
HEADER = 4
# Answer of the zygote: kind, exit status as of `os.waitpid` (`k`), seconds (`c`).
ANSWER = struct.Struct("=cid")
DESCRIPTOR = struct.Struct("=i")  # descriptor of a new child's socket, sent along with the answer


class Closed(Exception):
    """The peer has ended, or its data is not a message."""


def pack(message: Any) -> bytes:
    """Encode a message to a more trusted process as JSON."""
    # Not marshal or pickle: reading these from an untrusted process could crash it or run code.
    data = to_text(message).encode()
    return len(data).to_bytes(HEADER, "big") + data


def pack_down(message: Any) -> bytes:
    """Encode a message to a less trusted process as `marshal` data."""
    data = marshal.dumps(message)
    return len(data).to_bytes(HEADER, "big") + data


def write(descriptor: int, data: bytes) -> None:
    """Write all of `data`; raises `Closed` if the peer has gone."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except OSError as error:
            raise Closed(str(error)) from None


class Reader:
    """Splits a stream into messages of at most `limit` bytes, reading `chunk` bytes at once."""

    def __init__(self, descriptor: int, limit: int, chunk: int = 2**16) -> None:
        self.descriptor = descriptor
        self.limit = limit
        self.chunk = chunk
        self.pending = bytearray()

    def _end(self) -> int:
        """Return the length of the first message with its header; 0 while its header is incomplete."""
        if len(self.pending) < HEADER:
            return 0
        return HEADER + int.from_bytes(self.pending[:HEADER], "big")

    def next_message(self) -> bytes | None:
        """Return the next message, if it has been read completely."""
        end = self._end()
        # Before the data is read, so that a length alone cannot take memory.
        if end > self.limit:
            raise Closed(f"a message of {end} bytes; at most {self.limit} are accepted")
        if not end or len(self.pending) < end:
            return None
        message = bytes(self.pending[HEADER:end])
        del self.pending[:end]
        return message

    def fill(self) -> bool:
        """Read the available data; return False at the end of the stream."""
        missing = self._end() - len(self.pending)
        try:
            data = os.read(self.descriptor, max(self.chunk, min(missing, MAX_READ)))
        except BlockingIOError:
            return True
        except ConnectionResetError:  # the peer ended with data unread
            return False
        self.pending += data
        return bool(data)

    def receive(self) -> Any:
        """Wait for a message encoded by `pack_down`; raises `Closed` if the peer has gone."""
        while (message := self.next_message()) is None:
            if not self.fill():
                raise Closed("the other side has gone")
        return marshal.loads(message)


def receive_exactly(descriptor: int) -> Any:
    """Wait for one message encoded by `pack`, and read nothing after it: descriptors may follow."""
    data, missing = b"", HEADER
    while missing:
        part = os.read(descriptor, missing)
        if not part:
            raise Closed("the other side has gone")
        data += part
        missing -= len(part)
        if len(data) == HEADER:
            missing = int.from_bytes(data, "big")
    return json.loads(data[HEADER:])


# Operations

# Operations on objects, named as in `operator`.
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
MUTATIONS = range(4)
"""Kinds of a mutant run in which a helper's results are changed, see `result_mutation`."""

FIRST_RESULT, OTHER_RESULT, PLAIN_RESULT, FIRST_ARGUMENT, ALL_ARGUMENTS = range(4, 9)
"""Kinds of a mutant run in which a trivial function replaces the helper.

It returns the result of the helper's first call, another constant of that type, a plain constant of that type
(0, 1, None, or what is empty), its first argument, or all arguments. Calls with a single argument are not counted
where it returns the first.
"""

AS_ENTRY_POINT = 9  # kind of a mutant run in which the helper replaces the entry point

SAME, DIRECT, DERIVED, ITEM, STEP, CHOICE, ANY = range(10, 17)
"""Kinds of a mutant run in which a helper's result takes the place of the entry point's, see `division`.

It is the result of a call that the entry point makes with its own arguments, as it is or cast, or a default where
it is None; of a call in place of the entry point; of a call with arguments derived from its own; an item of it;
the result of one operation, also with a constant of the entry point's code; a choice between two constants; or any
of these four, the same in all calls.
"""

(
    ALTERED,
    EMPTY,
    CONSTANT,
    OTHER_CONSTANT,
    ARGUMENT,
    LAST_ARGUMENT,
    ARGUMENTS,
    STEP_OF_ARGUMENT,
    AGREEING,
) = range(17, 26)
"""Kinds of a mutant run in which something trivial takes the place of a helper's result, see `division`.

It is changed within its type; 0 or empty; the result of the first call, or another constant of that type; the
first argument, the last one, or all of them; a value that is derived from the arguments; or a changed result that
is equal to everything.
"""

ENTRY_POINT_RESULTS = range(SAME, ALTERED)
"""Kinds of a mutant run that replace the entry point's results."""
HELPER_RESULTS = range(ALTERED, AGREEING + 1)
"""Kinds of a mutant run of `division` that replace a helper's results."""
DIVISION = range(SAME, AGREEING + 1)
"""Kinds of a mutant run of `Program.divide`."""

# A tuple cannot change, but the containers in it can.
CONTAINERS = (list, tuple, dict, set, bytearray, deque)


def assign(old: Any, new: Any) -> None:
    """Give a container the content of another one of its type or base type, nested containers included.

    An array of numbers keeps its shape, or stays as it is.
    """
    if not isinstance(old, type(new)):
        return
    if isinstance(old, tuple):
        merge(old, new)
    elif isinstance(old, list):
        old[:] = [*map(merge, old, new)] if len(old) == len(new) else new
    elif isinstance(old, dict):
        items = {key: merge(old[key], new[key]) if key in old else new[key] for key in new}
        old.clear()
        old.update(items)
    elif isinstance(old, set | deque):
        old.clear()
        (old.update if isinstance(old, set) else old.extend)(new)
    elif isinstance(old, bytearray) or type(old).__name__ == "array":
        old[:] = new
    elif type(old).__name__ == "ndarray" and old.shape == new.shape:
        old[...] = new


def merge(old: Any, new: Any) -> Any:
    """Return a part of a container with its new content: the old object where it can change, else a new one."""
    if not isinstance(new, CONTAINERS) or not isinstance(old, type(new)):
        return new
    if not isinstance(old, tuple):
        assign(old, new)
        return old
    if len(old) != len(new):
        return new
    make = getattr(old, "_make", tuple)  # of a named tuple
    return make(map(merge, old, new))
