"""Tables of trials on a terminal, and the same in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from llm_decpomdp.benchmarks.performance.harness.goals import Judgement
from llm_decpomdp.benchmarks.performance.harness.table import (
    WIDTH,
    about,
    goal_table,
    number,
    spread,
)
from llm_decpomdp.benchmarks.performance.harness.trials import Measured

PACKAGES = ("torch", "transformers", "peft")


@dataclass(frozen=True)
class Report:
    """All that one command measured."""

    title: str
    settings: Mapping[str, object]
    """What was asked for."""
    variables: Mapping[str, str]
    """Environment variables that all contenders had."""
    sections: Sequence[Sequence[Measured]]
    """Variants that took turns."""
    judgements: Sequence[Judgement]

    def show(self) -> None:
        """Print everything."""
        console = Console(highlight=False)
        console.width = max(console.width, WIDTH)
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        variables = " ".join(f"{name}={value}" for name, value in _shown(self.variables).items())
        header = {**about(PACKAGES), "settings": settings, "all processes with": variables}
        for name, value in header.items():
            console.print(f"{name}: {value}", markup=False)
        console.print("medians (lowest to highest); tokens are those of completions", markup=False)
        console.print(trial_table(self.title, self.sections))
        if self.judgements:
            console.print(goal_table(self.judgements))

    def write(self, file: Path) -> None:
        """Everything as JSON."""
        content = {
            "about": about(PACKAGES),
            "settings": dict(self.settings),
            "variables": _shown(self.variables),
            "sections": [[asdict(each) for each in section] for section in self.sections],
            "judgements": [{**asdict(each), "met": each.met} for each in self.judgements],
        }
        file.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


def _shown(variables: Mapping[str, str]) -> dict[str, str]:
    inherited = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    there = {name: os.environ[name] for name in inherited if name in os.environ}
    return {**there, **{n: value for n, value in variables.items() if n != "PYTHONPATH"}}


def trial_table(title: str, sections: Sequence[Sequence[Measured]]) -> Table:
    """What each variant took: seconds by part, tokens a second, peak memory, and what else it tells."""
    every = [measured for section in sections for measured in section]
    parts = list(dict.fromkeys(part for m in every for t in m.trials for part in t.seconds))
    figures = list(dict.fromkeys(name for m in every for t in m.trials for name in t.figures))
    table = Table(title=title, title_justify="left")
    table.add_column("variant")
    total = ["total s"] if len(parts) > 1 else []
    headings = [f"{part} s" for part in parts]
    for heading in ("tokens", *headings, *total, "CPU s", "tokens/s", "peak MB", *figures):
        table.add_column(heading, justify="right")
    for section in sections:
        for measured in section:
            table.add_row(*_cells(measured, parts, bool(total), figures))
        table.add_section()
    return table


def _cells(
    measured: Measured, parts: Sequence[str], total: bool, figures: Sequence[str]
) -> list[str]:
    medians = [_median(t.seconds.get(part, 0.0) for t in measured.trials) for part in parts]
    if total:
        medians.append(_median(trial.total for trial in measured.trials))
    told = [
        _median(t.figures[name] for t in measured.trials)
        if name in measured.trials[0].figures
        else ""
        for name in figures
    ]
    return [
        measured.variant.name,
        _median(trial.tokens for trial in measured.trials),
        *medians,
        _median(trial.cpu_seconds for trial in measured.trials),
        spread(measured.tokens_per_second),
        spread(measured.megabytes),
        *told,
    ]


def _median(values: Iterable[float]) -> str:
    return number(median(values))
