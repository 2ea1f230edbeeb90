"""The reward of completing a class as a team.

| component | points  | for                                                                                |
|-----------|---------|------------------------------------------------------------------------------------|
| `syntax`  | 0 to 2  | share of the methods that their own agent wrote in code that parses |
| `tests`   | 0 to 4  | share of the unit tests that pass                                                    |
| `overlap` | -1 to 0 | minus the share of the methods that several agents wrote                              |

At most 6. A method with an empty body does not count as written. The reward is 0 if no method was written or
the class does not compile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import ClassVar

from llm_decpomdp.envs.classeval.roles import ClassRole
from llm_decpomdp.envs.datasets.classeval import ClassTask
from llm_decpomdp.envs.program_reward import ProgramReward, not_run, warn_about_endless_tests
from llm_decpomdp.envs.sandbox import Execution, Limits, Outcome, Program, Tests
from llm_decpomdp.envs.source_code.classes import Contribution, Merged, attribute_lines, merge
from llm_decpomdp.envs.source_code.parsing import parse_or_none
from llm_decpomdp.interfaces import Component, Verdict


@dataclass(frozen=True)
class ClassAnalysis:
    """The analysis of a turn."""

    task: ClassTask
    team: Mapping[str, Contribution]
    merged: Merged
    compiles: bool
    """True if the merged class does."""
    tests: tuple[Outcome, ...]

    def code(self, agent: str) -> str:
        """Return the agent's own methods; empty where it wrote none."""
        return self.team[agent].code

    def complete(self, agent: str) -> bool:
        """Check whether an agent wrote all methods that it was asked for."""
        return len(self.team[agent].written_methods) == len(self.team[agent].assigned)

    @property
    def parses(self) -> bool:
        """True if no method is broken and the class compiles."""
        return self.compiles and not any(part.broken for part in self.team.values())

    @property
    def all_passed(self) -> bool:
        """True if every method is written exactly once, all parses, and every shown test passes."""
        all_written = all(self.complete(agent) for agent in self.team)
        tests = bool(self.tests) and all(test.passed for test in self.tests)
        return all_written and self.parses and tests and not self.merged.overlaps


COMPONENTS = {
    "syntax": Component(
        "Share of the methods that were written, so that they parse, by the agent asked for them, times 2.0.",
        form=True,
    ),
    "tests": Component("Share of the unit tests of the class that pass, times 4.0."),
    "overlap": Component("Minus the share of the methods that several agents wrote.", form=True),
}
SYNTAX_POINTS, TEST_POINTS, OVERLAP_COST = 2.0, 4.0, 1.0
MAX_REWARD = SYNTAX_POINTS + TEST_POINTS

LIMITS = Limits(test_seconds=25.0, program_seconds=125.0, job_seconds=375.0)
"""One test of the real data takes eight seconds."""

PACKAGE_LIMITS = replace(LIMITS, load_seconds=30.0, memory_bytes=2**31)
"""For classes that import packages: some take seconds and a gigabyte of address space to load."""

FORGEABLE = (
    "its tests only work inside the program's process, where it can forge their results; "
    "allow_forgeable=True takes it in"
)
"""Reason for leaving a class out."""

TEAM = "team"
"""Origin of the merged class, until a line of it is traced to its agent."""


@dataclass(frozen=True)
class ClassReward(ProgramReward):
    """Merges the agents' methods into one class, runs it against the tests, and counts.

    The tests run apart from the program. Only if results that can be forged are allowed, they run in one process
    with it where the data's own solution fares better there.
    """

    roles: tuple[ClassRole, ...]
    allow_forgeable: bool = False
    components: ClassVar[Mapping[str, Component]] = COMPONENTS
    maximum: ClassVar[float] = MAX_REWARD
    _split: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Results of `is_split` by task."""

    def __call__(self, task: ClassTask, completions: Mapping[str, str]) -> Verdict:
        """Judge one joint completion."""
        team = {role.agent: role.read(task, completions[role.agent]) for role in self.roles}
        parts = tuple(team.values())
        merged_class = merge(task.outline, parts)
        points = dict.fromkeys(COMPONENTS, 0.0)
        # The merged class is compiled, not the parts: two that parse alone may not parse together.
        compiles = parse_or_none(merged_class.code) is not None
        any_written = any(not piece.stub for part in parts for piece in (*part.own, *part.foreign))
        if not (any_written and compiles):
            reason = "the class does not compile" if any_written else "no method was written"
            tests = not_run(task.tests.cases, reason)
            analysis = ClassAnalysis(task, team, merged_class, compiles, tests)
            return Verdict(points, False, self.details(tests, team), analysis)
        total = len(task.outline.units)
        points["syntax"] = SYNTAX_POINTS * sum(len(part.written_methods) for part in parts) / total
        points["overlap"] -= OVERLAP_COST * len(merged_class.overlaps) / total
        # Tests apart from the program cannot be forged, so they are the default even where some become
        # impossible.
        split = not self.allow_forgeable or self.is_split(task)
        execution = self._run(task, merged_class.code, split)
        execution = attribute_lines(execution, merged_class, TEAM)
        warn_about_endless_tests(task.task_id, task.test, completions, execution)
        passed = sum(test.passed for test in execution.tests)
        points["tests"] = TEST_POINTS * passed / len(execution.tests)
        analysis = ClassAnalysis(task, team, merged_class, compiles, execution.tests)
        # Shares add up with rounding errors.
        verdict = Verdict(
            points, False, self.details(execution.tests, team, execution.error), analysis
        )
        return replace(verdict, solved=verdict.reward >= MAX_REWARD - 1e-9)

    def is_split(self, task: ClassTask) -> bool:
        """Check whether the tests of a class work apart from programs.

        The data's own solution shows it, once for each class: it passes them all there, or the same as in one
        process with them.
        """
        if task.task_id not in self._split:
            self._split[task.task_id] = not task.solution or self._passes_alike(task)
        return self._split[task.task_id]

    def _passes_alike(self, task: ClassTask) -> bool:
        role = ClassRole(0, 1, "balanced")
        solution = merge(task.outline, (role.read(task, role.reference(task) or ""),)).code
        apart = [test.passed for test in self._run(task, solution, split=True).tests]
        if all(apart):
            return True
        return apart == [test.passed for test in self._run(task, solution, split=False).tests]

    def forgeable(self, tasks: Sequence[ClassTask]) -> dict[str, str]:
        """Return the tasks whose test results a program could forge, with the reason not to train on them."""
        with ThreadPoolExecutor(self.sandbox.workers) as threads:
            split = threads.map(self.is_split, tasks)
            bad = [task for task, apart in zip(tasks, split, strict=True) if not apart]
        return dict.fromkeys((task.task_id for task in bad), FORGEABLE)

    def _run(self, task: ClassTask, code: str, split: bool) -> Execution:
        tests: Tests = task.tests if split else task.tests_inside
        program = Program(((TEAM, code),), task.class_name)
        if not task.packages:
            return self.sandbox.run(program, tests, LIMITS)
        return self.sandbox.copy_with_packages(task.packages).run(program, tests, PACKAGE_LIMITS)
