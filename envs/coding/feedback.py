"""What the external modes tell each agent about a turn: the lines between its own code and the closing request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from llm_decpomdp.envs.coding.helper_use import (
    IGNORED,
    NOT_CALLED,
    UNKNOWN,
    USED,
    is_wrapper,
    lost_results,
    names,
)
from llm_decpomdp.envs.coding.humaneval import CodeTask
from llm_decpomdp.envs.coding.roles import MainRole, Role
from llm_decpomdp.envs.modes.foreign_text import foreign_line
from llm_decpomdp.envs.programs.completion import Reading
from llm_decpomdp.episode import Outcome


@dataclass(frozen=True)
class View:
    """What a mode may tell about one turn."""

    task: CodeTask
    roles: tuple[Role, ...]
    readings: Mapping[str, Reading]
    tests: tuple[Outcome, ...]
    """The outcomes that `sandbox_slice` lets through."""
    uses: Mapping[str, str]
    """How main uses each helper, by name: `USED`, `IGNORED` or `NOT_CALLED`; empty if no test passes."""

    @classmethod
    def of(
        cls,
        task: CodeTask,
        roles: tuple[Role, ...],
        completions: Mapping[str, str],
        tests: tuple[Outcome, ...],
        analysis: Mapping[str, str],
    ) -> View:
        """The view of a turn."""
        readings = {role.agent: role.read(task, completions[role.agent]) for role in roles}
        return cls(task, roles, readings, tests, analysis)

    def code(self, agent: str) -> str:
        """The code of an agent that defines its function; empty where it does not."""
        reading = self.readings[agent]
        return reading.code if reading.defined else ""

    @property
    def main(self) -> Reading:
        """What the author of the entry function wrote."""
        return self.readings[self.roles[-1].agent]

    @property
    def parses(self) -> bool:
        """Whether the joint program parses."""
        return not any(reading.problem for reading in self.readings.values() if reading.defined)

    @property
    def passed(self) -> bool:
        """Whether main is there, all parses and every shown test passes."""
        tests = bool(self.tests) and all(test.passed for test in self.tests)
        return self.main.complete and self.parses and tests

    def use(self, helper: str) -> str:
        """How main uses a helper; `UNKNOWN` where no test has shown it and its code has the name."""
        return self.uses.get(helper, UNKNOWN if names(self.main.code, helper) else NOT_CALLED)


Signals = Callable[[View, Role], list[str]]


def level_feedback(view: View, role: Role) -> list[str]:
    """Diagnostics of every level."""
    own_first = sorted(view.roles, key=lambda other: other is not role)
    lines = ["Static and execution diagnostics:"]
    lines += [_definition(view, other) for other in own_first]
    lines.append(_syntax(view, role))
    if not view.tests:
        lines.append("- Tests: no test cases found")
    else:
        lines.append(f"- Tests: {sum(t.passed for t in view.tests)}/{len(view.tests)} passed")
        lines += [_failure(test, role) for test in view.tests if not test.passed]
    if isinstance(role, MainRole) and role.helpers and view.main.defined:
        for helper in role.helpers:
            lines.append(f"- {helper.capitalize()} usage: {_usage(view, helper)}")
        around = [name for name in role.helpers if view.use(name) in (USED, UNKNOWN)]
        if around and is_wrapper(view.main.code, view.task.entry_point, around):
            lines.append(
                f"- Warning: main is a thin wrapper around {' and '.join(around)}; do more than return its result"
            )
    return lines


def _definition(view: View, role: Role) -> str:
    reading, function = view.readings[role.agent], role.function(view.task)
    title = f"- {role.label.capitalize()} definition"
    if reading.complete:
        return f"{title}: FOUND"
    why = f"`{function}` never returns" if reading.defined else f"no function named `{function}`"
    return f"{title}: MISSING ({why})"


def _syntax(view: View, role: Role) -> str:
    own = view.readings[role.agent]
    if own.defined and own.problem is not None:
        place = f"SyntaxError at line {own.problem.line}, col {own.problem.column}"
        return f"- Syntax: ERROR ({place} of your code: {foreign_line(own.problem.message)})"
    whose = "your" if len(view.roles) == 2 else "a"
    return "- Syntax: OK" if view.parses else f"- Syntax: ERROR (in {whose} team-mate's code)"


def _failure(test: Outcome, role: Role) -> str:
    place = f" (line {test.line} of your code)" if test.origin == role.agent else ""
    return f"  Failed case: {test.case} -> {test.message}{place}"


def _usage(view: View, helper: str) -> str:
    use = view.use(helper)
    if use == NOT_CALLED:
        when = " in a test that passes" if names(view.main.code, helper) else ""
        return f"main does NOT call {helper}{when}"
    lost = lost_results(view.main.code, helper)
    if use == IGNORED:
        return f"called but misused ({'; '.join(lost[:2]) or 'no test depends on its result'})"
    return f"main calls {helper} and uses its result" if use == USED else f"main mentions {helper}"


def level_passed(view: View, role: Role) -> list[str]:
    """Whether each level is passed."""
    found = view.readings[role.agent].complete
    passed, total = sum(test.passed for test in view.tests), len(view.tests)
    summary = f"Passed {passed}/{total} tests"
    if passed == total:
        summary = "Passed all tests" if total else "No tests found"
    elif passed == 0:
        summary = "No tests passed"
    lines = [
        "Signals:",
        f"- {'Implementation OK' if found else 'No implementation found in required structure'}",
        f"- {'Syntax correct' if view.parses else 'Syntax not correct'}",
        f"- {summary}",
    ]
    if isinstance(role, MainRole):
        for helper in role.helpers:
            lines.append(f"- {helper.capitalize()} usage: {_usage_signal(view, helper)}")
    return lines


def _usage_signal(view: View, helper: str) -> str:
    if not view.main.defined:
        return "main missing, cannot check"
    return {
        NOT_CALLED: f"main does not call {helper}",
        IGNORED: f"{helper} is called but its result is not used properly",
        USED: f"{helper} call present and used",
        UNKNOWN: f"{helper} is mentioned; whether it is used shows when a test passes",
    }[view.use(helper)]


class Judged(Protocol):
    """What says whether all is well."""

    @property
    def passed(self) -> bool:
        """Whether every level is passed."""
        ...


def passed(view: Judged, role: object) -> list[str]:
    """One signal for everything."""
    return [f"Signal: {'All levels passed' if view.passed else 'Not all levels passed'}"]


def plain(view: object, role: object) -> list[str]:
    """No signals."""
    return []


SIGNALS: dict[str, Signals] = {
    "level_feedback": level_feedback,
    "level_passed": level_passed,
    "passed": passed,
    "plain": plain,
}
