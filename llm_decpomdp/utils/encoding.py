"""Text files of users, which must be in UTF-8."""

from __future__ import annotations

from pathlib import Path


class WrongEncoding(UnicodeError):
    """A text file that is not in UTF-8; the text names the file, the line and the remedy."""


UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""First bytes of a text in UTF-16."""


def read_utf8(path: Path) -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Raises:
        OSError: If it cannot be read.
        WrongEncoding: If it has another encoding.
    """
    data = path.read_bytes()
    if data.startswith(UTF_16):
        raise WrongEncoding(
            f"{path} is in UTF-16: write the file in UTF-8, as with iconv -f utf-16 -t utf-8"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrongEncoding(
            f"{path}, line {line}: the byte 0x{data[error.start]:02x} is not UTF-8: write the file in UTF-8, as "
            f"with iconv -f latin1 -t utf-8"
        ) from None
