"""Changes of the HTML of a page: links from names to their pages, and titles of columns for narrow screens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape, unescape

PART = re.compile(r"<code>([^<]+)</code>|<(/?)(a|pre|h[1-6])\b[^>]*>")
"""A word of code, or a tag whose content is not linked."""

TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
TITLE = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


def link_names(html: str, targets: Mapping[str, str]) -> str:
    """Link each name that is written as code, except in headings, links and blocks of code.

    Args:
        html: The content of a page.
        targets: Links by name. `algorithm.group_size=8` is linked as `algorithm.group_size`.
    """
    depth = 0

    def link(match: re.Match[str]) -> str:
        nonlocal depth
        if match[3]:
            depth += -1 if match[2] else 1
            return match[0]
        target = None if depth else targets.get(unescape(match[1]).partition("=")[0])
        return f'<a href="{escape(target)}">{match[0]}</a>' if target else match[0]

    return PART.sub(link, html)


def title_cells(html: str) -> str:
    """Give each cell of a table the title of its column as `data-title`, and each table its number of columns."""
    return TABLE.sub(lambda match: _title_table(match[0]), html)


def _title_table(table: str) -> str:
    titles = [escape(unescape(TAG.sub("", title)).strip()) for title in TITLE.findall(table)]

    def title_row(match: re.Match[str]) -> str:
        of_row = iter(titles)
        return re.sub(r"<td\b", lambda _: f'<td data-title="{next(of_row, "")}"', match[0])

    rows = ROW.sub(title_row, table)
    return rows.replace("<table>", f'<table data-columns="{len(titles)}">', 1)
