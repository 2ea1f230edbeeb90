"""What the rewards of all families of code share.

Outcomes of tests as details and infos, uses of helpers by the entry function, tests that must be reached as often
as by a correct program, and a warning about tests that do not end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from llm_decpomdp.envs.sandbox import Execution, Outcome, Program, Sandbox, Tests
from llm_decpomdp.envs.sandbox.program import ENDLESS
from llm_decpomdp.envs.source_code.completion import FALLBACKS
from llm_decpomdp.interfaces import Component

USED, IGNORED, NOT_CALLED, UNKNOWN = "used", "ignored", "not called", "unknown"
"""Uses of a helper when the program runs; unknown where no test passes."""

Own = TypeVar("Own", bound="ProgramReward")


@dataclass(frozen=True)
class ProgramReward:
    """A reward for one program of a team's code, which runs in a sandbox."""

    roles: tuple[Any, ...]
    sandbox: Sandbox = field(default_factory=Sandbox)
    components: ClassVar[Mapping[str, Component]]

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Names of the numbers in `Verdict.details` that the infos repeat."""
        agents = [role.agent for role in self.roles]
        readings = [f"reading/{agent}/{name}" for agent in agents for name in FALLBACKS]
        return ("tests_passed", "tests_total", *readings)

    def copy_with_sandbox(self: Own, sandbox: Sandbox) -> Own:
        """Return the reward with another sandbox, for audits."""
        return replace(self, sandbox=sandbox)

    def details(
        self, tests: Sequence[Outcome], parts: Mapping[str, Any], error: Outcome | None = None
    ) -> dict[str, Any]:
        """Return `Verdict.details` of tests, and of the agents' code as it was read."""
        readings = {
            f"reading/{agent}/{name}": part.fallbacks.get(name, 0)
            for agent, part in parts.items()
            for name in FALLBACKS
        }
        return {**test_details(tests, error), **readings}

    @staticmethod
    def notes(details: Mapping[str, Any]) -> list[str]:
        """Return lines for people about `details`: every test that did not pass, and why."""
        lines = []
        if details["error"] is not None:
            lines.append(f"could not load: {details['error']['message']}")
        if details["tests"]:
            lines.append(f"tests {details['tests_passed']}/{details['tests_total']} passed")
        failed = (test for test in details["tests"] if not test["passed"])
        return lines + [f"  {test['status']}: {test['case']}  {test['message']}" for test in failed]


def not_run(cases: Iterable[str], why: str) -> tuple[Outcome, ...]:
    """Return the outcomes of tests that were not run."""
    return tuple(Outcome(case, False, "not_run", why) for case in cases)


def test_details(tests: Sequence[Outcome], error: Outcome | None = None) -> dict[str, Any]:
    """Return the details of a reward's `Verdict`: the outcomes of all tests, and the failure to load it."""
    return {
        "tests_passed": sum(test.passed for test in tests),
        "tests_total": len(tests),
        "tests": [dict(vars(test)) for test in tests],
        "error": None if error is None else dict(vars(error)),
    }


def helper_uses(execution: Execution, names: Iterable[str]) -> dict[str, str]:
    """Return the use of each helper of a program, by its name."""
    pairs = zip(execution.helper_calls, execution.helpers_used, strict=True)
    uses = [USED if used else IGNORED if calls else NOT_CALLED for calls, used in pairs]
    return dict(zip(names, uses, strict=True))


def add_reference_counts(sandbox: Sandbox, correct: Program, tests: Tests) -> Tests:
    """Return tests, each to be reached as often as by a correct program, which runs in the sandbox for this."""
    # Tests that run a fixed number of times need no count.
    if not tests.vary:
        return tests
    # Otherwise a program that returns nothing would pass `for item in candidate(x): assert ...`.
    execution = sandbox.run(correct, tests)
    pairs = zip(execution.reached, execution.tests, strict=True)
    return tests.raise_minimum([times if test.passed else 0 for times, test in pairs])


# Tests that do not end: each new program costs the whole time limit until the row of the data is mended


# The values of one program may be absurd; a second program shows that the row of the data is at fault.
MIN_PROGRAMS = 2  # different programs on whose values a test must not end before its task is named

logger = logging.getLogger(__name__)

_PROGRAMS: dict[tuple[str, str], set[int]] = {}  # hashes of the programs so far, by task and test


def warn_about_endless_tests(
    task_id: str, test: str, completions: Mapping[str, str], execution: Execution
) -> None:
    """Warn, once for each task, when its tests did not end on the values of `MIN_PROGRAMS` programs."""
    begin = ENDLESS.partition("{")[0]
    endless = next((o for o in execution.tests if o.message.startswith(begin)), None)
    if endless is None:
        return
    programs = _PROGRAMS.setdefault((task_id, test), set())
    if len(programs) >= MIN_PROGRAMS:
        return
    programs.add(hash(frozenset(completions.items())))
    if len(programs) == MIN_PROGRAMS:
        logger.warning(
            "task %r: %s, for %d different programs, and each new one will take as long; if the test loops "
            "whatever it is given, mend its row or leave it out: run llm-decpomdp check data, with --source for "
            "a file",
            task_id,
            endless.message.removeprefix("TimeoutError: "),
            MIN_PROGRAMS,
        )
