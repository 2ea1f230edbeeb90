"""Processor time of a program in the sandbox of a Ray actor, in batches of 64, beside that of this machine's pool.

python -m tests.algorithms.rollout_workers.ray_overhead

All of Ray's own processes count, once they have started: what they need to come up is no cost of a program.
Programs are HumanEval's canonical solutions; no verdict is remembered. The variants take turns, each time in a
process of its own.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from llm_decpomdp.algorithms.rollout_workers.ray_workers import connect
from llm_decpomdp.envs.sandbox import Sandbox
from tests.support.processes import python
from tools.performance.harness.processes import cpu_seconds
from tools.performance.sandbox.ours import canonical_programs, jobs, passes

BATCH, BATCHES, ROUNDS, LIMIT = 64, 40, 5, 1.10

QUIET, PATIENCE = 0.1, 60
"""Processor seconds of a second in which nothing starts, and how many seconds to wait for one."""


class Grader:
    """A sandbox as users have it, with a worker for each core, but for its memory of verdicts."""

    def __init__(self) -> None:
        self.sandbox = Sandbox(cache_size=0)

    def grade(self, batch: Any) -> int:
        """Run programs, and return how many passed."""
        return sum(map(passes, self.sandbox.run_batch(batch)))


def local() -> Callable[[Any], int]:
    return Grader().grade


def ray() -> Callable[[Any], int]:
    module = connect()
    actor = module.remote(Grader).remote()
    return lambda batch: int(module.get(actor.grade.remote(batch)))


def cost(variant: str) -> float:
    """Return the milliseconds of processors that a program takes, on average."""
    batch = jobs(canonical_programs(BATCH))
    grade = {"local": local, "ray": ray}[variant]()
    assert grade(batch) == BATCH  # which starts what there is to start
    settle()
    before = cpu_seconds(os.getpid())
    for _ in range(BATCHES):
        grade(batch)
    return 1000 * (cpu_seconds(os.getpid()) - before) / BATCH / BATCHES


def settle() -> None:
    """Wait for a quiet second.

    Raises:
        RuntimeError: If there is none.
    """
    for _ in range(PATIENCE):
        before = cpu_seconds(os.getpid())
        time.sleep(1)
        if cpu_seconds(os.getpid()) - before < QUIET:
            return
    raise RuntimeError(f"processes do not come to rest in {PATIENCE} s")


def main() -> None:
    costs: dict[str, list[float]] = {"local": [], "ray": []}
    for _ in range(ROUNDS):
        for variant, values in costs.items():
            values.append(float(python("-m", __spec__.name, variant).stdout.split()[-1]))
    medians = {variant: statistics.median(values) for variant, values in costs.items()}
    ratio = medians["ray"] / medians["local"]
    for variant, values in costs.items():
        rounds = ", ".join(f"{value:.2f}" for value in values)
        print(f"{variant}: {medians[variant]:.2f} ms of processors a program ({rounds})")
    print(f"ratio {ratio:.2f}, at most {LIMIT:.2f}: {'holds' if ratio <= LIMIT else 'FAILS'}")
    raise SystemExit(ratio > LIMIT)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(cost(sys.argv[1]))
    else:
        main()
