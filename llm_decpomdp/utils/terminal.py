"""Texts of models and programs on a terminal: shown, and never obeyed."""

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
    r"""A text without characters that a terminal obeys, or that hide or reorder others.

    They stand there as in Python's literals, such as `\x1b` for the escape character. Newlines, tabs and what
    joins emoji stay.
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def plain(text: str) -> Text:
    """The same for rich: no part of the text is markup either."""
    from rich.text import Text

    return Text(visible(text))
