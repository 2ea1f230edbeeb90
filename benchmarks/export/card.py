"""The card of an exported data set: how to load it, what is in it, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from llm_decpomdp.benchmarks.export.source import Content, Source
from llm_decpomdp.benchmarks.runs.results import data_sets


def card(source: Source, content: Content, rows: Mapping[str, int]) -> str:
    """Return the README.md of a data set, with the front matter that `datasets` reads.

    Args:
        source: The run or evaluation.
        content: The exported content.
        rows: Number of rows by split.
    """
    title = f"{source.name}: {content.name}"
    files = [{"split": split, "path": f"data/{split}.parquet"} for split in rows]
    front = {
        "pretty_name": title,
        "tags": ["llm-decpomdp", "multi-agent", "reinforcement-learning"],
        "configs": [{"config_name": "default", "data_files": files}],
    }
    counts = ", ".join(f"{count} rows in `{split}`" for split, count in rows.items())
    lines = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n",
        f"# {title}\n",
        f"Teams of language models at work, written by `llm-decpomdp export`: {counts}.\n",
        "```python\nimport datasets\n\ndata = datasets.load_dataset(FOLDER)\n```\n",
        "## Where it comes from\n",
        *_origin(source),
        "\nProblems keep the licences of the data that they come from.\n",
        "## Columns\n",
        "| column | type | what it is |\n|---|---|---|",
        *(f"| `{name}` | {c.kind} | {c.meaning} |" for name, c in content.columns.items()),
    ]
    return "\n".join(lines) + "\n"


def _origin(source: Source) -> list[str]:
    """Return the origin of the data from the manifest, as lines of a list."""
    keys = ("environment", "algorithm", "model", "seed", "created")
    lines = [f"- {key}: {source.manifest[key]}" for key in keys if key in source.manifest]
    for name, data in data_sets(source.manifest.get("data", {})):
        stand_in = ", a stand-in for the benchmark and not the benchmark itself"
        lines.append(
            f"- data of `{name}`: {data['name']}, {data['split']}, from {data['source']}, "
            f"fingerprint {data['fingerprint']}{stand_in if data['stand_in'] else ''}"
        )
    return lines
