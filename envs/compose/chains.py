"""Chains of steps: which there are, which are held out for tests, and which make a task.

A chain makes a task if its tests can tell the work of every step. For each of the tests' arguments, leaving out
any stretch of steps whose types allow it changes the result, no stretch alone gives it, and no result is shared by
more than `MAX_EQUAL` arguments; and no step with another constant gives all results. So no part of a team is idle,
no constant answer passes many tests, and no wrong constant passes them all.

Two kinds of steps are *held out* if no training task has them side by side, in either order. Every test task has
such a pair, and each kind is in both splits: what is tested is the composition of known parts.
"""

from __future__ import annotations

import itertools
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from llm_decpomdp.envs.compose.steps import (
    INPUTS,
    LIST,
    NUMBER,
    PAIR,
    TEXT,
    Step,
    pair_steps,
    steps,
)

MAX_EQUAL = 2
"""Arguments, of six, that may have the same result."""

MAX_NUMBER = 10**6
MAX_LENGTH = 80
"""Bounds of every value on the way: tests stay readable, and nothing grows without end."""

TYPES = {
    "all": (NUMBER, LIST, TEXT),
    "numbers": (NUMBER,),
    "lists": (LIST,),
    "text": (TEXT,),
}
"""Types of the values of a chain, by the option `types`."""

CONVENTIONS = ("none", "name", "encoding")

Chain = tuple[Step, ...]


class Chains:
    """All chains of a length whose types fit, each equally likely to be drawn.

    Args:
        length: Number of steps.
        types: A key of `TYPES`.
        convention: One of `CONVENTIONS`: for `encoding` the first step makes a pair and the second takes it.
    """

    def __init__(self, length: int, types: str, convention: str) -> None:
        self.length = length
        if convention == "encoding":
            self.menu: Sequence[Step] = pair_steps()
        else:
            within = TYPES[types]
            self.menu = [
                step for step in steps() if step.source in within and step.target in within
            ]
        self.sources = (LIST,) if convention == "encoding" else TYPES[types]
        self._totals: dict[tuple[str, int], list[int]] = {}

    def draw(self, rng: np.random.Generator) -> Chain:
        """Draw a chain, from the uniform distribution."""
        counts = list(itertools.accumulate(self._count(kind, self.length) for kind in self.sources))
        kind = self.sources[bisect(counts, int(rng.integers(counts[-1])))]
        chain: list[Step] = []
        for rest in reversed(range(self.length)):
            totals = self._until(kind, rest)
            chain.append(self.starting[kind][bisect(totals, int(rng.integers(totals[-1])))])
            kind = chain[-1].target
        return tuple(chain)

    @cached_property
    def starting(self) -> dict[str, list[Step]]:
        """The steps by the type of their argument."""
        kinds = (NUMBER, LIST, TEXT, PAIR)
        return {kind: [step for step in self.menu if step.source == kind] for kind in kinds}

    def _count(self, kind: str, length: int) -> int:
        """Count the chains of a length from a type on."""
        totals = self._until(kind, length - 1) if length else [1]
        return totals[-1] if totals else 0

    def _until(self, kind: str, rest: int) -> list[int]:
        """Count the chains with `rest` more steps that begin with each step from a type or an earlier one."""
        if (kind, rest) not in self._totals:
            counts = (self._count(step.target, rest) for step in self.starting[kind])
            self._totals[kind, rest] = list(itertools.accumulate(counts))
        return self._totals[kind, rest]

    def all(self) -> Iterator[Chain]:
        """Yield every chain that makes a task; for short ones, as there are many."""
        for chain in itertools.product(self.menu, repeat=self.length):
            pairs = itertools.pairwise(chain)
            fits = all(first.target == second.source for first, second in pairs)
            if fits and chain[0].source in self.sources and is_task(chain):
                yield chain


@lru_cache(maxsize=1)
def _numbers() -> dict[str, int]:
    """Number the kinds of steps."""
    return {
        kind: i for i, kind in enumerate(dict.fromkeys(s.kind for s in (*steps(), *pair_steps())))
    }


def is_held_out(first: Step, second: Step) -> bool:
    """Check whether two kinds of steps stand side by side in test tasks alone; of all pairs, a fifth."""
    numbers = _numbers()
    return (numbers[first.kind] + numbers[second.kind]) % 5 == 0


def find_split(chain: Chain) -> str:
    """Return the split that a chain belongs to."""
    tested = any(itertools.starmap(is_held_out, itertools.pairwise(chain)))
    return "test" if tested else "train"


def run(chain: Sequence[Step], value: Any) -> Any:
    """Return the result of steps."""
    for step in chain:
        value = step.apply(value)
    return value


def is_task(chain: Chain) -> bool:
    """Check that tests can tell the work of every step, and that values stay small."""
    if any(itertools.starmap(_is_same_kind, itertools.pairwise(chain))):
        return False
    results = []
    for argument in INPUTS[chain[0].source]:
        values = trace(chain, argument)
        if len(values) <= len(chain) or _has_idle_steps(chain, values):
            return False
        results.append(values[-1])
    if max(Counter(map(repr, results)).values()) > MAX_EQUAL:
        return False
    return not any(_has_results(other, results) for other in _change_constants(chain))


def _is_same_kind(first: Step, second: Step) -> bool:
    return first.kind == second.kind


def _change_constants(chain: Chain) -> Iterator[Chain]:
    """Yield the chains that differ in the constant of one step."""
    for place, step in enumerate(chain):
        for other in _steps_by_kind()[step.kind, step.source]:
            if other != step:
                yield (*chain[:place], other, *chain[place + 1 :])


@lru_cache(maxsize=1)
def _steps_by_kind() -> dict[tuple[str, str], list[Step]]:
    kinds: dict[tuple[str, str], list[Step]] = {}
    for step in (*steps(), *pair_steps()):
        kinds.setdefault((step.kind, step.source), []).append(step)
    return kinds


def _has_results(chain: Chain, results: Sequence[Any]) -> bool:
    arguments = INPUTS[chain[0].source]
    return all(_result(chain, a) == result for a, result in zip(arguments, results, strict=True))


def trace(chain: Sequence[Step], argument: Any) -> list[Any]:
    """Return the values on the way; they end early where one is too large, or a step fails."""
    values = [argument]
    for step in chain:
        try:
            value = step.apply(values[-1])
        except (ValueError, IndexError):  # the largest number of none
            return values
        if not _is_small(value):
            return values
        values.append(value)
    return values


def _is_small(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) <= MAX_NUMBER
    parts = value if isinstance(value, list | tuple) else ()
    return len(value) <= MAX_LENGTH and all(abs(part) <= MAX_NUMBER for part in parts)


def _has_idle_steps(chain: Chain, values: Sequence[Any]) -> bool:
    """Check whether the result is the same without some stretch of steps, or with nothing but a stretch."""
    types = [chain[0].source, *(step.target for step in chain)]
    return any(
        (types[i] == types[j] and _result(chain[j:], values[i]) == values[-1])
        or (
            types[i] == types[0]
            and j - i < len(chain)
            and _result(chain[i:j], values[0]) == values[-1]
        )
        for i, j in itertools.combinations(range(len(types)), 2)
    )


def _result(part: Chain, value: Any) -> Any:
    try:
        return run(part, value)
    except (ValueError, IndexError):
        return None
