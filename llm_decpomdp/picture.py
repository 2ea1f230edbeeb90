"""Pictures of grids, as text and as SVG.

A picture is JSON-able data in `Verdict.details["picture"]`, so a report draws it from the stored episodes alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

Picture = Mapping[str, Any]
"""`panels`, each with `title` and `rows`; `key`, for characters a color of CSS and a label; `cell`, its pixels."""

CELL, GAP, LINE = 16, 18, 16
"""Pixels of a cell, between panels, and of a line of text."""

WIDTH = 340
"""Most pixels of a row of panels, so that a picture fits a narrow screen; a wider panel has smaller cells."""

GROUND = " "
"""Character of an empty cell."""


def panel(title: str, rows: Sequence[str]) -> dict[str, Any]:
    """Return a panel of a picture: a short title, and rows of equal length with a character for each cell."""
    return {"title": title, "rows": list(rows)}


def picture(
    panels: Sequence[Mapping[str, Any]], key: Mapping[str, tuple[str, str]], cell: int = CELL
) -> dict[str, Any]:
    """Return a picture of panels from left to right.

    Args:
        panels: The panels.
        key: Color and label of characters; others are drawn as letters.
        cell: Pixels of a cell.
    """
    return {
        "panels": [dict(entry) for entry in panels],
        "key": {character: list(entry) for character, entry in key.items()},
        "cell": cell,
    }


def find_picture(details: Mapping[str, Any]) -> Picture | None:
    """Return the picture in the details of a verdict, if there is one."""
    drawn = details.get("picture")
    return drawn if isinstance(drawn, Mapping) and "panels" in drawn and "key" in drawn else None


def draw_text(drawn: Picture) -> str:
    """Draw a picture as text: the panels side by side, and the meaning of the characters below."""
    panels = drawn["panels"]
    height = max((len(entry["rows"]) for entry in panels), default=0)
    widths = [max(map(len, (entry["title"], *entry["rows"]))) for entry in panels]
    lines = ["   ".join(p["title"].ljust(w) for p, w in zip(panels, widths, strict=True))]
    for y in range(height):
        cells = [p["rows"][y].replace(GROUND, ".") if y < len(p["rows"]) else "" for p in panels]
        lines.append("   ".join(row.ljust(w) for row, w in zip(cells, widths, strict=True)))
    characters = {character for entry in panels for row in entry["rows"] for character in row}
    labels = [f"{c} {label}" for c, (_, label) in drawn["key"].items() if c in characters]
    return "\n".join(line.rstrip() for line in [*lines, ", ".join(labels)] if line.strip())


def draw_svg(drawn: Picture) -> str:
    """Draw a picture as an SVG element, whose texts are escaped."""
    key: Mapping[str, Sequence[str]] = drawn["key"]
    parts: list[str] = []
    x = y = height = 0
    width = 1
    for entry in drawn["panels"]:
        rows = entry["rows"]
        columns = max(map(len, rows), default=1)
        cell = min(int(drawn.get("cell", CELL)), WIDTH // max(1, columns))
        # A letter of font size 12 is about 7 pixels wide.
        across = max(columns * cell, 7 * len(entry["title"]))
        if x and x + across > WIDTH:
            x, y, height = 0, y + height + GAP, 0
        parts.append(_panel(entry, key, x, y, cell))
        height = max(height, LINE + len(rows) * cell)
        width = max(width, x + across)
        x += across + GAP
    y += height
    characters = {c for entry in drawn["panels"] for row in entry["rows"] for c in row}
    for color, label in [key[character] for character in key if character in characters]:
        y += LINE
        parts.append(_rect(0, y - 11, 11, color) + _text(16, y - 1, label))
        width = max(width, 16 + 7 * len(label))
    size = f'width="{width}" height="{y + 6}" viewBox="0 0 {width} {y + 6}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="world" {size}>{"".join(parts)}</svg>'


def _panel(
    entry: Mapping[str, Any], key: Mapping[str, Sequence[str]], x: int, y: int, cell: int
) -> str:
    parts = [_text(x, y + 11, entry["title"])]
    for row, characters in enumerate(entry["rows"]):
        for column, character in enumerate(characters):
            left, top = x + column * cell, y + LINE + row * cell
            color = key[character][0] if character in key else ""
            parts.append(_rect(left, top, cell, color))
            if character != GROUND and not color:
                parts.append(_text(left + cell // 4, top + cell * 3 // 4, character))
    return "".join(parts)


def _rect(x: int, y: int, side: int, color: str) -> str:
    fill = f'fill="{escape(color)}"' if color else 'fill="none"'
    # Half-transparent gray, which can be seen on light and on dark pages.
    return f'<rect x="{x}" y="{y}" width="{side}" height="{side}" {fill} stroke="#8888" />'


def _text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="12" fill="currentColor">{escape(text)}</text>'
