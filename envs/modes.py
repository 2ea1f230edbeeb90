"""The external modes of the code tasks: what each agent sees after a turn.

A later prompt is put together from, in this order: the first prompt again (`original_prompt`), the agent's own
last code (`previous_response`), the mode's signals, and a request to revise. No template is put around it.

| mode             | signals                                                                           |
|------------------|-----------------------------------------------------------------------------------|
| `level_feedback` | diagnostics: definitions, syntax with line and column, failing tests, use of `aux` |
| `level_passed`   | the same levels as passed or not                                                   |
| `passed`         | one signal: all levels passed, or not all                                          |
| `plain`          | none                                                                               |
| `expert_edits`   | edits by an outside model                                                          |

Line numbers count in the agent's own code. A team-mate's code is never quoted; what leaves it is the outcome of
the tests that `sandbox_slice` shows, with the text of an exception that the joint program raised.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_decpomdp.envs.code import Reading
from llm_decpomdp.envs.experts import Expert, ExpertError, make_expert
from llm_decpomdp.envs.humaneval import CodeTask
from llm_decpomdp.envs.roles import HELPER, Role
from llm_decpomdp.envs.teamwork import HelperUse, helper_use
from llm_decpomdp.episode import Outcome, Turn
from llm_decpomdp.naming import unknown

logger = logging.getLogger(__name__)

NO_CODE = "<no implementation found>"


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
    if own.problem is not None:
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
MODES = (*SIGNALS, "expert_edits")


@dataclass(frozen=True)
class Composition:
    """Which parts later prompts have, and which tests they may speak of."""

    roles: tuple[Role, ...]
    sandbox_slice: int = 1
    """n > 0 the first n tests, n < 0 the last -n, 0 all."""
    original_prompt: bool = False
    previous_response: bool = True

    def view(self, task: CodeTask, turn: Turn) -> View:
        """What the signals are made of."""
        readings = {
            role.agent: role.read(task, turn.completions[role.agent]) for role in self.roles
        }
        return View(task, self.roles, readings, self.shown(turn.verdict.tests))

    def shown(self, tests: Sequence[Any]) -> tuple[Any, ...]:
        """The part of the tests that may be shown."""
        if self.sandbox_slice < 0:
            return tuple(tests[self.sandbox_slice :])
        return tuple(tests[: self.sandbox_slice or None])

    def secrets(self, task: CodeTask) -> list[str]:
        """Texts of the tests that no prompt may contain."""
        shown = set(self.shown(task.tests.cases))
        return [case for case in task.tests.cases if case not in shown]

    def prompt(self, view: View, role: Role, signals: Sequence[str], closing: str) -> str:
        """Put a later prompt together."""
        parts = []
        if self.original_prompt:
            parts.append(f"Original problem and instructions:\n{role.first_prompt(view.task)}")
        if self.previous_response:
            reading = view.readings[role.agent]
            name = (
                {"aux_0": "aux(...) ", "main_0": "main "}[role.agent] if len(self.roles) > 1 else ""
            )
            code = reading.code if reading.defined else NO_CODE
            parts.append(f"Your previous {name}implementation:\n{code}")
        request = f"Revise your {role.function(view.task)}(...) {closing}"
        return "\n\n".join([*parts, "\n".join([*signals, request])])


@dataclass(frozen=True)
class SignalMode:
    """A mode whose signals come from the verdict."""

    name: str
    composition: Composition
    info_keys: tuple[str, ...] = ()

    def __call__(self, task: CodeTask, turn: Turn) -> tuple[dict[str, str], dict[str, float]]:
        """The next prompt of each agent."""
        view = self.composition.view(task, turn)
        condition = "if needed" if self.name == "passed" else "accordingly"
        closing = f"{condition}. Output ONLY the function code."
        if self.name == "level_feedback":
            closing = "accordingly. Output ONLY the function code with no extra text."
        signals = SIGNALS[self.name]
        return {
            role.agent: self.composition.prompt(view, role, signals(view, role), closing)
            for role in self.composition.roles
        }, {}

    def secrets(self, task: CodeTask) -> list[str]:
        """Texts that no prompt may contain."""
        return self.composition.secrets(task)


@dataclass(frozen=True)
class ExpertMode:
    """A mode in which an outside model edits each agent's code.

    The infos count the turns on which the expert failed (`expert_failed`), which is possible only with
    `on_failure="continue"`.
    """

    composition: Composition
    expert: Expert
    on_failure: str = "raise"
    info_keys: tuple[str, ...] = field(default=("expert_failed",))

    def __call__(self, task: CodeTask, turn: Turn) -> tuple[dict[str, str], dict[str, float]]:
        """The next prompt of each agent, and whether the expert failed.

        Raises:
            ExpertError: If the expert fails and `on_failure` is `raise`.
        """
        view = self.composition.view(task, turn)
        code = {a: r.code if r.defined else NO_CODE for a, r in view.readings.items()}
        edits: dict[str, str] = {}
        try:
            edits = self.expert.edits(task.prompt, code)
        except ExpertError as error:
            if self.on_failure == "raise":
                raise
            logger.warning("no edits for %s: %s", task.task_id, error)
        article = "an " if len(self.composition.roles) == 1 else ""
        closing = "accordingly. Output ONLY the function code with no extra text."
        prompts = {}
        for role in self.composition.roles:
            title = f"Here is {article}edited snippet from an expert model:"
            signals = [title, edits[role.agent]] if edits else []
            prompts[role.agent] = self.composition.prompt(view, role, signals, closing)
        return prompts, {"expert_failed": float(not edits)}

    def secrets(self, task: CodeTask) -> list[str]:
        """Texts that no prompt may contain: the expert sees no test."""
        return list(task.tests.cases)


def code_mode(
    name: str,
    roles: tuple[Role, ...],
    *,
    sandbox_slice: int | str | None = 1,
    original_prompt: bool = False,
    previous_response: bool = True,
    expert_model: str | None = None,
    expert_base_url: str | None = None,
    on_expert_failure: str = "raise",
) -> SignalMode | ExpertMode:
    """The external mode of this name.

    Raises:
        ValueError: If a name or value is wrong, or `expert_edits` has no `expert_model`.
    """
    if name not in MODES:
        raise ValueError(unknown("external_mode", name, MODES))
    for flag, value in (
        ("original_prompt", original_prompt),
        ("previous_response", previous_response),
    ):
        if not isinstance(value, bool):
            raise ValueError(f"{flag} must be True or False, got {value!r}")
    composition = Composition(roles, parse_slice(sandbox_slice), original_prompt, previous_response)
    if name in SIGNALS:
        return SignalMode(name, composition)
    if on_expert_failure not in ("raise", "continue"):
        raise ValueError(unknown("on_expert_failure", on_expert_failure, ("raise", "continue")))
    if not expert_model:
        raise ValueError(
            "external_mode='expert_edits' needs expert_model, such as 'deepseek-coder'"
        )
    expert = make_expert(expert_model, base_url=expert_base_url)
    return ExpertMode(composition, expert, on_expert_failure)


def parse_slice(value: object) -> int:
    """`sandbox_slice` as a number: n first tests, -n last, 0 all; None and "all" mean 0.

    Raises:
        ValueError: If `value` is none of these.
    """
    if value is None or (isinstance(value, str) and value.lower() in ("all", "none")):
        return 0
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(
            f"sandbox_slice must be a whole number (n first tests, -n last), 0, None or 'all', got {value!r}"
        )
    return value
