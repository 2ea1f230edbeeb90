"""A self-contained HTML page: its style, and the blocks that it is built of.

Blocks take plain text and escape it; only the arguments named `html` or `blocks` are markup. The page's
policy forbids scripts and everything that would have to be fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark;
  --paper: #fdfcfa; --ink: #1f2328; --muted: #5d6470; --rule: #dedbd3; --well: #f5f2ec;
  --train: #0067a5; --evaluation: #bd4a00; --good: #1a6e46; --bad: #ab2f2f; --note: #fbeed0; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #16181c; --ink: #e4e4e0; --muted: #a3a9b3; --rule: #363a42; --well: #1e2127;
  --train: #63b3ee; --evaluation: #f2a04b; --good: #6cc796; --bad: #f0908a; --note: #3a301a; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 17px/1.55 Charter, "Bitstream Charter", "Iowan Old Style", Georgia, "Noto Serif", serif; }
main { display: grid; grid-template-columns: minmax(1rem, 1fr) minmax(0, 44rem) minmax(1rem, 1fr);
  padding: 2.5rem 0 4rem; }
main > * { grid-column: 2; min-width: 0; }
main > .wide { grid-column: 1 / -1; width: 100%; max-width: 76rem; margin-inline: auto;
  padding-inline: 1rem; }
h1 { font-size: 1.9rem; line-height: 1.2; font-weight: 600; margin: 0; }
h2 { font-size: 1.3rem; font-weight: 600; margin: 2.8rem 0 .4rem; }
h3 { font-size: 1.08rem; font-weight: 600; margin: 1.4rem 0 .5rem; }
h4 { font: 600 .85rem/1.4 system-ui, sans-serif; margin: 1.3rem 0 .5rem; }
p { margin: .6rem 0; }
.byline, figcaption, .small, dt, th, svg text { color: var(--muted); }
.byline, figcaption, .small, table, dl, summary, .facts, .tests, .points, .banner
  { font-family: system-ui, sans-serif; font-size: .85rem; line-height: 1.5; }
.byline { margin: .5rem 0 1.5rem; }
.banner { background: var(--note); border-left: 4px solid var(--evaluation); padding: .7rem 1rem;
  margin: 0 0 1.2rem; font-size: .95rem; }
.facts { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1rem;
  align-items: end; margin: 1.2rem 0; padding: 1rem 0; border-block: 1px solid var(--rule); }
.facts span { display: block; color: var(--muted); }
.facts b { font-size: 1.9rem; font-weight: 500; line-height: 1.3; font-variant-numeric: tabular-nums; }
.facts small { font-size: 1.05rem; font-weight: 400; color: var(--muted); white-space: nowrap; }
figure { margin: .6rem 0 1rem; }
figure svg { width: 100%; height: auto; display: block; }
svg text { font-family: system-ui, sans-serif; }
svg path, svg line { stroke-linejoin: round; }
.narrow-chart { display: none !important; }
@media (max-width: 34rem) { .narrow-chart { display: block !important; }
  .wide-chart { display: none !important; } body { font-size: 16px; } h1 { font-size: 1.45rem; } }
.key { white-space: nowrap; margin-right: 1rem; }
.key::before { content: ""; display: inline-block; width: 1.2em; height: 0; margin-right: .4em;
  vertical-align: .25em; border-top: 3px solid var(--color); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .6rem 0; }
th { font-weight: 500; text-align: left; }
th, td { padding: .25rem 1.4rem .25rem 0; border-bottom: 1px solid var(--rule); }
td { text-align: right; white-space: nowrap; } td:first-child { text-align: left; white-space: normal; }
th:not(:first-child) { text-align: right; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .15rem 1rem; margin: .4rem 0; }
dd { margin: 0; overflow-wrap: anywhere; } dd dl { margin: 0; }
@media (max-width: 34rem) { th, td { padding-right: .8rem; font-size: .8rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin: 0 0 .4rem 1rem; } }
pre { margin: .4rem 0; padding: .7rem .9rem; background: var(--well); border-radius: 4px;
  overflow: auto; max-height: 30rem; tab-size: 4;
  font: .8rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre.prose { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 20rem; }
code { font: .88em ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  overflow-wrap: anywhere; }
details { margin: .4rem 0; }
summary { cursor: pointer; color: var(--muted); }
summary b { color: var(--ink); font-weight: 600; }
.columns { display: grid; gap: 0 2.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
.columns > * { min-width: 0; }
.turn { border-top: 2px solid var(--rule); margin-top: .8rem; }
.turn h3 { display: flex; justify-content: space-between; gap: 1rem; margin-top: .5rem; }
.turn h3 span { font-variant-numeric: tabular-nums; white-space: nowrap; }
.points { list-style: none; padding: 0; margin: .3rem 0; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; }
.points .zero { color: var(--muted); }
.tests { list-style: none; padding: 0; margin: .3rem 0; }
.tests li { padding: .15rem 0 .15rem 1.5em; text-indent: -1.5em; overflow-wrap: anywhere; }
.tests b { display: inline-block; width: 1.5em; text-indent: 0; }
.pass b, .gain { color: var(--good); } .fail b, .fail i { color: var(--bad); } .tests i { font-style: normal; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--rule); }
"""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(title: str, blocks: Iterable[str]) -> str:
    """The whole document."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            *blocks,
            "</main>\n</body>\n</html>\n",
        ]
    )


def tag(name: str, text: str, kind: str = "") -> str:
    """An element that holds a text."""
    opening = f'{name} class="{kind}"' if kind else name
    return f"<{opening}>{escape(text)}</{name}>"


def box(name: str, blocks: Iterable[str], kind: str = "") -> str:
    """An element that holds blocks."""
    opening = f'{name} class="{kind}"' if kind else name
    return f"<{opening}>\n" + "\n".join(blocks) + f"\n</{name}>"


def folded(summary: str, html: str, *, note: str = "", unfolded: bool = False) -> str:
    """A block behind its summary."""
    state = " open" if unfolded else ""
    head = f"<b>{escape(summary)}</b> {escape(note)}"
    return f"<details{state}><summary>{head}</summary>\n{html}\n</details>"


def listing(text: str, *, prose: bool = False) -> str:
    """Code in a block that scrolls, or prose whose lines are broken."""
    # The parser drops one line end after <pre>, so one is given.
    return f'<pre{" class=prose" if prose else ""} tabindex="0">\n{escape(text)}</pre>'


def definitions(items: Mapping[str, Any]) -> str:
    """Names and values, nested as they are."""
    blocks = []
    for name, value in items.items():
        nested = isinstance(value, Mapping) and value
        shown = definitions(value) if nested else escape("none" if value is None else str(value))
        blocks.append(f"<dt>{escape(str(name))}</dt><dd>{shown}</dd>")
    return box("dl", blocks)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column names the rows."""
    lines = ["<tr>" + "".join(tag("th", cell) for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(tag("td", cell) for cell in row) + "</tr>" for row in rows]
    return '<div class="scroll">' + box("table", lines) + "</div>"


def number(value: float, *, sign: bool = False) -> str:
    """Two decimals, with a real minus sign."""
    text = f"{value:+.2f}" if sign else f"{value:.2f}"
    return text.replace("-0.00", "0.00").replace("+0.00", "0.00").replace("-", "\u2212")
