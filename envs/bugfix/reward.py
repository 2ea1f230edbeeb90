"""The reward of repairing a program, and the mode that writes the prompts about the bugs and the repair.

| component   | points    | condition                                                                         |
|-------------|-----------|-----------------------------------------------------------------------------------|
| `parses`    | 0 to 0.5  | share of the program's functions that were submitted in code that parses          |
| `fixed`     | 0 to 2.0  | share of the tests that failed before and pass now                                |
| `minimal`   | 0 to 0.5  | the share in `fixed`, less what the change is larger than the bugs need           |
| `regressed` | 0 to -1.0 | share of the tests that passed before and do not pass now                         |

At most 3.0, for undoing the bugs. Submitting everything unchanged gives 0.5, and submitting nothing 0:
functions that no agent submits stay unchanged. If any agent's code does not parse, only `parses` counts.

The size of a change is the least number of tokens to put in, take out or replace in the program, comments,
line ends and docstrings aside; a literal counts by its words and marks, for code may hide there. What agents
write beside the program's functions counts too, unless the program has the same statement. The bugs need the size
of their undoing. Where the excess is e and the functions that hold bugs have s tokens, `minimal` is
0.5 (1 - e / s) of the share in `fixed`, and never less than 0. An agent whose functions need no change loses
nothing by submitting them as they were.

A program is repaired (`solved`) when all its functions were submitted and all its tests pass, however large the
change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from llm_decpomdp.envs.bugfix.roles import FixerRole
from llm_decpomdp.envs.bugfix.tasks import (
    PROGRAM,
    BugTask,
    Submission,
    run_submissions,
    run_unmodified,
)
from llm_decpomdp.envs.feedback.code_mode import CodeMode, foreign_line
from llm_decpomdp.envs.feedback.code_reward import ProgramReward
from llm_decpomdp.envs.sandbox import Outcome, Sandbox
from llm_decpomdp.envs.sandbox.program import (
    not_run,
    warn_about_endless_tests,
)
from llm_decpomdp.envs.source_code.functions import count_added_tokens, distance
from llm_decpomdp.interfaces import Component, Verdict

# Feedback


Item = TypeVar("Item")


@dataclass(frozen=True)
class RepairAnalysis:
    """The analysis of a turn."""

    task: BugTask
    roles: Sequence[FixerRole]
    work: Mapping[str, Submission]
    tests: tuple[Outcome, ...]

    def code(self, agent: str) -> str:
        """Return an agent's own code; empty where it holds none of its functions."""
        return self.work[agent].code

    @property
    def parses(self) -> bool:
        """True if every agent's code parses."""
        return not any(part.problem for part in self.work.values())

    def missing(self, role: FixerRole) -> list[str]:
        """Return the functions that an agent should have submitted and did not, or not in code that parses."""
        submitted = self.work[role.agent].submitted
        return [name for name in role.owned_functions(self.task) if name not in submitted]

    @property
    def all_passed(self) -> bool:
        """True if everything is there, all parses and every shown test passes."""
        complete = not any(self.missing(role) for role in self.roles)
        return complete and self.parses and all(test.passed for test in self.tests)


def level_feedback(analysis: RepairAnalysis, role: FixerRole) -> list[str]:
    """Write diagnostics of every level."""
    missing = ", ".join(f"`{name}`" for name in analysis.missing(role))
    state = f"{missing} MISSING (what was there stays)" if missing else "all of yours FOUND"
    lines = ["Static and execution diagnostics:", f"- Functions: {state}"]
    lines += [
        f"- Functions of {mate.agent}: {'some MISSING' if analysis.missing(mate) else 'all FOUND'}"
        for mate in analysis.roles
        if mate.agent != role.agent
    ]
    problem = analysis.work[role.agent].problem
    if problem is not None:
        place = f"SyntaxError at line {problem.line}, col {problem.column}"
        lines.append(f"- Syntax: ERROR ({place} of your code: {foreign_line(problem.message)})")
    else:
        lines.append(f"- Syntax: {'OK' if analysis.parses else 'ERROR (in code of a team-mate)'}")
    passed = sum(test.passed for test in analysis.tests)
    lines.append(f"- Tests: {passed}/{len(analysis.tests)} passed")
    return lines + _failures(analysis.tests, role.agent, "your code")


def _failures(tests: Sequence[Outcome], origin: str, whose: str) -> list[str]:
    """Write each test that failed, with the line of code that raised if it is of `origin`."""
    lines = []
    for test in tests:
        if not test.passed:
            place = f" (line {test.line} of {whose})" if test.origin == origin else ""
            # The case is an assert, or of unittest a name and the code.
            name, _, body = test.case.partition("\n")
            code = "".join(f"\n    {line}" for line in body.splitlines())
            lines.append(f"  Failed case: {name} -> {test.message}{place}{code}")
    return lines


def level_passed(analysis: RepairAnalysis, role: FixerRole) -> list[str]:
    """Write one line for each level: passed or not."""
    passed, total = sum(test.passed for test in analysis.tests), len(analysis.tests)
    return [
        "Signals:",
        f"- {'Not all of your functions found' if analysis.missing(role) else 'All your functions found'}",
        f"- {'Syntax correct' if analysis.parses else 'Syntax not correct'}",
        f"- {'Passed all tests' if passed == total else f'Passed {passed}/{total} tests'}",
    ]


REPAIR_FEEDBACK: dict[str, Callable[[RepairAnalysis, FixerRole], list[str]]] = {
    "level_feedback": level_feedback,
    "level_passed": level_passed,
}


@dataclass(frozen=True)
class RepairMode(CodeMode):
    """Tells, in the first prompts too, of the tests that the bugs fail before all others."""

    roles: Sequence[FixerRole]
    sandbox: Sandbox = field(kw_only=True)

    def first(self, task: BugTask) -> dict[str, str]:
        """Return the first prompt of each agent, with feedback about the program as they get it."""
        execution = run_unmodified(self.sandbox, task)
        tests = self.sanitize(self.visible_tests(task, execution.tests))
        passed = sum(test.passed for test in tests)
        count = f"Tests: {passed}/{len(tests)} passed"
        lines = {
            "level_feedback": [count, *_failures(tests, PROGRAM, "the program"), ""],
            "level_passed": [count, ""],
            "passed": [f"Signal: {'All' if passed == len(tests) else 'Not all'} tests passed", ""],
        }.get(self.name, [])
        return {role.agent: role.instructions(task, lines) for role in self.roles}

    def visible_tests(self, task: BugTask, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items of the tests that prompts may show, failing tests first."""
        before = run_unmodified(self.sandbox, task).tests
        order = sorted(range(len(before)), key=lambda number: before[number].passed)
        return self.options.visible_tests([items[number] for number in order])

    def public(self, task: BugTask) -> tuple[str, ...]:
        """Return the texts of a task that every prompt may contain."""
        return (task.prompt, task.buggy)


# Reward


PARSES, FIXED, MINIMAL, REGRESSED = 0.5, 2.0, 0.5, 1.0
MAXIMUM = PARSES + FIXED + MINIMAL
COMPONENTS = {
    "parses": Component(
        "Share of the program's functions that were submitted in code that parses, times 0.5.",
        form=True,
    ),
    "fixed": Component("Share of the tests that failed before and pass now, times 2.0."),
    "minimal": Component("Up to 0.5 if the fix changes no more of the program than the bugs need."),
    "regressed": Component("Minus the share of the tests that passed before and fail now."),
}


@dataclass(frozen=True)
class RepairReward(ProgramReward):
    """Puts the agents' functions into the program, runs its tests, and compares with before."""

    roles: tuple[FixerRole, ...]
    components: ClassVar[Mapping[str, Component]] = COMPONENTS
    maximum: ClassVar[float] = MAXIMUM

    def __call__(self, task: BugTask, completions: Mapping[str, str]) -> Verdict:
        """Judge one joint completion."""
        points = dict.fromkeys(COMPONENTS, 0.0)
        work = {role.agent: role.read(task, completions[role.agent]) for role in self.roles}
        submitted = {name: text for part in work.values() for name, text in part.submitted.items()}
        points["parses"] = PARSES * len(submitted) / len(task.functions)
        if any(part.problem for part in work.values()):
            tests = not_run(task.tests.cases, "the joint program does not parse")
            analysis = RepairAnalysis(task, self.roles, work, tests)
            return Verdict(points, False, self.details(tests, work), analysis)
        # The sandbox remembers the verdicts of the program as it was: asking for every turn costs little.
        before = run_unmodified(self.sandbox, task).tests
        execution = run_submissions(self.sandbox, task, work)
        warn_about_endless_tests(task.task_id, task.test, completions, execution)
        pairs = list(zip(before, execution.tests, strict=True))
        fixed = _share([new.passed for old, new in pairs if not old.passed])
        points["fixed"] = FIXED * fixed
        regressions = _share([not new.passed for old, new in pairs if old.passed])
        points["regressed"] = 0.0 - REGRESSED * regressions  # no negative zero
        # A repair smaller than undoing the bugs gets no more than full points.
        excess = max(0, change(task, work, submitted) - task.need)
        points["minimal"] = MINIMAL * fixed * max(0.0, 1 - excess / task.size)
        passes = all(test.passed for test in execution.tests)
        solved = passes and len(submitted) == len(task.functions)
        analysis = RepairAnalysis(task, self.roles, work, execution.tests)
        record = self.details(execution.tests, work, execution.error)
        return Verdict(points, solved, record, analysis)


def _share(outcomes: list[bool]) -> float:
    return sum(outcomes) / len(outcomes) if outcomes else 0.0


def change(task: BugTask, work: Mapping[str, Submission], submitted: Mapping[str, str]) -> int:
    """Return the size of the agents' changes, in tokens."""
    size = sum(distance(task.given_functions[name], text) for name, text in submitted.items())
    for part in work.values():
        if task.known_class is not None and part.contribution is not None:
            size += task.known_class.count_added_tokens(part.contribution)
        else:
            size += count_added_tokens(part.code, task.statements, task.functions)
    return size
