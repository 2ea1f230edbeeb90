"""The most that `main_0` can earn by itself, whatever function it writes: an exact bound, for chains of two steps.

An agent's function depends on its prompt alone, and the tests' arguments are the same for every task. So of all
tasks with one prompt, a function without a helper passes a test in no more than share the most frequent result for
its argument, and all tests in no more than share the most frequent results for all arguments. The bound takes the
best function for each prompt, knowing all tasks of the split and their frequencies, as no agent does: of `test` it
knows which pairs of steps are held out. `aux_0` alone passes no test, since nobody defines the entry function.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from llm_decpomdp.envs.compose.chains import Chains, find_split, run
from llm_decpomdp.envs.compose.roles import EntryRole
from llm_decpomdp.envs.compose.steps import INPUTS
from llm_decpomdp.envs.compose.tasks import compose_task


@dataclass(frozen=True)
class Bound:
    """The best response of `main_0` alone, over all tasks that can be drawn, each equally likely."""

    tasks: int
    prompts: int
    """Number of different prompts of `main_0`."""
    tests: float
    """Largest share of tests passed, from 0 to 1."""
    solved: float
    """Largest share of tasks of which all tests pass, from 0 to 1."""


def best_alone(split: str, types: str = "all", convention: str = "none") -> Bound:
    """Return the bound for a split of pairs; arguments as of `compose-v0`."""
    results: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    role = EntryRole(2, convention)
    places = (1,) if convention == "encoding" else (0, 1)
    for chain in Chains(2, types, convention).all():
        if find_split(chain) == split:
            values = tuple(repr(run(chain, argument)) for argument in INPUTS[chain[0].source])
            for place in places:
                row = {"index": 0, "chain": chain, "place": place}
                results[role.instructions(compose_task(0, row))].append(values)
    total = sum(map(len, results.values()))
    solved = sum(_most(rows) for rows in results.values())
    shares = [
        _most(column) / len(rows[0])
        for rows in results.values()
        for column in zip(*rows, strict=True)
    ]
    return Bound(total, len(results), sum(shares) / total, solved / total)


def _most(values: Iterable[Hashable]) -> int:
    """Count the most frequent value."""
    return max(Counter(values).values())
