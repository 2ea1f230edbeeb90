"""Leak check: `python -m tools.performance.sandbox.leaks --programs 20000`.

It runs correct programs, and programs that hang, crash, print too much, fill their memory or leave files and
threads. Before and after them it counts processes, descriptors, memory and temporary files of the trainer and its
workers. The exit status is 1 after a leak or a wrong verdict.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.envs.sandbox import Execution, Limits, Program, Sandbox, Tests, instrument
from tools.performance.harness.processes import PROC, descendants, memory_megabytes
from tools.performance.harness.trials import about, show, to_columns
from tools.performance.sandbox.costs import protections
from tools.performance.sandbox.ours import canonical_programs, jobs

LIMITS = Limits(
    load_seconds=5.0, test_seconds=0.2, memory_bytes=128 * 2**20, max_timeouts=1, wall_factor=20.0
)
TESTS = instrument("def check(candidate):\n    assert candidate(2) == 4\n", "sq")
RIGHT = "def sq(x):\n    return x * x\n"
UNUSUAL = {
    "fails": ("failed", "def sq(x):\n    return x + 1\n"),
    "raises": ("error", "def sq(x):\n    return 1 / 0\n"),
    "does not parse": ("error", "def sq(x:\n"),
    "ends its process": ("crashed", "import os\ndef sq(x):\n    os._exit(1)\n"),
    "hangs": ("timeout", "def sq(x):\n    while True:\n        pass\n"),
    "fills its memory": ("memory", "def sq(x):\n    return bytes(10**9)\n"),
    "floods its output": ("passed", "print('x' * 10**6)\n" + RIGHT),
    "leaves threads": (
        "passed",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()\n" + RIGHT,
    ),
    "opens descriptors": ("passed", "import os\nkept = [os.pipe() for _ in range(20)]\n" + RIGHT),
    "leaves files": (
        "passed",
        "try:\n    open('left', 'w').write('x' * 10**5)\nexcept OSError:\n    pass\n" + RIGHT,
    ),
    "returns an iterator": ("failed", "def sq(x):\n    return iter(range(x))\n"),
    "is a large answer": ("failed", "def sq(x):\n    return 'x' * 10**6\n"),
}
"""Status and code of unusual programs by their behaviour."""

EVERY = 8
"""Distance from one unusual program to the next."""

BATCH = 64
WARM_UP = 1000
"""Programs before the first measurement of memory, which fill the caches."""

SETTLE_SECONDS = 5.0
"""Time limit for the end of processes."""

GROWTH_MEGABYTES = 10.0
"""Allowed growth of memory after the warm-up, of the trainer and of each worker."""

Job = tuple[Program, Tests]


Usage = Mapping[str, float | None]
"""Resources of a trainer and its workers by name; `None` without permission to read them."""


@dataclass(frozen=True)
class LeakReport:
    """Results of a run."""

    usages: Mapping[str, Usage]
    """Resources before the warm-up, after it, at the end, and after closing."""
    statuses: Counter[str]
    wrong: list[str]
    """Programs with a wrong verdict."""
    seconds: float
    workers: int

    def leaks(self) -> list[str]:
        """Return a line for each resource that has grown, and for each wrong verdict."""
        before, warm, end, closed = self.usages.values()
        lines = [f"wrong verdict: {name}" for name in self.wrong[:10]]
        for name, first, last in (
            ("processes after closing", before["processes"], closed["processes"]),
            ("temporary files", before["temporary files"], closed["temporary files"]),
        ):
            lines += _more(name, first, last)
        room = {
            "processes": 0.0,
            "descriptors of the trainer": 0.0,
            "descriptors of workers": 0.0,
            "MB of the trainer": GROWTH_MEGABYTES,
            "MB of workers": GROWTH_MEGABYTES * self.workers,
        }
        for name, growth in room.items():
            lines += _more(name, warm[name], end[name], growth)
        return lines


def _more(name: str, first: float | None, last: float | None, room: float = 0.0) -> list[str]:
    if first is None or last is None or last <= first + room:
        return []
    return [f"{name}: {last:.4g}, more than {first + room:.4g}"]


def measure(programs: int, workers: int, warm_up: int = WARM_UP) -> LeakReport:
    """Run programs, and measure the resources before and after them.

    Args:
        programs: Number of programs without those of the warm-up.
        workers: Number of workers.
        warm_up: Programs before the first measurement of memory.
    """
    usual = jobs(canonical_programs())
    statuses: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        # Files of other programs in the usual folder would count as leaks.
        old, tempfile.tempdir = tempfile.tempdir, folder
        try:
            usages = {"before": usage(Path(folder))}
            sandbox = Sandbox(LIMITS, workers=workers, cache_size=0)
            _run(sandbox, usual, range(warm_up), Counter(), wrong)
            usages["after the warm-up"] = usage(Path(folder))
            begin = time.monotonic()
            _run(sandbox, usual, range(warm_up, warm_up + programs), statuses, wrong)
            seconds = time.monotonic() - begin
            usages["at the end"] = usage(Path(folder))
            sandbox.close()
            usages["after closing"] = usage(Path(folder))
        finally:
            tempfile.tempdir = old
    return LeakReport(usages, statuses, wrong, seconds, workers)


def _run(
    sandbox: Sandbox, usual: list[Job], numbers: range, statuses: Counter[str], wrong: list[str]
) -> None:
    for start in range(numbers.start, numbers.stop, BATCH):
        batch = [_job(n, usual) for n in range(start, min(start + BATCH, numbers.stop))]
        executions = sandbox.run_batch([job for _, _, job in batch])
        for (name, status, _), execution in zip(batch, executions, strict=True):
            verdict = _status(execution)
            statuses[verdict] += 1
            if verdict != status:
                wrong.append(f"one that {name}: {verdict}, not {status}")


def _job(number: int, usual: list[Job]) -> tuple[str, str, Job]:
    """Return the behaviour, the expected status and the job of the program with this number."""
    if number % EVERY:
        return "is correct", "passed", usual[number % len(usual)]
    name = [*UNUSUAL][number // EVERY % len(UNUSUAL)]
    status, code = UNUSUAL[name]
    # The number makes each program different, so that no cache can answer.
    return name, status, (Program((("main_0", f"{code}# {number}"),), "sq"), TESTS)


def _status(execution: Execution) -> str:
    return next((test.status for test in execution.tests if not test.passed), "passed")


def usage(folder: Path) -> Usage:
    """Return the resources of this process and its descendants, when they no longer change.

    Args:
        folder: Folder of temporary files.
    """
    below = _wait_until_settled()
    return {
        "processes": len(below),
        "descriptors of the trainer": _descriptors([os.getpid()]),
        "descriptors of workers": _descriptors(below),
        "MB of the trainer": memory_megabytes([os.getpid()])[0],
        "MB of workers": memory_megabytes(below)[0],
        "temporary files": sum(1 for _ in folder.rglob("*")),
    }


def _wait_until_settled() -> list[int]:
    """Return the descendants of this process, when they no longer change."""
    deadline = time.monotonic() + SETTLE_SECONDS
    below: list[int] = []
    while True:
        last, below = below, sorted(descendants(os.getpid()) - {os.getpid()})
        if last == below or time.monotonic() > deadline:
            return below
        time.sleep(0.3)


def _descriptors(processes: Sequence[int]) -> int | None:
    try:
        return sum(len(os.listdir(PROC / str(process) / "fd")) for process in processes)
    except PermissionError:
        return None


def report(findings: LeakReport) -> None:
    """Print the report."""
    rows = findings.usages
    headings = list(next(iter(rows.values())))
    table = to_columns("Resources of the trainer and its workers", "moment", headings)
    for moment, row in rows.items():
        table.add_row(moment, *("unknown" if n is None else f"{n:.4g}" for n in row.values()))
    statuses = findings.statuses
    header = {
        **about(),
        "protections": protections(),
        "programs": f"{statuses.total()} in {findings.seconds:.1f} s, {findings.workers} workers",
        "verdicts": ", ".join(f"{number} {status}" for status, number in sorted(statuses.items())),
    }
    show(header, [table, *(f"LEAK: {leak}" for leak in findings.leaks())])


def main(
    programs: Annotated[int, typer.Option(min=1, help="Number of programs.")] = 20_000,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 2,
) -> None:
    """Check that programs leave nothing behind."""
    findings = measure(programs, workers)
    report(findings)
    if findings.leaks():
        raise SystemExit(1)


if __name__ == "__main__":
    typer.run(main)
