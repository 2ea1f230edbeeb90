"""The faults that make tasks, and the tasks of one kind that they make.

`data/bugs.jsonl` lists for every program of `programs` the faults of `programs.mutation` that count,
alone and in twos and threes: the program loads, ends in time, fails at least one test, and passes at least one
where it has more than one. `tools.quality.bug_pool` writes the list, so that loading it runs
nothing. Faults that no test finds, such as those that change nothing, are not in it.

Problems whose number leaves 4 when divided by 5 are the split `test`, the others `train`: no program of one split,
in any form, is in the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from llm_decpomdp.envs.bugfix.programs import (
    Source,
    bundled_sources,
    own_sources,
)
from llm_decpomdp.envs.datasets.loading import bundled_rows
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.sandbox import Execution, Sandbox
from llm_decpomdp.envs.source_code.mutation.faults import mutants, overlap
from llm_decpomdp.seeding import stream

MAX_BUGS = 3
COMBINATIONS = (12, 8)
"""Numbers of twos and threes of faults that are kept of one program."""

ENDED = {"passed", "failed", "error"}
"""Statuses of the tests of a program that ends in time."""

Faults = tuple[str, ...]
"""The keys of the mutations of a program that together are one task."""


# Faults that count


def bundled_faults() -> dict[str, list[Faults]]:
    """Load the list that comes with this package."""
    return {
        row["program"]: [tuple(keys.split()) for keys in row["faults"]]
        for row in bundled_rows("bugs.jsonl")
    }


def counting_faults(source: Source, sandbox: Sandbox) -> list[Faults]:
    """Return the faults of a program that its tests find, then twos and threes of them."""
    alone = [(mutant.key,) for mutant in mutants(source.code) if source.faulty(mutant.source)]
    counting = _counting(source, sandbox, alone)
    for bugs, count in zip(range(2, MAX_BUGS + 1), COMBINATIONS, strict=True):
        # two wrong variables may be swapped ones
        texts = {source.mutate(faults) for faults in counting}
        draws = _drawn(source, counting, bugs, count)
        new = [faults for faults in draws if source.mutate(faults) not in texts]
        counting += _counting(source, sandbox, new)
    return counting


def _drawn(source: Source, counting: list[Faults], bugs: int, count: int) -> list[Faults]:
    """Draw combinations of faults that do not touch each other."""
    keys = [faults[0] for faults in counting if len(faults) == 1]
    rng = stream(0, "bugfix", source.name, bugs)
    if len(keys) < bugs:
        return []
    draws = (rng.choice(len(keys), bugs, replace=False) for _ in range(4 * count))
    candidates = dict.fromkeys(tuple(sorted(map(int, draw))) for draw in draws)
    combinations = [tuple(keys[number] for number in numbers) for numbers in candidates]
    apart = [
        faults for faults in combinations if not overlap([source.faults[key] for key in faults])
    ]
    return apart[:count]


def _counting(source: Source, sandbox: Sandbox, candidates: Sequence[Faults]) -> list[Faults]:
    """Return the candidates that load, end in time, and fail some test, but not all."""
    executions = source.run(sandbox, [source.mutate(faults) for faults in candidates])
    pairs = zip(candidates, executions, strict=True)
    return [faults for faults, execution in pairs if counts(execution)]


def counts(execution: Execution) -> bool:
    """Check whether a program with faults makes a task."""
    passed = sum(test.passed for test in execution.tests)
    total = len(execution.tests)
    ends = all(test.status in ENDED for test in execution.tests) and not execution.wall_decided
    return execution.error is None and ends and min(total - 1, 1) <= passed < total


# Rows


def bug_rows(
    num_agents: int, bugs: int, spread: str, seed: int, path: str | None = None
) -> list[Row]:
    """Return the rows of all tasks of one kind, in an order that `seed` decides.

    Args:
        num_agents: Programs have at least so many functions.
        bugs: How many faults each program has.
        spread: Whether they lie in functions of one agent (`one`), of several (`across`), or anywhere (`any`).
        seed: Of the order.
        path: A file with programs of the user's own, whose faults are found now; None for those of the package.
    """
    sources, faults = (
        _own(Path(path)) if path is not None else (list(bundled_sources()), bundled_faults())
    )
    rows: list[Row] = []
    for source in sources:
        owners = {name: place % num_agents for place, name in enumerate(source.functions)}
        if len(owners) < num_agents:
            continue
        for keys in faults.get(source.name, ()):
            if len(keys) == bugs and _lie(source, keys, owners, spread):
                rows.append(_row(source, keys))
    if not rows:
        raise ValueError(
            f"no program has {num_agents} functions and {bugs} bugs that lie {spread!r}; take fewer agents or bugs"
        )
    order = stream(seed, "bugfix").permutation(len(rows))
    return [rows[int(number)] for number in order]


def _own(path: Path) -> tuple[list[Source], dict[str, list[Faults]]]:
    sandbox = Sandbox()
    sources = own_sources(path, sandbox)
    return sources, {source.name: counting_faults(source, sandbox) for source in sources}


def _lie(source: Source, keys: Faults, owners: Mapping[str, int], spread: str) -> bool:
    if spread == "any" or len(keys) == 1:
        return spread != "across"
    holders = {owners[name] for name in source.faulty(source.mutate(keys))}
    return (len(holders) == 1) == (spread == "one")


def _row(source: Source, keys: Faults) -> Row:
    return {
        "task_id": f"{source.name}:{'+'.join(keys)}",
        "prompt": source.statement,
        "correct": source.code,
        "buggy": source.mutate(keys),
        "test": source.test,
        "entry_point": source.entry_point,
        "bugs": keys,
        "problem": source.name.removesuffix("/divided"),
    }


def split_of(row: Row) -> str:
    """`train` or `test`, by the number in the name of a problem; `train` where it has none."""
    number = re.search(r"[/_](\d+)", row["task_id"].partition(":")[0])
    return "test" if number and int(number[1]) % 5 == 4 else "train"
