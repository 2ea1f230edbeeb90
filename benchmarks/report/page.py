"""A self-contained HTML page and its blocks (the jinja2 macros of blocks.html).

Plain strings are escaped; markup has the type `Markup`.
"""

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

# Percent of the heat's color at the highest value, on which text stays readable.
SCALE = 58


@dataclass(frozen=True)
class Heading:
    """The head of a column in several lines, with the whole text as its title."""

    lines: tuple[str, ...]
    whole: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table with a class or a color."""

    text: str
    kind: str = ""
    heat: int | None = None


def _breakable(text: str) -> Markup:
    # Names such as tests_passed have no space at which a narrow table could break them.
    return Markup(str(escape(text)).replace("_", "_<wbr>"))


TEMPLATES = Environment(loader=FileSystemLoader(HERE), autoescape=True)
TEMPLATES.filters["breakable"] = _breakable


def render(macro: str, *arguments: Any) -> Markup:
    """Return the markup of a macro of `blocks.html`."""
    module: Any = TEMPLATES.get_template("blocks.html").module
    return Markup(getattr(module, macro)(*arguments))


RELOADS = '<body data-reload="30">'
"""The body of the page of a run that goes on, and the seconds after which it reloads."""


def end_reloads(text: str) -> str:
    """Return a document that no longer reloads itself, and does not say so."""
    return text.replace(RELOADS, "<body>", 1)


def page(title: str, blocks: Iterable[str], moment: str = "") -> str:
    """Return the whole document; blocks are markup. `moment` tells how far a run is that goes on."""
    # The digest is over all characters of the element, so its first line break is here and not in the template.
    script = "\n" + (HERE / "page.js").read_text(encoding="utf-8")
    # The policy forbids every download, and every script but this one: completions are untrusted text.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    style = (HERE / "page.css").read_text(encoding="utf-8")
    parts = [*map(Markup, (policy, style, script)), list(map(Markup, blocks))]
    body = Markup(RELOADS if moment else "<body>")
    return render("page", title, *parts, body, moment)


def tag(name: str, text: str, kind: str = "") -> Markup:
    """Return an element with a text."""
    return render("tag", name, text, kind)


def prose(text: str, kind: str = "") -> Markup:
    """Return a paragraph; text in backquotes becomes code, and papers of the arXiv become links."""
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    paper = r'<a href="https://arxiv.org/abs/\1" rel="noreferrer">\g<0></a>'
    return tag("p", Markup(re.sub(r"arXiv ([0-9]{4}[.][0-9]{5})", paper, html)), kind)


def box(name: str, blocks: Iterable[str], kind: str = "") -> Markup:
    """Return an element with blocks of markup."""
    return render("box", name, list(map(Markup, blocks)), kind)


def details_block(summary: str, html: str, *, note: str = "") -> Markup:
    """Return a block that its summary opens."""
    return render("details", summary, Markup(html), note)


def listing(text: str) -> Markup:
    """Return code in a scrolling block."""
    return render("listing", text)


def link(text: str, **filters: object) -> Markup:
    """Return a link to the transcripts that pass the filters."""
    # Names of tasks may have slashes and ampersands.
    query = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in filters.items())
    return Markup('<a href="#{}">{}</a>').format(query, text)


def heat_cell(text: str, value: float, top: float) -> Cell:
    """Return a cell whose color shows its share of the highest value."""
    # Negative rewards have no color, as the scale begins at 0.
    return Cell(text, "cell", round(SCALE * max(value, 0.0) / top) if top > 0 else 0)


def definitions(items: Mapping[str, Any]) -> Markup:
    """Return a nested list of names and values."""
    return render("definitions", items)


def table(name: str, head: Sequence[str | Heading], rows: Iterable[Sequence[str | Cell]]) -> Markup:
    """Return a table whose first column names the rows; the page can save it as `<name>.csv`."""
    return render("table", name, head, list(rows))


def table_of_columns(name: str, columns: Mapping[str | Heading, Mapping[str, str]]) -> Markup:
    """Return a table of columns by their heads, each with its cells by row; missing cells get a dash."""
    keys = dict.fromkeys(key for column in columns.values() for key in column)
    rows = [(key, *(column.get(key, "—") for column in columns.values())) for key in keys]
    return table(name, ("", *columns), rows)


def plain(name: str) -> str:
    """Return a key as words."""
    return name.replace("_", " ").replace("/", " · ")
