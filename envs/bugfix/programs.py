"""Programs without bugs, of which buggy ones are made.

| programs                 | number | functions | what they are                                              |
|--------------------------|--------|-----------|------------------------------------------------------------|
| `Program/0` ...          | 20     | 4 to 6    | ours, written for this                                     |
| `OurClasses/0` ...       | 15     | 5 to 8    | ours: classes with methods, from `classeval`               |
| `Bundled/16` ...         | 66     | 2         | ours: a helper and an entry function, from `coophumaneval` |
| `HumanEval/2/divided`... | 16     | 2         | problems of HumanEval, divided by us                       |
| `HumanEval/0` ...        | 164    | 1 or 2    | HumanEval's own solutions, with the helpers of the prompts |

A user's own file may hold programs, or rows of ClassEval.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from llm_decpomdp.envs.bugfix.methods import known_class
from llm_decpomdp.envs.bugfix.pieces import instrumented, pieces, repairable, strict, whole
from llm_decpomdp.envs.bugfix.step_limit import MAX_STEPS, counted
from llm_decpomdp.envs.datasets.loading import bundled_rows
from llm_decpomdp.envs.datasets.rows import BadRow, Row, as_row, read_rows, refuse, text_field
from llm_decpomdp.envs.problems.classeval import CLASSEVAL, ClassTask, class_task
from llm_decpomdp.envs.problems.humaneval import COOPHUMANEVAL, HUMANEVAL, CodeTask
from llm_decpomdp.envs.sandbox import Execution, Limits, Program, Sandbox
from llm_decpomdp.envs.source_code.functions import (
    excerpt,
    function_text,
    functions,
    statement_of,
    without_docstring,
)
from llm_decpomdp.envs.source_code.mutation.faults import Mutation, mutate, mutations

VALIDATION = Limits(2.0, 2.0, 10.0, wall_factor=30.0, job_seconds=300.0, max_timeouts=1)
"""Far more than a variant of a program needs that takes at most `MAX_STEPS`."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
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
                raise ValueError(
                    f"{self.name} has no mutation {key!r}; write the list of faults anew"
                )
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
        tests = instrumented(self.code, self.test, self.entry_point)
        tests = strict(sandbox, self._program(self.code), tests)
        names = {*self.functions, self.entry_point}
        programs = [self._program(counted(code, names)) for code in codes]
        return sandbox.run_batch([(program, tests) for program in programs], VALIDATION)

    def _program(self, code: str) -> Program:
        return whole(code, self.entry_point, self.functions)


@lru_cache(maxsize=1)
def bundled_sources() -> tuple[Source, ...]:
    """Load all programs that come with this package."""
    return tuple(_bundled_sources())


def _bundled_sources() -> Iterator[Source]:
    for row in bundled_rows("programs.jsonl"):
        yield _source(row)
    for index, row in enumerate(CLASSEVAL.bundled()):
        yield _class_source(class_task(index, row))
    for index, row in enumerate(COOPHUMANEVAL.bundled()):
        task = CodeTask(row["task_id"], index, row["prompt"], row["test"], row["entry_point"])
        code = _one([task.preamble, row["aux"], without_docstring(row["main"], task.entry_point)])
        name = task.task_id + "/divided" * task.task_id.startswith("HumanEval")
        statement = statement_of(task.stub, task.entry_point)
        yield Source(name, statement, code, task.entry_point, task.test)
    for row in HUMANEVAL.bundled():
        code = row["prompt"] + row["canonical_solution"]
        yield _source({**row, "program": code})


def _one(parts: Sequence[str]) -> str:
    """Return one program of several parts that each have imports of their own, and functions."""
    outside = (excerpt(part, (), rest=True).splitlines() for part in parts)
    lines = dict.fromkeys(line for part in outside for line in part if line.strip())
    bodies = [function_text(part, name) for part in parts for name in functions(part)]
    return "\n\n\n".join(["\n".join(lines), *bodies][not lines :]) + "\n"


def _source(row: Row) -> Source:
    """Make a program of a row with `task_id`, `program`, `entry_point` and `test`."""
    code, entry_point = row["program"], row["entry_point"]
    stated, bare = statement_of(code, entry_point), without_docstring(code, entry_point)
    return Source(row["task_id"], stated, bare, entry_point, row["test"])


def _class_source(task: ClassTask) -> Source:
    return Source(task.task_id, task.prompt, task.solution, task.class_name, task.test)


# A user's own


def own_sources(path: Path, sandbox: Sandbox) -> list[Source]:
    """Load the programs of a user's file.

    Classes of ClassEval whose solutions fail their tests apart from them are left out, with a warning.

    Raises:
        ValueError: If rows are wrong; the text names their lines and fields.
    """
    sources: list[Source] = []
    bad: dict[int, str] = {}
    rows = read_rows(path)
    for line, row in enumerate(rows, 1):
        try:
            source = _checked_source(as_row(row))
            (execution,) = source.run(sandbox, [source.code])
            if execution.error is None and all(test.passed for test in execution.tests):
                sources.append(source)
            elif known_class(source.code, source.entry_point):
                logger.warning("%s is left out: its solution fails tests here", source.name)
            else:
                raise BadRow(f"field 'program' does not pass its own tests in {MAX_STEPS:,} steps")
        except BadRow as error:
            bad[line] = str(error)
    refuse(str(path), bad, len(rows))
    return sources


def _checked_source(row: Row) -> Source:
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
    if not instrumented(code, text_field(row, "test"), entry_point).cases:
        raise BadRow(f"field 'test' holds no assert about {entry_point!r}")
    text_field(row, "task_id")
    return _source(row)
