"""Programs without bugs, the faults that make tasks of them, and the tasks of one kind that they make.

| programs                 | number | functions | what they are                                              |
|--------------------------|--------|-----------|------------------------------------------------------------|
| `Program/0` ...          | 20     | 4 to 6    | ours, written for this                                     |
| `OurClasses/0` ...       | 15     | 5 to 8    | ours: classes with methods, from `classeval`               |
| `Bundled/16` ...         | 66     | 2         | ours: a helper and an entry function, from `coophumaneval` |
| `HumanEval/2/divided`... | 16     | 2         | problems of HumanEval, divided by us                       |
| `HumanEval/0` ...        | 164    | 1 or 2    | HumanEval's own solutions, with the helpers of the prompts |

A user's own file may hold programs, or rows of ClassEval.

`data/bugs.jsonl` lists for every program the faults of `source_code.mutation` that count,
alone and in twos and threes: the program loads, ends in time, fails at least one test, and passes at least one
where it has more than one. `tools.quality.bug_pool` writes the list, so that loading it runs
nothing. Faults that no test finds, such as those that change nothing, are not in it.

Problems whose number leaves 4 when divided by 5 are the split `test`, the others `train`: no program of one split,
in any form, is in the other.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from llm_decpomdp.envs.bugfix.tasks import (
    MAX_STEPS,
    known_class,
    limit_steps,
    pieces,
    repairable,
    test_cases_of_program,
    whole,
)
from llm_decpomdp.envs.datasets.classeval import CLASSEVAL, ClassTask, class_task
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL, HUMANEVAL, CodeTask
from llm_decpomdp.envs.datasets.rows import (
    BadRow,
    Row,
    bundled_rows,
    read_rows,
    refuse,
    require_row,
    text_field,
)
from llm_decpomdp.envs.program_reward import add_reference_counts
from llm_decpomdp.envs.sandbox import Execution, Limits, Sandbox
from llm_decpomdp.envs.source_code.functions import (
    excerpt,
    function_text,
    functions,
    header_and_docstring,
    remove_docstring,
)
from llm_decpomdp.envs.source_code.mutation import Mutation, mutants, mutate, mutations, overlap
from llm_decpomdp.seeding import stream

# The clock must not decide whether a fault counts.
VALIDATION = Limits(2.0, 2.0, 10.0, wall_factor=30.0, job_seconds=300.0, max_timeouts=1)
"""Far more than a variant of a program needs that takes at most `MAX_STEPS`."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProgramSource:
    """A program without bugs."""

    name: str
    statement: str
    """Its purpose: header and docstring of its entry function, or the skeleton of its class."""
    code: str
    """The program, without the docstring of the entry function."""
    entry_point: str
    """The function or class that its tests call."""
    test: str

    def mutate(self, faults: Sequence[str]) -> str:
        """Return the program with faults.

        Raises:
            ValueError: If a key is unknown: the list of faults is older than the program.
        """
        for key in faults:
            if key not in self.faults:
                message = f"{self.name} has no mutation {key!r}; write the list of faults anew"
                raise ValueError(message)
        return mutate(self.code, [self.faults[key] for key in faults])

    @cached_property
    def faults(self) -> Mapping[str, Mutation]:
        """The mutations of the program by their keys."""
        return {mutation.key: mutation for mutation in mutations(self.code)}

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The functions or methods that may hold bugs."""
        return repairable(self.code, self.test, self.entry_point)

    def faulty(self, code: str) -> list[str]:
        """Return the functions that a variant of the program changes."""
        changed = pieces(code, self.entry_point)
        return [name for name in self.functions if self._pieces[name] != changed[name]]

    @cached_property
    def _pieces(self) -> Mapping[str, str]:
        return pieces(self.code, self.entry_point)

    def run(self, sandbox: Sandbox, codes: Sequence[str]) -> list[Execution]:
        """Run variants of the program; those that take more than `MAX_STEPS` crash."""
        correct = whole(self.code, self.entry_point, self.functions)
        tests = test_cases_of_program(self.code, self.test, self.entry_point)
        tests = add_reference_counts(sandbox, correct, tests)
        names = {*self.functions, self.entry_point}
        limited = [limit_steps(code, names) for code in codes]
        programs = [whole(code, self.entry_point, self.functions) for code in limited]
        return sandbox.run_batch([(program, tests) for program in programs], VALIDATION)


@lru_cache(maxsize=1)
def bundled_sources() -> tuple[ProgramSource, ...]:
    """Load all programs that come with this package."""
    return tuple(_bundled_sources())


def _bundled_sources() -> Iterator[ProgramSource]:
    for row in bundled_rows("programs.jsonl"):
        yield _source(row)
    for index, row in enumerate(CLASSEVAL.bundled()):
        yield _class_source(class_task(index, row))
    for index, row in enumerate(COOPHUMANEVAL.bundled()):
        task = CodeTask(row["task_id"], index, row["prompt"], row["test"], row["entry_point"])
        code = _one([task.preamble, row["aux"], remove_docstring(row["main"], task.entry_point)])
        name = task.task_id + "/divided" * task.task_id.startswith("HumanEval")
        statement = header_and_docstring(task.stub, task.entry_point)
        yield ProgramSource(name, statement, code, task.entry_point, task.test)
    for row in HUMANEVAL.bundled():
        code = row["prompt"] + row["canonical_solution"]
        yield _source({**row, "program": code})


def _one(parts: Sequence[str]) -> str:
    outside = (excerpt(part, (), rest=True).splitlines() for part in parts)
    lines = dict.fromkeys(line for part in outside for line in part if line.strip())
    bodies = [function_text(part, name) for part in parts for name in functions(part)]
    return "\n\n\n".join(["\n".join(lines), *bodies][not lines :]) + "\n"


def _source(row: Row) -> ProgramSource:
    code, entry_point = row["program"], row["entry_point"]
    stated, bare = header_and_docstring(code, entry_point), remove_docstring(code, entry_point)
    return ProgramSource(row["task_id"], stated, bare, entry_point, row["test"])


def _class_source(task: ClassTask) -> ProgramSource:
    return ProgramSource(task.task_id, task.prompt, task.solution, task.class_name, task.test)


def own_sources(path: Path, sandbox: Sandbox) -> list[ProgramSource]:
    """Load the programs of a user's file.

    Classes of ClassEval whose solutions fail their tests apart from them are left out, with a warning.

    Raises:
        ValueError: If rows are wrong; the text names their lines and fields.
    """
    sources: list[ProgramSource] = []
    bad: dict[int, str] = {}
    rows = read_rows(path)
    for line, row in enumerate(rows, 1):
        try:
            source = _checked_source(require_row(row))
            (execution,) = source.run(sandbox, [source.code])
            if execution.error is None and all(test.passed for test in execution.tests):
                sources.append(source)
            elif known_class(source.code, source.entry_point):
                logger.warning("%s is left out: its solution fails tests here", source.name)
            else:
                raise BadRow(f"field 'program' does not pass its own tests in {MAX_STEPS:,} steps")
        except BadRow as error:  # all bad rows are named together
            bad[line] = str(error)
    refuse(str(path), bad, len(rows))
    return sources


def _checked_source(row: Row) -> ProgramSource:
    """Make the program of a row.

    Raises:
        BadRow: If a field is missing, empty or unusable.
    """
    if "solution_code" in row:
        task = class_task(0, row)
        if not task.solution:
            raise BadRow(f"field 'solution_code' does not define {task.class_name!r}")
        return _class_source(task)
    code, entry_point = text_field(row, "program"), text_field(row, "entry_point")
    if entry_point not in functions(code):
        raise BadRow(f"field 'program' does not define {entry_point!r}")
    if not test_cases_of_program(code, text_field(row, "test"), entry_point).cases:
        raise BadRow(f"field 'test' holds no assert about {entry_point!r}")
    text_field(row, "task_id")
    return _source(row)


# The faults that make tasks, and the tasks of one kind that they make


MAX_BUGS = 3
COMBINATIONS = (12, 8)
"""Numbers of twos and threes of faults that are kept of one program."""

ENDED = {"passed", "failed", "error"}
"""Statuses of the tests of a program that ends in time."""

Faults = tuple[str, ...]
"""The keys of the mutations of a program that together are one task."""


def bundled_faults() -> dict[str, list[Faults]]:
    """Load the list that comes with this package."""
    return {
        row["program"]: [tuple(keys.split()) for keys in row["faults"]]
        for row in bundled_rows("bugs.jsonl")
    }


def counting_faults(source: ProgramSource, sandbox: Sandbox) -> list[Faults]:
    """Return the faults of a program that its tests find, then twos and threes of them."""

    def select(candidates: Sequence[Faults]) -> list[Faults]:
        executions = source.run(sandbox, [source.mutate(faults) for faults in candidates])
        pairs = zip(candidates, executions, strict=True)
        return [faults for faults, execution in pairs if counts(execution)]

    single = [(mutant.key,) for mutant in mutants(source.code) if source.faulty(mutant.source)]
    counting = select(single)
    for bugs, count in zip(range(2, MAX_BUGS + 1), COMBINATIONS, strict=True):
        # Two wrong variables may be swapped ones, so that a combination is a program that is there already.
        texts = {source.mutate(faults) for faults in counting}
        draws = _draw_combinations(source, counting, bugs, count)
        counting += select([faults for faults in draws if source.mutate(faults) not in texts])
    return counting


def _draw_combinations(
    source: ProgramSource, counting: list[Faults], bugs: int, count: int
) -> list[Faults]:
    """Draw combinations of faults that do not touch each other."""
    keys = [faults[0] for faults in counting if len(faults) == 1]
    rng = stream(0, "bugfix", source.name, bugs)
    if len(keys) < bugs:
        return []
    # More draws than needed: some are equal, and in some the faults touch.
    draws = (rng.choice(len(keys), bugs, replace=False) for _ in range(4 * count))
    numbers = dict.fromkeys(tuple(sorted(map(int, draw))) for draw in draws)
    combinations = [tuple(keys[number] for number in group) for group in numbers]
    faults = source.faults
    return [group for group in combinations if not overlap([faults[key] for key in group])][:count]


def counts(execution: Execution) -> bool:
    """Check whether a program with faults loads, ends in time, and fails some test, but not all."""
    passed, total = sum(test.passed for test in execution.tests), len(execution.tests)
    ends = all(test.status in ENDED for test in execution.tests) and not execution.wall_decided
    return execution.error is None and ends and min(total - 1, 1) <= passed < total


def bug_rows(
    num_agents: int, bugs: int, spread: str, seed: int, path: str | None = None
) -> list[Row]:
    """Return the rows of all tasks of one kind, in an order that `seed` decides.

    Programs have at least `num_agents` functions and `bugs` faults. `spread` is as in `BugOptions`. `path` is a
    file with programs of the user's own, whose faults are found now; `None` for those of the package.
    """
    if path is None:
        sources, faults = list(bundled_sources()), bundled_faults()
    else:
        sandbox = Sandbox()
        sources = own_sources(Path(path), sandbox)
        faults = {source.name: counting_faults(source, sandbox) for source in sources}
    rows: list[Row] = []
    for source in sources:
        owners = {name: place % num_agents for place, name in enumerate(source.functions)}
        if len(owners) < num_agents:
            continue
        for keys in faults.get(source.name, ()):
            if len(keys) == bugs and _spread_fits(source, keys, owners, spread):
                rows.append(
                    {
                        "task_id": f"{source.name}:{'+'.join(keys)}",
                        "prompt": source.statement,
                        "correct": source.code,
                        "buggy": source.mutate(keys),
                        "test": source.test,
                        "entry_point": source.entry_point,
                        "bugs": keys,
                        "problem": source.name.removesuffix("/divided"),
                    }
                )
    if not rows:
        raise ValueError(
            f"no program has {num_agents} functions and {bugs} bugs that lie {spread!r}; take fewer agents or bugs"
        )
    order = stream(seed, "bugfix").permutation(len(rows))
    return [rows[int(number)] for number in order]


def _spread_fits(
    source: ProgramSource, keys: Faults, owners: Mapping[str, int], spread: str
) -> bool:
    if spread == "any" or len(keys) == 1:
        return spread != "across"
    holders = {owners[name] for name in source.faulty(source.mutate(keys))}
    return (len(holders) == 1) == (spread == "one")


def find_split(row: Row) -> str:
    """`train` or `test`, by the number in the name of a problem; `train` where it has none."""
    # By the number, not the name, so that all forms of a problem are in one split.
    number = re.search(r"[/_](\d+)", row["task_id"].partition(":")[0])
    return "test" if number and int(number[1]) % 5 == 4 else "train"
