"""What a shell completes: environments, configurations, runs and keys of a configuration."""

from __future__ import annotations

from pathlib import Path

MARKS = ("manifest.json", "metrics.jsonl", "suite.json")
"""Files of which one is in the folder of every run, evaluation and suite."""


def complete_environment(incomplete: str) -> list[str]:
    """Return the ids of environments that begin with a text."""
    from llm_decpomdp.registry import registered_ids

    return [name for name in registered_ids() if name.startswith(incomplete)]


def complete_config(incomplete: str) -> list[str]:
    """Return the names of configurations that begin with a text."""
    from llm_decpomdp.benchmarks.config.inputs import shipped

    return [name for name in shipped() if name.startswith(incomplete)]


def complete_key(incomplete: str) -> list[str]:
    """Return the keys of a configuration that begin with a text, each with its equals sign."""
    from llm_decpomdp.benchmarks.config.schema import KEYS

    return [f"{key}=" for key in KEYS if key.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Return the folders of runs that begin with a path, and by default those in `runs`."""
    text = incomplete or "runs/"
    parent = Path(text) if text.endswith("/") else Path(text).parent
    if not parent.is_dir():
        return []
    folders = [path for path in sorted(parent.iterdir()) if path.is_dir()]
    runs = [path for path in folders if any((path / name).exists() for name in MARKS)]
    # Elsewhere any folder may lead to runs.
    return [
        str(path) if path in runs else f"{path}/"
        for path in (runs or folders)
        if str(path).startswith(text.removeprefix("./"))
    ]
