"""Runs variants turn by turn, so that whatever else the machine does slows all of them alike."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llm_decpomdp
from llm_decpomdp.benchmarks.performance.harness.processes import cpu_seconds, resident_megabytes

HOST = Path(__file__).with_name("host.py")
CONTENDERS = Path(__file__).parents[1] / "sandbox"


class BenchmarkError(RuntimeError):
    """A variant did not do its work: its speed would mean nothing."""


@dataclass(frozen=True)
class Spread:
    """Several measurements of one quantity."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def times(self, factor: float) -> Spread:
        """The same in another unit."""
        return Spread(self.median * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Contender:
    """A variant with a process of its own."""

    name: str
    file: str
    """The module of this folder that defines it."""
    kind: str
    """Its class there."""
    workers: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        """What tells contenders of one comparison apart."""
        return self.name, self.workers


@dataclass(frozen=True)
class Speed:
    """What one contender took, round by round."""

    contender: Contender
    programs: int
    """Programs in a round."""
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    gigabytes: float
    """Heap of the process that calls it, beside torch; 0 for a small process without torch."""
    parent_megabytes: float
    """Resident memory of that process."""

    @property
    def per_second(self) -> Spread:
        return Spread.of([self.programs / seconds for seconds in self.seconds])

    @property
    def cpu_milliseconds(self) -> Spread:
        return Spread.of([1000 * seconds / self.programs for seconds in self.cpu_seconds])

    def times_faster(self, other: Speed) -> Spread:
        """How many times as many programs a second as another, compared within each round."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        return Spread.of([theirs / ours for ours, theirs in pairs])

    def times_cpu(self, other: Speed) -> Spread:
        """How many times as much CPU time a program as another, compared within each round."""
        pairs = zip(self.cpu_seconds, other.cpu_seconds, strict=True)
        return Spread.of([ours / max(theirs, 1e-9) for ours, theirs in pairs])


class Parent:
    """A process that runs a contender: see `host.py`."""

    def __init__(
        self, contender: Contender, programs: Sequence[Mapping[str, str]], gigabytes: float
    ) -> None:
        self.contender = contender
        self.programs = programs
        path = str(Path(llm_decpomdp.__file__).parents[1])
        self.process = subprocess.Popen(
            [sys.executable, str(HOST)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        options = {
            "file": str(CONTENDERS / contender.file),
            "name": contender.kind,
            "options": {"workers": contender.workers, **contender.options},
            "gigabytes": gigabytes,
        }
        self._ask(options, answer=False)
        self._ask(list(programs))

    def _ask(self, request: object, answer: bool = True) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline() if answer else "{}"
        if not line:
            code = self.process.wait()
            raise BenchmarkError(f"the process of {self.contender.name} ended with code {code}")
        answered: dict[str, Any] = json.loads(line)
        return answered

    def run(self, indices: Sequence[int]) -> float:
        """Run some of the programs; the seconds that it took.

        Raises:
            BenchmarkError: If a program does not pass its tests.
        """
        answer = self._ask(list(indices))
        failed = [i for i, ok in zip(indices, answer["passed"], strict=True) if not ok]
        if failed:
            names = ", ".join(self.programs[index]["task_id"] for index in failed)
            raise BenchmarkError(f"{self.contender.name}: a right program does not pass: {names}")
        seconds: float = answer["seconds"]
        return seconds

    def cpu_seconds(self) -> float:
        """CPU time so far of the process and all below it."""
        return cpu_seconds(self.process.pid)

    def megabytes(self) -> float:
        """Resident memory of the process alone."""
        return resident_megabytes([self.process.pid])

    def __enter__(self) -> Parent:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise BenchmarkError(f"{self.contender.name} does not close") from None


def compare(
    contenders: Sequence[Contender],
    programs: Sequence[Mapping[str, str]],
    rounds: int,
    *,
    chunk: int,
    gigabytes: float = 0.0,
) -> dict[tuple[str, int], Speed]:
    """Run all programs with each contender, several rounds, after one that is not counted.

    Args:
        contenders: The variants, with keys that differ.
        programs: Rows of HumanEval.
        rounds: How often each contender runs every program.
        chunk: Programs that one contender runs before it is the next one's turn.
        gigabytes: Heap of the process that calls a contender; if not 0, it holds torch as well.

    Raises:
        BenchmarkError: If a contender fails a program.
    """
    indices = range(len(programs))
    chunks = [indices[start : start + chunk] for start in range(0, len(programs), chunk)]
    with ExitStack() as stack:
        parents = [stack.enter_context(Parent(c, programs, gigabytes)) for c in contenders]
        for parent in parents:
            parent.run(indices)
        megabytes = [parent.megabytes() for parent in parents]
        seconds: list[list[float]] = [[] for _ in parents]
        clocks = [[parent.cpu_seconds()] for parent in parents]
        for number in range(rounds):
            spent = _round(parents, chunks, number)
            for index, parent in enumerate(parents):
                seconds[index].append(spent[index])
                clocks[index].append(parent.cpu_seconds())
    return {
        contender.key: Speed(
            contender,
            len(programs),
            tuple(seconds[i]),
            tuple(b - a for a, b in zip(clocks[i], clocks[i][1:], strict=False)),
            gigabytes,
            megabytes[i],
        )
        for i, contender in enumerate(contenders)
    }


def _round(parents: Sequence[Parent], chunks: Sequence[Sequence[int]], first: int) -> list[float]:
    """Each parent runs every chunk; who begins changes from chunk to chunk."""
    spent = [0.0] * len(parents)
    for number, indices in enumerate(chunks, start=first):
        for offset in range(len(parents)):
            index = (number + offset) % len(parents)
            spent[index] += parents[index].run(indices)
    return spent
