"""The reward of repairing a program.

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

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from llm_decpomdp.envs.bugfix.feedback import RepairAnalysis
from llm_decpomdp.envs.bugfix.roles import FixerRole
from llm_decpomdp.envs.bugfix.tasks import BugTask, ProgramRunner, Submission
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.envs.sandbox.program import (
    INFO_KEYS,
    details,
    not_run,
    notes,
    warn_about_endless_tests,
)
from llm_decpomdp.envs.source_code.completion import reading_details, reading_keys
from llm_decpomdp.envs.source_code.functions import count_added_tokens, distance
from llm_decpomdp.interfaces import Component, Verdict

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
class RepairReward:
    """Puts the agents' functions into the program, runs its tests, and compares with before."""

    roles: tuple[FixerRole, ...]
    runner: ProgramRunner
    components: ClassVar[Mapping[str, Component]] = COMPONENTS
    maximum: ClassVar[float] = MAXIMUM
    notes = staticmethod(notes)

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Names of the numbers in `Verdict.details` that the infos repeat."""
        return (*INFO_KEYS, *reading_keys(role.agent for role in self.roles))

    def copy_with_sandbox(self, sandbox: Sandbox) -> RepairReward:
        """Return the reward with another sandbox, for audits."""
        return replace(self, runner=ProgramRunner(sandbox))

    def __call__(self, task: BugTask, completions: Mapping[str, str]) -> Verdict:
        """Judge one joint completion."""
        points = dict.fromkeys(COMPONENTS, 0.0)
        work = {role.agent: role.read(task, completions[role.agent]) for role in self.roles}
        readings = reading_details({agent: part.fallbacks for agent, part in work.items()})
        submitted = {name: text for part in work.values() for name, text in part.submitted.items()}
        points["parses"] = PARSES * len(submitted) / len(task.functions)
        if any(part.problem for part in work.values()):
            tests = not_run(task.tests.cases, "the joint program does not parse")
            analysis = RepairAnalysis(task, self.roles, work, tests)
            return Verdict(points, False, {**details(tests), **readings}, analysis)
        # The sandbox remembers the verdicts of the program as it was: asking for every turn costs little.
        before = self.runner.run_unmodified(task).tests
        execution = self.runner.run(task, work)
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
        record = {**details(execution.tests, execution.error), **readings}
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
