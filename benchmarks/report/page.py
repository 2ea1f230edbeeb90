"""A self-contained HTML page, and the blocks that it is built of (jinja2 macros in blocks.html)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

HERE = Path(__file__).parent

SCALE = 58
"""Percent of the heat's color at the highest value: text stays readable on it."""


@dataclass(frozen=True)
class Heading:
    """The head of a column in several lines, and the whole text as its title."""

    lines: tuple[str, ...]
    whole: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table with a class or a color."""

    text: str
    kind: str = ""
    heat: int | None = None


def _breakable(text: str) -> Markup:
    return Markup(str(escape(text)).replace("_", "_<wbr>"))


TEMPLATES = Environment(loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=False)
TEMPLATES.filters["breakable"] = _breakable


def render(macro: str, *arguments: Any) -> Markup:
    """Return the markup of a macro of `blocks.html`."""
    module: Any = TEMPLATES.get_template("blocks.html").module
    return Markup(getattr(module, macro)(*arguments))


def page(title: str, blocks: Iterable[str]) -> str:
    """Return the whole document; blocks are markup."""
    script = "\n" + (HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return TEMPLATES.get_template("page.html").render(
        title=title,
        policy=Markup(
            f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
        ),
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        blocks=map(Markup, blocks),
    )


def tag(name: str, text: str, kind: str = "") -> Markup:
    """Return an element that holds a text."""
    return render("tag", name, text, kind)


def prose(text: str, kind: str = "") -> Markup:
    """Return a paragraph of a text in which `code` stands in such marks; papers of the arXiv become links."""
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    paper = r'<a href="https://arxiv.org/abs/\1" rel="noreferrer">\g<0></a>'
    return tag("p", Markup(re.sub(r"arXiv ([0-9]{4}[.][0-9]{5})", paper, html)), kind)


def box(name: str, blocks: Iterable[str], kind: str = "") -> Markup:
    """Return an element that holds blocks of markup."""
    return render("box", name, list(map(Markup, blocks)), kind)


def details_block(summary: str, html: str, *, note: str = "") -> Markup:
    """Return a block behind its summary."""
    return render("details", summary, Markup(html), note)


def listing(text: str) -> Markup:
    """Return code in a block that scrolls."""
    return render("listing", text)


def link(text: str, **filters: object) -> Markup:
    """Return a link to the transcripts that pass the filters."""
    query = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in filters.items())
    return Markup('<a href="#{}">{}</a>').format(query, text)


def heat_cell(text: str, value: float, top: float) -> Cell:
    """Return a cell whose color is the deeper, the nearer its value is to the highest."""
    return Cell(text, "cell", round(SCALE * max(value, 0.0) / top) if top > 0 else 0)


def definitions(items: Mapping[str, Any]) -> Markup:
    """Return a list of names and values, nested as they are."""
    return render("definitions", items)


def table(name: str, head: Sequence[str | Heading], rows: Iterable[Sequence[str | Cell]]) -> Markup:
    """Return a table whose first column names the rows; the page offers it as the file `<name>.csv`."""
    return render("table", name, head, list(rows))


def table_of_columns(name: str, columns: Mapping[str | Heading, Mapping[str, str]]) -> Markup:
    """Return a table of columns by their heads, each with its cells by row; a dash stands where one has none."""
    keys = dict.fromkeys(key for column in columns.values() for key in column)
    rows = [(key, *(column.get(key, "—") for column in columns.values())) for key in keys]
    return table(name, ("", *columns), rows)


def plain(name: str) -> str:
    """Return a key as words."""
    return name.replace("_", " ").replace("/", " · ")
