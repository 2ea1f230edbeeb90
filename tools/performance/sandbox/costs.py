"""Costs of the sandbox besides time per program: start, memory, deadlines, waiting for single answers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument
from tools.performance.harness.processes import descendants, memory_megabytes
from tools.performance.harness.trials import BenchmarkError, Goal, Judgement, Spread
from tools.performance.sandbox.ours import jobs, passes

TESTS = instrument("def check(candidate):\n    assert candidate(2) == 4\n", "square")
SQUARE = Program((("main_0", "def square(x):\n    return x * x\n"),), "square")
BUSY = Program((("main_0", "def square(x):\n    while True:\n        pass\n"),), "square")

DEADLINE_SECONDS = 0.5
DEADLINE = Limits(load_seconds=5.0, test_seconds=DEADLINE_SECONDS, wall_factor=1.0, max_timeouts=1)
"""A deadline on the clock: one in processor time alone comes later on a busy machine, and should."""

WARM_UP = 10
"""Verdicts that are waited for before anything is timed."""

EPISODES = 64
"""Size of the vector step."""

SETTLE_SECONDS = 0.3
"""Time for a worker to get its next process ready after a verdict, before its memory is read."""


def plural(workers: int) -> str:
    """Return the number with its noun."""
    return f"{workers} worker" + ("s" if workers > 1 else "")


@contextmanager
def open_sandbox(workers: int, limits: Limits | None = None) -> Iterator[Sandbox]:
    """Open a sandbox that remembers no verdict; its workers end with the block."""
    sandbox = Sandbox(limits, workers=workers, cache_size=0)
    try:
        yield sandbox
    finally:
        sandbox.close()


def protections() -> str:
    """Return the layers of protection that are off, with the reasons."""
    with open_sandbox(1) as sandbox:
        missing = [f"{name} ({reason})" for name, reason in sandbox.layers().items() if reason]
    return f"without {', '.join(missing)}" if missing else "all on"


def judgements(
    rows: Sequence[Mapping[str, str]], workers: Sequence[int], rounds: int
) -> Iterator[Judgement]:
    """Measure start, memory, deadlines, and callers that each wait for one verdict."""
    yield from start(rounds)
    yield from deadline(rounds)
    for number in workers:
        episodes = rows[:EPISODES]
        name = f"{len(episodes)} single calls against one batch, {plural(number)}"
        yield Judgement(Goal(name, at_least=0.9), vector_step(episodes, number, rounds))


def start(rounds: int) -> list[Judgement]:
    """Open a sandbox of one worker several times; judge its start and memory before it runs anything.

    The start lasts from the constructor to the first verdict, less the time of a verdict.
    """
    milliseconds, megabytes, kind = [], [], ""
    for _ in range(rounds):
        before = descendants(os.getpid())
        begin = time.perf_counter()
        with open_sandbox(1) as sandbox:
            measure_seconds(sandbox, SQUARE)
            first = time.perf_counter() - begin
            usual = Spread.from_values(
                [measure_seconds(sandbox, SQUARE) for _ in range(WARM_UP)]
            ).median
            time.sleep(SETTLE_SECONDS)
            amount, kind = memory_megabytes(descendants(os.getpid()) - before)
        megabytes.append(amount)
        milliseconds.append(1000 * max(first - usual, 0.0))
    return [
        Judgement(Goal("start of a worker", "ms", at_most=100.0), Spread.from_values(milliseconds)),
        Judgement(
            Goal("memory of a worker", "MB", at_most=15.0), Spread.from_values(megabytes), kind
        ),
    ]


def deadline(rounds: int) -> list[Judgement]:
    """Run a program that never ends, then one that does; judge how late their verdicts are, in turn."""
    late, following = [], []
    with open_sandbox(1, DEADLINE) as sandbox:
        measure_seconds(sandbox, SQUARE)
        for _ in range(rounds):
            late.append(
                1000 * (measure_seconds(sandbox, BUSY, status="timeout") - DEADLINE_SECONDS)
            )
            following.append(1000 * measure_seconds(sandbox, SQUARE))
    return [
        Judgement(Goal("verdict after a deadline", "ms", at_most=50.0), Spread.from_values(late)),
        Judgement(
            Goal("next verdict after a kill", "ms", at_most=10.0), Spread.from_values(following)
        ),
    ]


def measure_seconds(sandbox: Sandbox, program: Program, status: str = "passed") -> float:
    """Return the seconds until the verdict, which must be the one that is expected."""
    begin = time.perf_counter()
    execution = sandbox.run(program, TESTS)
    seconds = time.perf_counter() - begin
    statuses = [test.status for test in execution.tests]
    if statuses != [status]:
        raise BenchmarkError(f"expected {status}, got {statuses}, {execution.error}")
    return seconds


def vector_step(programs: Sequence[Mapping[str, str]], workers: int, rounds: int) -> Spread:
    """Return programs a second when each is asked for alone, all at once, relative to one batch of them.

    Args:
        programs: Rows of HumanEval, one for each episode.
        workers: Number of workers.
        rounds: How often this is measured, after one round that is not counted.
    """
    prepared = jobs(programs)
    ratios = []
    with open_sandbox(workers) as sandbox, ThreadPoolExecutor(len(prepared)) as threads:
        for _ in range(rounds + 1):
            begin = time.perf_counter()
            batch = sandbox.run_batch(prepared)
            middle = time.perf_counter()
            single = list(threads.map(lambda job: sandbox.run(*job), prepared))
            end = time.perf_counter()
            if not all(passes(execution) for execution in (*batch, *single)):
                raise BenchmarkError("a right program does not pass when many ask at once")
            ratios.append((middle - begin) / (end - middle))
    return Spread.from_values(ratios[1:])
