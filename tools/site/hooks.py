"""Hooks of MkDocs, used by `mkdocs.yml`: generated pages, their position in the navigation, and links.

Pages of environments and of public names are below `environments.md` and `commands.md`. Pages that are not in the
navigation are added at its end.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from llm_decpomdp.benchmarks.config.schema import FIELDS
from llm_decpomdp.registry import registered_ids
from tools.quality.config_docs import anchor, find_anchors
from tools.site.content import link_names, title_cells
from tools.site.gallery import gallery, reference
from tools.site.sources import DOCS, ROOT, rewritten, source_pages

Entry = dict[str, Any] | str

BOOSTS = {"configuration.md": 10.0}
"""Weights of pages in the search; 1 for all others. A key stands on many pages and is explained on one."""

KEY_BOOST = 100.0
"""Weight of the section of a key, divided by the characters of its name: `output.report` then precedes
`output.report_every`."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site and to the navigation."""
    folders = {
        "environments": ("environments.md", "All", gallery()),
        "api": ("commands.md", "Python packages", reference()),
    }
    for folder, (above, title, pages) in folders.items():
        for name, text in pages.items():
            files.append(File.generated(config, f"{folder}/{name}.md", content=text))
        entries = [{_short(name): f"{folder}/{name}.md"} for name in pages]
        _section(config.nav, above).insert(1, {title: entries})
    for uri, text in source_pages([*DOCS.glob("*.md"), ROOT / "README.md"]).items():
        files.append(File.generated(config, uri, content=text))
    missing = [
        page.name for page in sorted(DOCS.glob("*.md")) if page.name not in _uris(config.nav)
    ]
    if missing:
        config.nav.append({"More": missing})
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Replace links to files of the checkout by links to their pages."""
    if page.file.src_uri in BOOSTS:
        page.meta["search"] = {"boost": BOOSTS[page.file.src_uri]}
    return rewritten(markdown, page.file.src_uri)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Link ids of environments and keys of configurations, and prepare tables for narrow screens."""
    targets = {key: f"configuration.html{anchor}" for key, anchor in find_anchors().items()}
    targets |= {env_id: f"environments/{env_id}.html" for env_id in registered_ids()}
    own = {
        name: get_relative_url(target, page.url)
        for name, target in targets.items()
        if target != page.url
    }
    return title_cells(link_names(html, own))


# Behind the index of the search, and before that of offline sites.
@event_priority(-50)  # type: ignore[untyped-decorator]
def on_post_build(config: MkDocsConfig) -> None:
    """Copy the Markdown of the pages to the site, for `llms.txt`."""
    for page in DOCS.glob("*.md"):
        shutil.copy(page, Path(config.site_dir))
    _boost_keys(Path(config.site_dir, "search/search_index.json"))


def _boost_keys(path: Path) -> None:
    """Let the search show the section of a key first."""
    index = json.loads(path.read_text(encoding="utf-8"))
    keys = {f"configuration.html{anchor(key)}": key for key in (*find_anchors(), *FIELDS)}
    for entry in index["docs"]:
        key = keys.get(entry["location"])
        if key is not None:
            weight = KEY_BOOST / len(key) if "." in key else 3.0
            entry["boost"] = entry.get("boost", 1.0) * weight
    path.write_text(json.dumps(index, separators=(",", ":")), encoding="utf-8")


def _short(name: str) -> str:
    return name.removeprefix("llm_decpomdp.")


def _section(nav: list[Entry], uri: str) -> list[Entry]:
    """Return the entries of the section of a page.

    Raises:
        LookupError: If there is no such section.
    """
    for entry in nav:
        for section in entry.values() if isinstance(entry, dict) else ():
            if isinstance(section, list) and uri in _uris(section):
                return section
    raise LookupError(f"mkdocs.yml has no section with {uri}: add one to its nav")


def _uris(entries: Any) -> list[str]:
    """Return the pages of a part of the navigation."""
    if isinstance(entries, str):
        return [entries]
    parts = entries.values() if isinstance(entries, dict) else entries
    return [uri for part in parts for uri in _uris(part)]
