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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from llm_decpomdp.envs.bugfix.roles import FixerRole
from llm_decpomdp.envs.bugfix.tasks import BugTask, Submission, run_submissions, run_unmodified
from llm_decpomdp.envs.program_reward import ProgramReward, not_run, warn_about_endless_tests
from llm_decpomdp.envs.sandbox import Outcome
from llm_decpomdp.envs.source_code.functions import count_added_tokens, distance
from llm_decpomdp.interfaces import Component, Verdict


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
