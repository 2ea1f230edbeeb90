"""What a program prints."""

from __future__ import annotations

import io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Output(io.RawIOBase):
    """Keeps the beginning of what a program prints."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.room = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Keep what there is room for."""
        size = len(data)
        if self.room > 0:
            self.kept += bytes(data[: self.room])
            self.room -= size
        return size

    def take(self) -> str:
        """What has been printed since the last time."""
        text = self.kept.decode("utf-8", "replace") if self.kept else ""
        self.kept.clear()
        return text


OUTPUT = Output()
