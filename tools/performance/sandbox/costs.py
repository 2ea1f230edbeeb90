"""Costs of the sandbox apart from the time per program: start, memory, deadlines, single calls."""

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
"""A deadline on the clock, as a deadline in processor time is later on a busy machine."""

WARM_UP = 10
"""Verdicts before the measurement."""

EPISODES = 64
"""Size of the vector step."""

SETTLE_SECONDS = 0.3
"""Time in which a worker prepares its next process after a verdict, before the memory is read."""


def plural(workers: int) -> str:
    """Return the number with its noun."""
    return f"{workers} worker" + ("s" if workers > 1 else "")


@contextmanager
def open_sandbox(workers: int, limits: Limits | None = None) -> Iterator[Sandbox]:
    """Open a sandbox without a cache of verdicts, and close it at the end."""
    sandbox = Sandbox(limits, workers=workers, cache_size=0)
    try:
        yield sandbox
    finally:
        sandbox.close()


def protections() -> str:
    """Return the missing layers of protection with the reasons."""
    with open_sandbox(1) as sandbox:
        missing = [f"{name} ({reason})" for name, reason in sandbox.layers().items() if reason]
    return f"without {', '.join(missing)}" if missing else "all on"


def judgements(
    rows: Sequence[Mapping[str, str]], workers: Sequence[int], rounds: int
) -> Iterator[Judgement]:
    """Measure start, memory, deadlines, and parallel calls of single programs."""
    yield from start(rounds)
    yield from deadline(rounds)
    for number in workers:
        episodes = rows[:EPISODES]
        name = f"{len(episodes)} single calls against one batch, {plural(number)}"
        yield Judgement(Goal(name, at_least=0.9), vector_step(episodes, number, rounds))


def start(rounds: int) -> list[Judgement]:
    """Open a sandbox of one worker several times, and judge its start and memory.

    The start is the time from the constructor to the first verdict without the time of a verdict.
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
        # The first verdict is part of the start only as far as it is slower than a usual one.
        milliseconds.append(1000 * max(first - usual, 0.0))
    return [
        Judgement(Goal("start of a worker", "ms", at_most=100.0), Spread.from_values(milliseconds)),
        Judgement(
            Goal("memory of a worker", "MB", at_most=15.0), Spread.from_values(megabytes), kind
        ),
    ]


def deadline(rounds: int) -> list[Judgement]:
    """Run an endless program and a short one in turn, and judge the delays of their verdicts."""
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
    """Return the seconds until the verdict, which must be `status`."""
    begin = time.perf_counter()
    execution = sandbox.run(program, TESTS)
    seconds = time.perf_counter() - begin
    statuses = [test.status for test in execution.tests]
    if statuses != [status]:
        raise BenchmarkError(f"expected {status}, got {statuses}, {execution.error}")
    return seconds


def vector_step(programs: Sequence[Mapping[str, str]], workers: int, rounds: int) -> Spread:
    """Return the throughput of parallel calls of single programs, relative to one batch.

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
                raise BenchmarkError("a correct program fails in parallel calls")
            ratios.append((middle - begin) / (end - middle))
    return Spread.from_values(ratios[1:])
