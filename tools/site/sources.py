"""Pages for files of the checkout outside `docs/`, and links to them.

Pages of `docs/` link to files of the checkout by relative paths. On the site such a file is a page below
`source/`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""Folder of the checkout."""

DOCS = ROOT / "docs"

LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[#)])")
"""Target of a Markdown link to a file."""

LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".cff": "yaml"}
"""Language of a code block by the suffix of a file."""


def source_pages(origins: Iterable[Path]) -> dict[str, str]:
    """Make pages for all files outside `docs/` that these files link to, directly or indirectly.

    Args:
        origins: Markdown files of the checkout.

    Returns:
        Markdown by the page's path on the site.
    """
    waiting = list(origins)
    pages: dict[str, str] = {}
    while waiting:
        origin = waiting.pop()
        for path in _link(origin):
            if DOCS not in path.parents and find_page(path) not in pages:
                pages[find_page(path)] = _markdown(path)
                # A Markdown page may link to further files.
                waiting.append(path)
    return pages


def find_page(path: Path) -> str:
    """Return the path on the site of a file or folder of the checkout."""
    if DOCS in path.parents:
        return path.relative_to(DOCS).as_posix()
    name = PurePosixPath("source", path.relative_to(ROOT).as_posix())
    return str(name if path.suffix == ".md" else name.with_name(f"{name.name}.md"))


def find_origin(uri: str) -> Path:
    """Return the file of the checkout that a page of the site shows; it may not exist."""
    return ROOT / uri.removeprefix("source/") if uri.startswith("source/") else DOCS / uri


def rewritten(markdown: str, uri: str) -> str:
    """Return the text of a page with links to files of the checkout as links to their pages.

    Args:
        markdown: The text.
        uri: Path of the page on the site.
    """
    folder = find_origin(uri).parent

    def replace_link(match: re.Match[str]) -> str:
        path = (folder / match[1]).resolve()
        if ROOT not in path.parents or not path.exists() or DOCS / match[1] == path:
            return match[1]
        return os.path.relpath(find_page(path), PurePosixPath(uri).parent)

    return LINK.sub(replace_link, markdown)


def _link(origin: Path) -> Iterator[Path]:
    """Yield the files of the checkout that a Markdown file links to."""
    if origin.suffix != ".md":
        return
    for match in LINK.finditer(origin.read_text(encoding="utf-8")):
        path = (origin.parent / match[1]).resolve()
        if ROOT in path.parents and path.exists():
            yield path


def _markdown(path: Path) -> str:
    """Return a file, or the files of a folder, as Markdown."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.suffix in LANGUAGES]
        parts = (f"## `{file.relative_to(path)}`\n\n{_code(file)}" for file in files)
        return f"# `{name}`\n\n" + "\n\n".join(parts)
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return notebook(json.loads(path.read_text(encoding="utf-8")))
    return f"# `{name}`\n\n{_code(path)}"


def _code(path: Path) -> str:
    language = LANGUAGES.get(path.suffix, "text")
    return f"````{language}\n{path.read_text(encoding='utf-8').rstrip()}\n````\n"


def notebook(content: Mapping[str, Any]) -> str:
    """Return the cells of a Jupyter notebook as Markdown, with what they printed and drew.

    Args:
        content: The notebook, of format 4.
    """
    return "\n\n".join(part for cell in content["cells"] for part in _cell(cell))


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield a cell as Markdown, then its outputs."""
    source = "".join(cell["source"])
    yield f"```python\n{source}\n```" if cell["cell_type"] == "code" else source
    for output in cell.get("outputs", ()):
        if text := "".join(output.get("text", ())):
            yield f"```text\n{text.rstrip()}\n```"
        if image := output.get("data", {}).get("image/png"):
            data = "".join(image).strip()
            yield f'<img alt="Figure of the cell above" src="data:image/png;base64,{data}">'
