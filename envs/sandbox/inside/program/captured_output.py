"""Output of a program, captured up to a limit."""

from __future__ import annotations

import io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Output(io.RawIOBase):
    """Stream that keeps the beginning of a program's output."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.room = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Keep as much of `data` as there is room for."""
        size = len(data)
        if self.room > 0:
            self.data += bytes(data[: self.room])
            self.room -= size
        return size

    def take(self) -> str:
        """Return the output since the last call."""
        text = self.data.decode("utf-8", "replace") if self.data else ""
        self.data.clear()
        return text


OUTPUT = Output()
