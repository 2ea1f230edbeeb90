"""Texts of models and programs, made safe to print on a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tab and newline: ESC, BEL, CR, CSI, ...
    "\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # no width, directions
    "\ud800-\udfff\U000e0001-\U000e007f]"  # surrogates, which cannot be printed; tags, which cannot be seen
)


def visible(text: str) -> str:
    r"""Escape characters of a text that control a terminal, or that hide or reorder others.

    They appear as in Python's literals, such as `\x1b` for the escape character. Newlines, tabs and the joiners of
    emoji stay.
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def plain(text: str) -> Text:
    """Escape a text for rich, in which no part of it is markup either."""
    from rich.text import Text

    return Text(visible(text))
