"""Trials: variants run turn by turn, so that whatever else the machine does slows all of them alike.

Each trial has a process of its own, one at a time (see `host.py`): it has its own peak of memory, and waits for
nobody's threads.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llm_decpomdp
from llm_decpomdp.benchmarks.runs import SETTINGS

HOST = Path(__file__).with_name("host.py")
VARIANTS = Path(__file__).parents[1]

SHOWN_CHARACTERS = 1500
"""Characters of a failed process's errors that are shown, from the end."""

TICK = 0.01
"""Least processor time that a ratio is taken of, in seconds: the resolution of the clock."""


class BenchmarkError(RuntimeError):
    """A variant did not do its work: its speed would mean nothing."""


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
    """Module below the folder `performance` that defines it, such as `sandbox/ours.py`."""
    function: str
    """Generator function in that module; `host.py` says what it yields."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    python: str = sys.executable
    """Interpreter, which may have packages of its own."""
    tuned: bool = True
    """True if it gets the settings that the command line gives its own process, where the others do."""
    gigabytes: float = 0.0
    """Heap of its process, beside torch; 0 for a small process without torch."""


@dataclass(frozen=True)
class Measurement:
    """Work and costs of one process."""

    units: int
    """Completion tokens that were sampled or learned from, or programs that ran."""
    seconds: float
    cpu_seconds: float
    """Processor time of the process and all below it: waiting for other programs is not in it."""
    megabytes: float
    """Peak memory of the process alone."""
    parts: Mapping[str, float]
    """Seconds by part, where the work has several."""
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
        """Return the ratio of units a second to those of another variant, within each round."""
        return self._ratio(other, lambda trial: trial.units / trial.seconds)

    def times_cpu(self, other: Measured) -> Spread:
        """Return the ratio of processor time a unit to that of another variant, within each round."""
        return self._ratio(other, lambda trial: max(trial.cpu_seconds, TICK) / trial.units)

    def times_memory(self, other: Measured) -> Spread:
        """Return the ratio of peak memory to that of another variant, within each round."""
        return self._ratio(other, lambda trial: trial.megabytes)

    def _ratio(self, other: Measured, quantity: Callable[[Measurement], float]) -> Spread:
        pairs = zip(self.trials, other.trials, strict=True)
        return Spread.from_values([quantity(mine) / quantity(rival) for mine, rival in pairs])


def environment(tuned: bool, threads: int | None) -> dict[str, str]:
    """Return the variables of every variant's process, beside those that are set already.

    Args:
        tuned: Whether with the settings that the command line gives its own process.
        threads: Threads of torch; `None` leaves the choice to it.
    """
    path = str(Path(llm_decpomdp.__file__).parents[1])
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "WANDB_MODE": "disabled"}
    number = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    return {**(SETTINGS if tuned else {}), **number, **offline, "PYTHONPATH": path}


def run(variant: Variant, variables: Mapping[str, str]) -> Measurement:
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
    """Run every variant in every round; who begins changes from round to round.

    Raises:
        BenchmarkError: If a trial fails.
    """
    trials: dict[str, list[Measurement]] = {variant.name: [] for variant in variants}
    for number in range(rounds):
        for offset in range(len(variants)):
            variant = variants[(number + offset) % len(variants)]
            begin = time.perf_counter()
            trials[variant.name].append(run(variant, variables))
            seconds = time.perf_counter() - begin
            progress(f"round {number + 1} of {rounds}: {variant.name} ({seconds:.0f} s)")
    return {variant.name: Measured(variant, tuple(trials[variant.name])) for variant in variants}


def progress(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)
