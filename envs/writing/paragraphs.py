"""Division of a single agent's text into the two that a team would write."""

from __future__ import annotations

import re

from llm_decpomdp.envs.writing.text_measures import Pair

DELIMITER = "[PARAGRAPH_SPLIT]"

SECOND = "Paragraph 2:"
"""Divider of a text without the delimiter."""

LABEL = re.compile(r"Paragraph [12]:")


def paragraphs(text: str) -> Pair:
    """Divide a completion into two paragraphs, equal texts alike.

    The first delimiter divides it, and later ones are left out. Without any, the first `Paragraph 2:` does, and
    without that a cut after a third of the characters. White space and labels such as `Paragraph 1:` around the
    paragraphs are removed.
    """
    for mark in (DELIMITER, SECOND):
        if mark in text:
            first, _, second = text.partition(mark)
            return Pair(_bare(first), _bare(second.replace(DELIMITER, " ")))
    third = len(text) // 3
    return Pair(_bare(text[:third]), _bare(text[third:]))


def _bare(text: str) -> str:
    text = text.strip()
    label = LABEL.match(text)
    return text[label.end() :].strip() if label else text
