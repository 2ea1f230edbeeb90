"""How the one text of an agent alone is divided into the two that a team would write."""

from __future__ import annotations

import re

from llm_decpomdp.envs.writing.text_measures import Pair

DELIMITER = "[PARAGRAPH_SPLIT]"

SECOND = "Paragraph 2:"
"""Divides a text without the delimiter."""

LABEL = re.compile(r"Paragraph [12]:")


def paragraphs(text: str) -> Pair:
    """The two paragraphs of a completion; the same text is always divided alike.

    The first delimiter divides it, and later ones are left out. Without any, the first `Paragraph 2:` does;
    without that too, a cut after a third of the characters. White space and labels such as `Paragraph 1:` around
    the paragraphs are no part of them.
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
