"""A self-contained HTML page, and the blocks that it is built of.

Blocks take plain text and escape it; only the arguments named `html` or `blocks` are markup. The page's
policy forbids everything that would have to be fetched, and every script but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote

HERE = files(__package__)

SCALE = 58
"""Percent of the heat's colour at the highest value: text stays readable on it."""


@dataclass(frozen=True)
class Heading:
    """The head of a column in several lines, and in whole where the page is asked for more."""

    lines: tuple[str, ...]
    whole: str


def page(title: str, blocks: Iterable[str]) -> str:
    """Return the whole document."""
    style = HERE.joinpath("page.css").read_text(encoding="utf-8")
    script = "\n" + HERE.joinpath("page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>",
            *blocks,
            f"<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


def tag(name: str, text: str, kind: str = "") -> str:
    """Return an element that holds a text."""
    return f"<{_opening(name, kind)}>{escape(text)}</{name}>"


def _opening(name: str, kind: str) -> str:
    return f'{name} class="{kind}"' if kind else name


def prose(text: str, kind: str = "") -> str:
    """Return a paragraph of a text in which `code` stands in such marks; papers of the arXiv become links."""
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    paper = r'<a href="https://arxiv.org/abs/\1" rel="noreferrer">\g<0></a>'
    return f"<{_opening('p', kind)}>{re.sub(r'arXiv ([0-9]{4}[.][0-9]{5})', paper, html)}</p>"


def box(name: str, blocks: Iterable[str], kind: str = "") -> str:
    """Return an element that holds blocks."""
    return f"<{_opening(name, kind)}>\n" + "\n".join(blocks) + f"\n</{name}>"


def folded(summary: str, html: str, *, note: str = "") -> str:
    """Return a block behind its summary."""
    head = f"<b>{escape(summary)}</b> {escape(note)}"
    return f"<details><summary>{head}</summary>\n{html}\n</details>"


def listing(text: str) -> str:
    """Return code in a block that scrolls."""
    # The parser drops one line end after <pre>, so one is given.
    return f'<pre tabindex="0">\n{escape(text)}</pre>'


def link(text: str, **filters: object) -> str:
    """Return a link to the transcripts that pass the filters."""
    query = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in filters.items())
    return f'<a href="#{escape(query)}">{escape(text)}</a>'


def heat_cell(html: str, value: float, top: float) -> str:
    """Return a cell of a table whose colour is the deeper, the nearer its value is to the highest."""
    share = round(SCALE * max(value, 0.0) / top) if top > 0 else 0
    return f'<td class="cell" style="--heat: {share}%">{html}</td>'


def definitions(items: Mapping[str, Any]) -> str:
    """Return a list of names and values, nested as they are."""
    blocks = []
    for name, value in items.items():
        nested = isinstance(value, Mapping) and value
        text = definitions(value) if nested else escape("none" if value is None else str(value))
        blocks.append(f"<dt>{escape(str(name))}</dt><dd>{text}</dd>")
    return box("dl", blocks)


def table(name: str, head: Sequence[str | Heading], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column names the rows; the page offers it as the file `<name>.csv`."""
    cells = [
        "".join([f'<th scope="row">{escape(row[0])}</th>', *(tag("td", c) for c in row[1:])])
        for row in rows
    ]
    return table_of(name, head, cells)


def table_of_columns(name: str, columns: Mapping[str | Heading, Mapping[str, str]]) -> str:
    """Return a table of columns by their heads, each with its cells by row; a dash stands where one has none."""
    keys = dict.fromkeys(key for column in columns.values() for key in column)
    rows = [(key, *(column.get(key, "—") for column in columns.values())) for key in keys]
    return table(name, ("", *columns), rows)


def table_of(name: str, head: Sequence[str | Heading], html_rows: Iterable[str]) -> str:
    """Return a table as `table` does, of rows whose cells are markup."""
    titles = "".join(map(_title, head))
    body = [f"<tr>{row}</tr>" for row in html_rows]
    blocks = [f"<thead><tr>{titles}</tr></thead>", box("tbody", body)]
    opening = f'<div class="scroll" tabindex="0"><table data-name="{escape(name)}">'
    return opening + "\n".join(blocks) + "</table></div>"


def _title(cell: str | Heading) -> str:
    if isinstance(cell, str):
        return f'<th scope="col">{escape(cell)}</th>'
    lines = "<br>".join(escape(line).replace("_", "_<wbr>") for line in cell.lines)
    return f'<th scope="col" title="{escape(cell.whole)}">{lines}</th>'


def plain(name: str) -> str:
    """Return a key as words."""
    return name.replace("_", " ").replace("/", " · ")
