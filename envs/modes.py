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
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_decpomdp.envs.experts import Expert, ExpertError, make_expert
from llm_decpomdp.envs.humaneval import CodeTask
from llm_decpomdp.envs.roles import Role
from llm_decpomdp.envs.signals import SIGNALS, View
from llm_decpomdp.episode import Turn
from llm_decpomdp.naming import unknown

logger = logging.getLogger(__name__)

NO_CODE = "<no implementation found>"


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
        public = (task.prompt, *self.shown(task.tests.cases))
        return [case for case in task.tests.cases if not any(case in text for text in public)]

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
    if on_expert_failure not in ("raise", "continue"):
        raise ValueError(unknown("on_expert_failure", on_expert_failure, ("raise", "continue")))
    composition = Composition(roles, parse_slice(sandbox_slice), original_prompt, previous_response)
    if name in SIGNALS:
        return SignalMode(name, composition)
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
