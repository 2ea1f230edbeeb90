"""Programs with bugs as tasks, and their runs with the agents' functions in them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from llm_decpomdp.envs.bugfix.methods import (
    PROGRAM,
    KnownClass,
    Submission,
    joint,
    known_class,
    pieces,
    repairable,
    strict,
    test_cases_of_program,
    whole,
)
from llm_decpomdp.envs.datasets.loading import KNOWN_ISSUES, Row
from llm_decpomdp.envs.sandbox import Execution, Outcome, Program, Sandbox, Tests
from llm_decpomdp.envs.source_code.classes.merge import Merged
from llm_decpomdp.envs.source_code.functions import Statements, distance, statements, tokens
from llm_decpomdp.envs.source_code.parsing import FUNCTIONS, has_docstring, parse
from llm_decpomdp.interfaces import Task


@dataclass(frozen=True)
class BugTask(Task):
    """A program to repair, and the tests that judge it; `prompt` says what its entry point shall do.

    Where that is a class, `functions` and the other properties are about its methods.
    """

    correct: str
    """The program without bugs."""
    buggy: str
    """The program as the agents get it."""
    test: str
    """Text of a module with a function `check(candidate)`, or with unittest classes about a class."""
    entry_point: str
    """The function or class that the tests call."""
    bugs: tuple[str, ...]
    """Changes of the program: keys of `Mutation`, or the kind that the data names."""

    @property
    def stub(self) -> str:
        """The purpose of the entry point as a module."""
        return f"{self.prompt}\n    pass\n"

    def idle_programs(self) -> dict[str, str]:
        """Return the program as it is: some of its tests pass, but not all."""
        return {"the program with its bugs": self.buggy}

    @cached_property
    def known_class(self) -> KnownClass | None:
        """The entry point if it is a class."""
        return known_class(self.buggy, self.entry_point)

    @property
    def is_class(self) -> bool:
        """True if the entry point is a class."""
        return self.known_class is not None

    @cached_property
    def statements(self) -> Statements:
        """The program's statements, to which agents add."""
        return statements(self.buggy)

    @cached_property
    def tests(self) -> Tests:
        """The instrumented test."""
        return test_cases_of_program(self.buggy, self.test, self.entry_point)

    @cached_property
    def program(self) -> Program:
        """The program as the agents get it, to be run."""
        return whole(self.buggy, self.entry_point, self.functions)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The functions of the program that can be repaired, in order."""
        return repairable(self.buggy, self.test, self.entry_point)

    @cached_property
    def given_functions(self) -> Mapping[str, str]:
        """The functions' text as the agents get it."""
        return pieces(self.buggy, self.entry_point)

    @cached_property
    def correct_functions(self) -> Mapping[str, str]:
        """The functions' text without bugs."""
        return pieces(self.correct, self.entry_point)

    @cached_property
    def faulty(self) -> tuple[str, ...]:
        """The functions that hold bugs."""
        return tuple(
            n for n in self.functions if self.given_functions[n] != self.correct_functions[n]
        )

    @cached_property
    def need(self) -> int:
        """The size of the smallest known repair, in tokens: undoing the changes."""
        return sum(
            distance(self.given_functions[name], self.correct_functions[name])
            for name in self.faulty
        )

    @cached_property
    def size(self) -> int:
        """The size of the functions that hold bugs, in tokens."""
        return sum(len(tokens(self.given_functions[name])) for name in self.faulty)


def bug_task(index: int, row: Row) -> BugTask:
    """Make a task of a row.

    Its fields are `task_id`, `prompt`, `correct`, `buggy`, `test`, `entry_point`, `bugs` and `problem`: the id of
    the problem that the program solves, under which its known issues are listed.
    """
    return BugTask(
        task_id=row["task_id"],
        index=index,
        prompt=row["prompt"],
        correct=row["correct"],
        buggy=row["buggy"],
        test=row["test"],
        entry_point=row["entry_point"],
        bugs=tuple(row["bugs"]),
        known_issue=KNOWN_ISSUES.get(row["problem"]),
    )


# Runs of a program, with a bound on its steps

MAX_STEPS = 300_000
"""Largest number of steps of a program in all of its tests together."""

COUNTER = f"""
__steps__ = 0
def __step__():
    global __steps__
    __steps__ += 1
    return __steps__ <= {MAX_STEPS} or __import__("os")._exit(1)
"""


def limit_steps(code: str, names: Collection[str]) -> str:
    """Return a program that does the same, unless its functions and classes of these names take too many steps.

    Raises:
        SyntaxError: If it does not parse.
    """
    module = parse(code)
    for statement in module.body:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)) and statement.name in names:
            _count(statement)
    kinds = ast.Expr | ast.Import | ast.ImportFrom
    head = [isinstance(statement, kinds) for statement in module.body]
    # After docstring and imports: `from __future__` must stay first.
    place = (*head, False).index(False)
    module.body[place:place] = parse(COUNTER).body
    return ast.unparse(ast.fix_missing_locations(module))


def _count(statement: ast.stmt) -> None:
    for node in ast.walk(statement):
        if isinstance(node, (*FUNCTIONS, ast.For, ast.AsyncFor, ast.While)):
            node.body.insert(has_docstring(node), ast.Expr(_step()))
        elif isinstance(node, ast.comprehension):
            node.ifs.insert(0, _step())


def _step() -> ast.Call:
    return ast.Call(ast.Name("__step__", ast.Load()), [], [])


# Runs programs with the agents' functions or methods in them


@dataclass(frozen=True)
class ProgramRunner:
    """Runs programs. The sandbox remembers its verdicts, so asking again costs little."""

    sandbox: Sandbox

    def run_unmodified(self, task: BugTask) -> Execution:
        """Run the program as the agents get it."""
        return self.sandbox.run(task.program, self.tests(task))

    def run(self, task: BugTask, work: Mapping[str, Submission]) -> Execution:
        """Run the program with the agents' submissions; functions that nobody submitted stay."""
        kept_names = set(task.functions).difference(*(part.submitted for part in work.values()))
        if task.known_class is not None:
            parts = [part.contribution for part in work.values() if part.submitted]
            merged_class = task.known_class.merge_methods(kept_names, filter(None, parts))
            program = Program(((PROGRAM, merged_class.code),), task.entry_point)
            return _attribute_lines(self.sandbox.run(program, self.tests(task)), merged_class)
        codes = {agent: part.code for agent, part in work.items() if part.submitted}
        program = joint(task.buggy, task.entry_point, task.functions, kept_names, codes)
        return self.sandbox.run(program, self.tests(task))

    def tests(self, task: BugTask) -> Tests:
        """Return the task's tests, each to be reached as often as by the program without bugs."""
        # Tests that run a fixed number of times need no count from the correct program.
        if not task.tests.vary:
            return task.tests
        correct = whole(task.correct, task.entry_point, task.functions)
        return strict(self.sandbox, correct, task.tests)


def _attribute_lines(execution: Execution, merged_class: Merged) -> Execution:
    """Return an execution whose lines count in the code of the agents that wrote them."""

    def attribute_line(outcome: Outcome) -> Outcome:
        place = merged_class.place(outcome.line) if outcome.origin == PROGRAM else None
        agent, line = place or ("", 0)
        return replace(outcome, origin=agent, line=line)

    error = attribute_line(execution.error) if execution.error is not None else None
    return replace(execution, tests=tuple(map(attribute_line, execution.tests)), error=error)
