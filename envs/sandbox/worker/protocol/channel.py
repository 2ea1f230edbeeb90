"""Messages between the processes of a worker, each prefixed with its length, over stream sockets.

Messages to a less trusted process are `marshal` data, which is fast. Messages from it are JSON, because reading
`marshal` data of an untrusted process is dangerous.
"""

from __future__ import annotations

import json
import marshal
import os
import struct
from typing import Any

from llm_decpomdp.envs.sandbox.worker.protocol.codec import to_text

MAX_MESSAGE = 8 * 2**20
"""Longest message of a program, in bytes."""

# `os.read` allocates as much as it may return.
MAX_READ = 2**20
"""Maximum number of bytes read at once."""

OUT_OF_MEMORY = 77
"""Exit status of a program that has no memory left for a message."""

HEADER = 4

ANSWER = struct.Struct("=cid")
"""Answer of the zygote: kind, exit status as of `os.waitpid` (`k`), seconds (`c`)."""

DESCRIPTOR = struct.Struct("=i")
"""Descriptor of a new child's socket, sent along with the answer."""


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
    """Write all of `data`.

    Raises:
        Closed: If the peer has gone.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except OSError as error:
            raise Closed(str(error)) from None


class Reader:
    """Splits a stream into messages.

    Args:
        descriptor: Descriptor of the stream.
        limit: Longest message that is accepted, in bytes.
        chunk: Bytes read at once.
    """

    def __init__(self, descriptor: int, limit: int, chunk: int = 2**16) -> None:
        self.descriptor = descriptor
        self.limit = limit
        self.chunk = chunk
        self.pending = bytearray()

    def next_message(self) -> bytes | None:
        """Return the next message, if it has been read completely."""
        if len(self.pending) < HEADER:
            return None
        end = HEADER + int.from_bytes(self.pending[:HEADER], "big")
        # Before the data is read, so that a length alone cannot take memory.
        if end > self.limit:
            raise Closed(f"a message of {end} bytes; at most {self.limit} are accepted")
        if len(self.pending) < end:
            return None
        message = bytes(self.pending[HEADER:end])
        del self.pending[:end]
        return message

    def fill(self) -> bool:
        """Read the available data; return False at the end of the stream."""
        missing = 0
        if len(self.pending) >= HEADER:
            missing = HEADER + int.from_bytes(self.pending[:HEADER], "big") - len(self.pending)
        try:
            data = os.read(self.descriptor, max(self.chunk, min(missing, MAX_READ)))
        except BlockingIOError:
            return True
        # The peer ended with data unread.
        except ConnectionResetError:
            return False
        self.pending += data
        return bool(data)

    def receive(self) -> Any:
        """Wait for a message encoded by `pack_down`.

        Raises:
            Closed: If the peer has gone.
        """
        while True:
            message = self.next_message()
            if message is not None:
                return marshal.loads(message)
            if not self.fill():
                raise Closed("the other side has gone")


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
