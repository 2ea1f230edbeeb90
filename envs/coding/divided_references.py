"""References divided between two agents: the data's own division, or the best extraction from a whole solution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_decpomdp.envs.coding.division import Division, measure_divisions
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.envs.source_code.function_extraction import divide_function

MAX_TRIED = 16
"""Extractions of a reference that are run, in the order of `divide_function`."""

AT_ONCE = 4
"""Extractions that are run together."""

REFERENCE = "reference"
"""Origin of a division that the data has."""


@dataclass(frozen=True)
class DividedReference:
    """A reference in two parts, and what each of them adds to the tests."""

    code: Mapping[str, str]
    """Code of `aux_0` and `main_0`."""
    origin: str
    """`reference`, or the kind of the extracted part."""
    balance: float
    """Operations of the smaller part divided by those of the larger; 1 for a division of the data."""
    division: Division


def divide_reference(task: CodeTask, sandbox: Sandbox) -> DividedReference | None:
    """Return the division of a task's reference with most shared tests, of equal ones the most balanced.

    `None` if the task has no reference, or no division passes all tests.
    """
    best: DividedReference | None = None
    candidates = [*_candidates(task)]
    for first in range(0, len(candidates), AT_ONCE):
        if best is not None and best.division.shared() == 1.0:
            break  # those that follow are less balanced, or only count
        for found in _measure(task, candidates[first : first + AT_ONCE], sandbox):
            passes = all(found.division.passed)
            if passes and (best is None or found.division.shared() > best.division.shared()):
                best = found
    return best


def _candidates(task: CodeTask) -> Iterator[tuple[dict[str, str], str, float]]:
    """Yield code, origin and balance of the divisions of a reference."""
    if "aux_0" in task.references:
        yield dict(task.references), REFERENCE, 1.0
    elif "main_0" in task.references:
        code = task.references["main_0"]
        for part in divide_function(code, task.entry_point, preamble=task.preamble)[:MAX_TRIED]:
            yield {"aux_0": part.helper, "main_0": part.main}, part.kind, part.balance


def _measure(
    task: CodeTask, candidates: Sequence[tuple[dict[str, str], str, float]], sandbox: Sandbox
) -> Iterator[DividedReference]:
    divisions = measure_divisions([(task, code) for code, *_ in candidates], sandbox)
    for candidate, division in zip(candidates, divisions, strict=True):
        yield DividedReference(*candidate, division)
