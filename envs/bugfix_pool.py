"""Where buggy programs come from: programs without bugs, and faults that their tests find.

| programs                 | number | functions | what they are                                              |
|--------------------------|--------|-----------|------------------------------------------------------------|
| `Program/0` ...          | 20     | 4 to 6    | ours, written for this                                     |
| `Bundled/16` ...         | 66     | 2         | ours: a helper and an entry function, from `coophumaneval` |
| `HumanEval/2/divided`... | 16     | 2         | problems of HumanEval, divided by us                       |
| `HumanEval/0` ...        | 164    | 1 or 2    | HumanEval's own solutions, with the helpers of the prompts |

`data/bugs.jsonl` lists for every program the faults of `mutation` that count, alone and in twos and threes: the
program loads, ends in time, fails at least one test, and passes at least one where it has more than one.
`llm_decpomdp.benchmarks.bug_pool` writes the list, so that loading it runs nothing. Faults that no test finds,
such as those that change nothing, are not in it.

Problems whose number leaves 4 when divided by 5 are the split `test`, the others `train`: no program of one split,
in any form, is in the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from llm_decpomdp.envs.bugfix_bench import joint, strict
from llm_decpomdp.envs.bugfix_tasks import instrumented, repairable
from llm_decpomdp.envs.humaneval import COOPHUMANEVAL, HUMANEVAL, CodeTask
from llm_decpomdp.envs.mutation import Mutation, mutants, mutate, mutations, overlap
from llm_decpomdp.envs.program_text import (
    excerpt,
    function_text,
    functions,
    statement_of,
    without_docstring,
)
from llm_decpomdp.envs.sandbox import Execution, Limits, Program, Sandbox, instrument
from llm_decpomdp.envs.sources import BadRow, Row, read_rows, text_field
from llm_decpomdp.seeding import stream

MAX_BUGS = 3
COMBINATIONS = (12, 8)
"""How many twos and threes of faults are kept of one program."""

VALIDATION = Limits(1.0, 0.5, 5.0, wall_factor=30.0, max_timeouts=1)
"""A mutant that needs more does not end in time."""

FOUND = {"passed", "failed", "error"}
"""What becomes of the tests of a program that ends in time."""

Faults = tuple[str, ...]
"""The keys of the mutations of a program that together are one task."""


@dataclass(frozen=True)
class Source:
    """A program without bugs."""

    name: str
    statement: str
    """Header and docstring of its entry function."""
    code: str
    """The program, without that docstring."""
    entry_point: str
    test: str

    def mutate(self, faults: Sequence[str]) -> str:
        """The program with faults.

        Raises:
            ValueError: If a key is unknown: the list of faults is older than the program.
        """
        known = _by_key(self.code)
        for key in faults:
            if key not in known:
                raise ValueError(
                    f"{self.name} has no mutation {key!r}; write the list of faults anew"
                )
        return mutate(self.code, [known[key] for key in faults])

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that may hold bugs."""
        return repairable(self.code, self.test, self.entry_point)

    def faulty(self, code: str) -> list[str]:
        """Those of them that a variant of the program changes."""
        return [f for f in self.functions if function_text(code, f) != function_text(self.code, f)]

    def joint(self, code: str) -> Program:
        """A variant of the program, to be run."""
        return joint(code, self.entry_point, self.functions, self.functions)


@lru_cache(maxsize=1024)
def _by_key(code: str) -> Mapping[str, Mutation]:
    return {mutation.key: mutation for mutation in mutations(code)}


# Programs


def bundled_sources() -> Iterator[Source]:
    """All programs that come with this package."""
    for row in _data("programs.jsonl"):
        yield source_of(row)
    for index, row in enumerate(COOPHUMANEVAL.bundled()):
        task = CodeTask(row["task_id"], index, row["prompt"], row["test"], row["entry_point"])
        code = _one([task.preamble, row["aux"], without_docstring(row["main"], task.entry_point)])
        name = task.task_id + "/divided" * task.task_id.startswith("HumanEval")
        statement = statement_of(task.stub, task.entry_point)
        yield Source(name, statement, code, task.entry_point, task.test)
    for row in HUMANEVAL.bundled():
        code = row["prompt"] + row["canonical_solution"]
        yield source_of({**row, "program": code})


def _one(parts: Sequence[str]) -> str:
    """One program of several parts that each have imports of their own, and functions."""
    outside = (excerpt(part, (), rest=True).splitlines() for part in parts)
    lines = dict.fromkeys(line for some in outside for line in some if line.strip())
    bodies = [function_text(part, name) for part in parts for name in functions(part)]
    return "\n\n\n".join(["\n".join(lines), *bodies][not lines :]) + "\n"


def source_of(row: Row) -> Source:
    """A program of a row with `task_id`, `program`, `entry_point` and `test`; its docstrings say what it does."""
    code, entry_point = row["program"], row["entry_point"]
    stated, bare = statement_of(code, entry_point), without_docstring(code, entry_point)
    return Source(row["task_id"], stated, bare, entry_point, row["test"])


def checked_source(row: Row) -> Source:
    """The program of a row of the user's own.

    Raises:
        BadRow: If a field is missing, empty or unusable.
    """
    code, entry_point = text_field(row, "program"), text_field(row, "entry_point")
    if entry_point not in functions(code):
        raise BadRow(f"field 'program' does not define {entry_point!r}")
    if not instrumented(text_field(row, "test"), entry_point).cases:
        raise BadRow(f"field 'test' holds no assert about {entry_point!r}")
    text_field(row, "task_id")
    return source_of(row)


def _data(name: str) -> list[Row]:
    text = resources.files("llm_decpomdp.envs").joinpath(f"data/{name}").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


# Faults that count


def bundled_faults() -> dict[str, list[Faults]]:
    """The list that comes with this package."""
    return {
        row["program"]: [tuple(keys.split()) for keys in row["faults"]]
        for row in _data("bugs.jsonl")
    }


def counting_faults(source: Source, sandbox: Sandbox) -> list[Faults]:
    """The faults of a program that its tests find, then twos and threes of them.

    Raises:
        BadRow: If the program itself fails its tests.
    """
    correct = run_all(source, sandbox, [source.code])[0]
    if correct.error is not None or not all(test.passed for test in correct.tests):
        raise BadRow("field 'program' does not pass its own tests")
    alone = [(mutant.key,) for mutant in mutants(source.code) if source.faulty(mutant.source)]
    found = _counting(source, sandbox, alone)
    for bugs, count in zip(range(2, MAX_BUGS + 1), COMBINATIONS, strict=True):
        found += _counting(source, sandbox, _drawn(source, found, bugs, count))
    return found


def _drawn(source: Source, found: list[Faults], bugs: int, count: int) -> list[Faults]:
    """Some combinations of faults that do not touch each other."""
    known = _by_key(source.code)
    keys = [faults[0] for faults in found if len(faults) == 1]
    rng = stream(0, "bugfix", source.name, bugs)
    if len(keys) < bugs:
        return []
    draws = (rng.choice(len(keys), bugs, replace=False) for _ in range(4 * count))
    candidates = dict.fromkeys(tuple(sorted(map(int, draw))) for draw in draws)
    chosen = [tuple(keys[number] for number in numbers) for numbers in candidates]
    apart = [faults for faults in chosen if not overlap([known[key] for key in faults])]
    return apart[:count]


def _counting(source: Source, sandbox: Sandbox, candidates: Sequence[Faults]) -> list[Faults]:
    """Those that load, end in time, and fail some test, but not all."""
    executions = run_all(source, sandbox, [source.mutate(faults) for faults in candidates])
    pairs = zip(candidates, executions, strict=True)
    return [faults for faults, execution in pairs if counts(execution)]


def counts(execution: Execution) -> bool:
    """Whether a program with faults makes a task."""
    passed = sum(test.passed for test in execution.tests)
    total = len(execution.tests)
    ends = all(test.status in FOUND for test in execution.tests) and not execution.wall_decided
    return execution.error is None and ends and min(total - 1, 1) <= passed < total


def run_all(source: Source, sandbox: Sandbox, codes: Sequence[str]) -> list[Execution]:
    """What becomes of variants of a program, each of which has little time."""
    tests = strict(sandbox, source.joint(source.code), instrument(source.test, source.entry_point))
    return sandbox.run_batch([(source.joint(code), tests) for code in codes], VALIDATION)


# Rows


def bug_rows(
    num_agents: int, bugs: int, spread: str, seed: int, path: str | None = None
) -> list[Row]:
    """The rows of all tasks of one kind, in an order that `seed` decides.

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
    sandbox, sources, faults = Sandbox(), [], {}
    for line, row in enumerate(read_rows(path), 1):
        try:
            source = checked_source(row)
            faults[source.name] = counting_faults(source, sandbox)
        except BadRow as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
        sources.append(source)
    return sources, faults


def _lie(source: Source, keys: Faults, owners: Mapping[str, int], spread: str) -> bool:
    if spread == "any":
        return True
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
    }


def split_of(row: Row) -> str:
    """`train` or `test`, by the number in the name of a problem; `train` where it has none."""
    number = re.search(r"/(\d+)", row["task_id"].partition(":")[0])
    return "test" if number and int(number[1]) % 5 == 4 else "train"
