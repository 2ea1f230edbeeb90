"""Trials of models: each in a process of its own, one at a time, round by round.

A process has its own peak of memory, and none waits for another's threads. It loads its model, does the
work once uncounted and then once counted, and ends; a second model in memory would leave too little for
the largest contenders.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llm_decpomdp
from llm_decpomdp.benchmarks.performance.harness.comparison import BenchmarkError, Spread
from llm_decpomdp.benchmarks.runs.environment import SETTINGS

HOST = Path(__file__).with_name("trial_host.py")
VARIANTS = Path(__file__).parents[1] / "models"

LAST_WORDS = 1500
"""Characters of a failed process's errors that are shown."""


@dataclass(frozen=True)
class Variant:
    """A way to do the work."""

    name: str
    file: str
    """The module of this folder that defines it."""
    function: str
    """Its function there: gives `tokens`, `seconds` by part, `cpu_seconds`, and `figures` that say more."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    python: str = sys.executable
    """The interpreter, which may have packages of its own."""
    tuned: bool = True
    """Whether it gets the settings that the command line gives its own process, where the others do."""


@dataclass(frozen=True)
class Trial:
    """What one process did and took."""

    tokens: int
    """Completion tokens that were sampled or learned from."""
    seconds: Mapping[str, float]
    """By part."""
    cpu_seconds: float
    """Processor time of all of that: waiting for other programs is not in it."""
    peak_megabytes: float
    figures: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True)
class Measured:
    """All trials of a variant, round by round."""

    variant: Variant
    trials: tuple[Trial, ...]

    def spread(self, quantity: Callable[[Trial], float]) -> Spread:
        """A quantity over the rounds."""
        return Spread.of([quantity(trial) for trial in self.trials])

    @property
    def tokens_per_second(self) -> Spread:
        return self.spread(lambda trial: trial.tokens / trial.total)

    @property
    def megabytes(self) -> Spread:
        return self.spread(lambda trial: trial.peak_megabytes)

    def times_faster(self, other: Measured) -> Spread:
        """How many times as many tokens a second as another, compared within each round."""
        pairs = zip(self.trials, other.trials, strict=True)
        return Spread.of([a.tokens / a.total / (b.tokens / b.total) for a, b in pairs])

    def times_cpu(self, other: Measured) -> Spread:
        """How many times the processor time a token of another, compared within each round."""
        pairs = zip(self.trials, other.trials, strict=True)
        return Spread.of([a.cpu_seconds / a.tokens / (b.cpu_seconds / b.tokens) for a, b in pairs])

    def beside(self, other: Measured) -> str:
        """A remark on a comparison of speed, which says whether other programs had a part in it."""
        return f"{self.times_cpu(other).median:.2g} times the CPU time"

    def times_memory(self, other: Measured) -> Spread:
        """How many times the peak memory of another, compared within each round."""
        pairs = zip(self.trials, other.trials, strict=True)
        return Spread.of([a.peak_megabytes / b.peak_megabytes for a, b in pairs])


def environment(tuned: bool, threads: int | None) -> dict[str, str]:
    """The variables of every contender's process, beside those that are set already.

    Args:
        tuned: Whether with the settings that the command line gives its own process.
        threads: Threads of torch; `None` leaves the choice to it.
    """
    path = str(Path(llm_decpomdp.__file__).parents[1])
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "WANDB_MODE": "disabled"}
    number = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    return {**(SETTINGS if tuned else {}), **number, **offline, "PYTHONPATH": path}


def run(variant: Variant, variables: Mapping[str, str]) -> Trial:
    """Run one trial.

    Raises:
        BenchmarkError: If its process fails.
    """
    request = {
        "file": str(VARIANTS / variant.file),
        "function": variant.function,
        "arguments": dict(variant.arguments),
    }
    if not variant.tuned:
        variables = {name: value for name, value in variables.items() if name not in SETTINGS}
    done = subprocess.run(
        [variant.python, str(HOST)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    if done.returncode:
        words = done.stderr[-LAST_WORDS:]
        raise BenchmarkError(f"{variant.name} ended with code {done.returncode}: {words}")
    return Trial(**json.loads(done.stdout))


def compare(
    variants: Sequence[Variant], rounds: int, variables: Mapping[str, str]
) -> dict[str, Measured]:
    """Run every variant in every round; who begins changes from round to round.

    Raises:
        BenchmarkError: If a trial fails.
    """
    found: dict[str, list[Trial]] = {variant.name: [] for variant in variants}
    for number in range(rounds):
        for offset in range(len(variants)):
            variant = variants[(number + offset) % len(variants)]
            begin = time.perf_counter()
            found[variant.name].append(run(variant, variables))
            seconds = time.perf_counter() - begin
            tell(f"round {number + 1} of {rounds}: {variant.name} ({seconds:.0f} s)")
    return {variant.name: Measured(variant, tuple(found[variant.name])) for variant in variants}


def tell(text: str) -> None:
    """Say on standard error what goes on."""
    print(text, file=sys.stderr, flush=True)
