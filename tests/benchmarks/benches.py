"""Suites that are run, for tests."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import call

SUITE = """# Who says something at random.
config: demo
override: [dataset.source=bundled]
tasks: 3
samples: 2
cells:
  - {method: random, seeds: [0, 1, 2]}
  - {name: broken, method: naive_concatenation, override: env.num_agents=1}
  - {method: gold}
"""

two_at_once = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2,
    reason="looks into /proc for two processes at once",
)


def bench(*arguments: str) -> int:
    """The exit code of `bench`, run here."""
    return call("bench", *arguments)


def suite(folder: Path, text: str = SUITE) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    return str(path)


def results(output: Path) -> dict[str, Any]:
    """All that the jobs of a suite have found, without times: episodes to the byte, and summaries."""
    found: dict[str, Any] = {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.glob("*/**/episodes.jsonl")
    }
    for path in output.glob("*/summary.json"):
        summary = json.loads(path.read_text())
        del summary["seconds"], summary["seconds_per_episode"]
        found[str(path.relative_to(output))] = summary
    return found
