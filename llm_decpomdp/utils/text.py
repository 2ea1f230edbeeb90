"""Text for people: safe to print, readable numbers, files in UTF-8, warnings at the user's line."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.text import Text

Item = TypeVar("Item")

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tab and newline: ESC, BEL, CR, CSI, ...
    "\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # no width, directions
    "\ud800-\udfff\U000e0001-\U000e007f]"  # surrogates, which cannot be printed; tags, which cannot be seen
)


def visible(text: str) -> str:
    r"""Escape characters that control a terminal, or hide or reorder others, as in Python's literals: `\x1b`.

    Newlines, tabs and the joiners of emoji stay.
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def plain(text: str) -> Text:
    """Escape a text for rich, without markup."""
    from rich.text import Text

    return Text(visible(text))


OMISSION = "\n...\n"
"""Mark of omitted text."""


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters: beginning and end of a longer one."""
    if len(text) <= limit:
        return text
    half = (limit - len(OMISSION)) // 2
    return text[:half] + OMISSION + text[-half:]


def duration(seconds: float) -> str:
    """Format seconds, such as 45.0 s, 12 min 30 s or 3 h 20 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def number(value: float, *, sign: bool = False) -> str:
    """Format a number with two decimals and a real minus sign."""
    text = f"{value:+.2f}" if sign else f"{value:.2f}"
    return text.replace("-0.00", "0.00").replace("+0.00", "0.00").replace("-", "\u2212")


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
        return data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrongEncoding(
            f"{path}, line {line}: the byte 0x{data[error.start]:02x} is not UTF-8: write the file in UTF-8, as "
            "with iconv -f latin1 -t utf-8"
        ) from None


def parse_lines(path: Path, what: str, parse: Callable[[str], Item]) -> list[Item]:
    """Parse the lines of a text file that are not blank.

    Raises:
        ValueError: If the file cannot be read or has no lines, or `parse` raises an error; names the line.
    """
    try:
        lines = read_utf8(path).splitlines()
    except (OSError, WrongEncoding) as error:
        raise ValueError(f"cannot read {what} from {path}: {error}") from None
    items = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                items.append(parse(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
    if not items:
        raise ValueError(f"{path} holds no {what}: it has no lines with text")
    return items


BETWEEN = ("llm_decpomdp", "pettingzoo", "gymnasium")
"""Packages whose frames are skipped on the way to the user's line."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is in none of the packages of `BETWEEN`."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


_logged: set[tuple[str, str]] = set()


def warn_once(logger: logging.Logger, message: str, *values: object) -> None:
    """Log a warning, once in a process: a command may read the same file several times."""
    text = message % values
    if (logger.name, text) not in _logged:
        _logged.add((logger.name, text))
        logger.warning("%s", text)
