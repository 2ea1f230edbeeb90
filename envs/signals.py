"""What the external modes tell each agent about a turn: the lines between its own code and the closing request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm_decpomdp.envs.code import Reading
from llm_decpomdp.envs.humaneval import CodeTask
from llm_decpomdp.envs.roles import HELPER, Role
from llm_decpomdp.envs.teamwork import HelperUse, helper_use
from llm_decpomdp.episode import Outcome


@dataclass(frozen=True)
class View:
    """What a mode may tell about one turn."""

    task: CodeTask
    roles: tuple[Role, ...]
    readings: Mapping[str, Reading]
    tests: tuple[Outcome, ...]
    """The outcomes that `sandbox_slice` lets through."""

    @property
    def parses(self) -> bool:
        """Whether the joint program parses."""
        return not any(reading.problem for reading in self.readings.values() if reading.defined)

    @property
    def passed(self) -> bool:
        """Whether main is there, all parses and every shown test passes."""
        tests = bool(self.tests) and all(test.passed for test in self.tests)
        return self.readings["main_0"].complete and self.parses and tests

    @property
    def use(self) -> HelperUse:
        """How main uses the helper."""
        return helper_use(self.readings["main_0"].code, self.task.entry_point, HELPER)


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
    if role.agent == "main_0" and len(view.roles) > 1 and view.readings["main_0"].defined:
        lines += _usage(view.use)
    return lines


def _name(role: Role) -> str:
    return role.agent.rpartition("_")[0]


def _definition(view: View, role: Role) -> str:
    reading, function = view.readings[role.agent], role.function(view.task)
    title = f"- {_name(role).capitalize()} definition"
    if reading.complete:
        return f"{title}: FOUND"
    why = f"`{function}` never returns" if reading.defined else f"no function named `{function}`"
    return f"{title}: MISSING ({why})"


def _syntax(view: View, role: Role) -> str:
    own = view.readings[role.agent]
    if own.defined and own.problem is not None:
        place = f"SyntaxError at line {own.problem.line}, col {own.problem.column}"
        return f"- Syntax: ERROR ({place} of your code: {own.problem.message})"
    return "- Syntax: OK" if view.parses else "- Syntax: ERROR (in your team-mate's code)"


def _failure(test: Outcome, role: Role) -> str:
    place = f" (line {test.line} of your code)" if test.origin == role.agent else ""
    return f"  Failed case: {test.case} -> {test.message}{place}"


def _usage(use: HelperUse) -> list[str]:
    if not use.called:
        return ["- Aux usage: main does NOT call aux"]
    if use.ignored:
        return [f"- Aux usage: called but misused ({'; '.join(use.reasons[:2])})"]
    lines = ["- Aux usage: main calls aux and uses its result"]
    if use.wrapper:
        lines.append("- Warning: main is a thin wrapper around aux; do more than return its result")
    return lines


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
    if role.agent == "main_0" and len(view.roles) > 1:
        lines.append(f"- Aux usage: {_usage_signal(view)}")
    return lines


def _usage_signal(view: View) -> str:
    if not view.readings["main_0"].defined:
        return "main missing, cannot check"
    if not view.use.called:
        return "main does not call aux"
    if view.use.ignored:
        return "aux is called but its result is not used properly"
    return "aux call present and used"


def passed(view: View, role: Role) -> list[str]:
    """One signal for everything."""
    return [f"Signal: {'All levels passed' if view.passed else 'Not all levels passed'}"]


def plain(view: View, role: Role) -> list[str]:
    """No signals."""
    return []


SIGNALS: dict[str, Signals] = {
    "level_feedback": level_feedback,
    "level_passed": level_passed,
    "passed": passed,
    "plain": plain,
}
