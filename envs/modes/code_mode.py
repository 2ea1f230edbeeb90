"""The external modes: what each agent sees after a turn, for all families in which agents write code.

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
the tests that `sandbox_slice` shows, with the text of an exception that the joint program raised: one line,
without the markup of chat templates (see `foreign_text.py`), or its type alone with `exception_text=False`.

A family with other signals gives `code_mode` a table of them, and a `Composition` that says what they look at.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from llm_decpomdp.envs.modes.experts import Expert, ExpertError, MissingKey, make_expert
from llm_decpomdp.envs.modes.foreign_text import told
from llm_decpomdp.episode import Turn
from llm_decpomdp.parts import Role
from llm_decpomdp.validation import check_flags, unknown

logger = logging.getLogger(__name__)

NO_CODE = "<no implementation found>"


class Writer(Role, Protocol):
    """A role whose agent is shown its own code again and asked to revise it."""

    @property
    def seat(self) -> str:
        """The agent's id before any user renamed it: what an expert calls it."""
        ...

    @property
    def title(self) -> str:
        """Whose implementation it is, such as `main `, with a space at the end; empty for an agent alone."""
        ...

    def request(self, task: Any) -> str:
        """What it is asked to revise, such as `aux(...)`."""
        ...


class Sight(Protocol):
    """What signals are made of."""

    def code(self, agent: str) -> str:
        """The code in an agent's completion; empty where it holds none of what was asked for."""
        ...


Look = Callable[..., Any]
"""Makes a `Sight` of a task, the roles, their completions, the outcomes to show, and `Verdict.analysis`."""

Signals = Mapping[str, Callable[[Any, Any], list[str]]]
"""For each mode the lines that a role is told, given what `Look` made."""


@dataclass(frozen=True)
class Composition:
    """Which parts later prompts have, and which tests they may speak of."""

    roles: Sequence[Writer]
    sandbox_slice: int = 1
    """n > 0 the first n tests, n < 0 the last -n, 0 all."""
    original_prompt: bool = False
    previous_response: bool = True
    exception_text: bool = True
    """Whether to tell the text of exceptions, or their type alone."""
    look: Look = field(kw_only=True)
    wanted: str = "the function code"
    """What an answer shall consist of."""

    def view(self, task: Any, turn: Turn) -> Any:
        """What the signals are made of."""
        tests = self.shown(turn.verdict.tests)
        return self.look(task, self.roles, turn.completions, tests, turn.verdict.analysis)

    def shown(self, tests: Sequence[Any]) -> tuple[Any, ...]:
        """The part of the tests that may be shown."""
        if self.sandbox_slice < 0:
            return tuple(tests[self.sandbox_slice :])
        return tuple(tests[: self.sandbox_slice or None])

    def secrets(self, task: Any) -> list[str]:
        """Texts of the tests that no prompt may contain."""
        public = (task.prompt, *self.shown(task.tests.cases))
        return [case for case in task.tests.cases if not any(case in text for text in public)]

    def prompt(
        self, task: Any, view: Sight, role: Writer, signals: Sequence[str], closing: str
    ) -> str:
        """Put a later prompt together; `closing` follows what the role is asked to revise."""
        parts = []
        if self.original_prompt:
            parts.append(f"Original problem and instructions:\n{role.first_prompt(task)}")
        if self.previous_response:
            code = view.code(role.agent) or NO_CODE
            parts.append(f"Your previous {role.title}implementation:\n{code}")
        request = f"Revise your {role.request(task)} {closing}"
        return "\n\n".join([*parts, "\n".join([*signals, request])])

    def closing(self, condition: str = "accordingly", strict: bool = False) -> str:
        """The end of a request: under which condition to revise, and what to answer with."""
        extra = " with no extra text" if strict else ""
        return f"{condition}. Output ONLY {self.wanted}{extra}."


@dataclass(frozen=True)
class SignalMode:
    """A mode whose signals come from the verdict."""

    name: str
    composition: Composition
    signals: Signals
    info_keys: tuple[str, ...] = ()

    def __call__(self, task: Any, turn: Turn) -> tuple[dict[str, str], dict[str, float]]:
        """The next prompt of each agent."""
        parts = self.composition
        tests = tuple(told(test, parts.exception_text) for test in turn.verdict.tests)
        view = parts.view(task, replace(turn, verdict=replace(turn.verdict, tests=tests)))
        closing = parts.closing(
            "if needed" if self.name == "passed" else "accordingly",
            strict=self.name.endswith("feedback"),
        )
        tell = self.signals[self.name]
        return {
            role.agent: parts.prompt(task, view, role, tell(view, role), closing)
            for role in parts.roles
        }, {}

    def secrets(self, task: Any) -> list[str]:
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
    info_keys: tuple[str, ...] = ("expert_failed",)

    def __call__(self, task: Any, turn: Turn) -> tuple[dict[str, str], dict[str, float]]:
        """The next prompt of each agent, and whether the expert failed.

        Raises:
            ExpertError: If the expert fails and `on_failure` is `raise`.
        """
        parts = self.composition
        view = parts.view(task, turn)
        edits: dict[str, str] = {}
        try:
            code = {role.seat: view.code(role.agent) or NO_CODE for role in parts.roles}
            edits = self.expert.edits(task.prompt, code)
        except ExpertError as error:
            if self.on_failure == "raise":
                raise
            logger.warning("no edits for %s: %s", task.task_id, error)
        article = "an " if len(parts.roles) == 1 else ""
        closing = parts.closing(strict=True)
        prompts = {}
        for role in parts.roles:
            title = f"Here is {article}edited snippet from an expert model:"
            signals = [title, edits[role.seat]] if edits else []
            prompts[role.agent] = parts.prompt(task, view, role, signals, closing)
        return prompts, {"expert_failed": float(not edits)}

    def secrets(self, task: Any) -> list[str]:
        """Texts that no prompt may contain: the expert sees no test."""
        return list(task.tests.cases)


def code_mode(
    name: str,
    roles: Sequence[Writer],
    *,
    sandbox_slice: int | str | None = 1,
    original_prompt: bool = False,
    previous_response: bool = True,
    exception_text: bool = True,
    expert_model: str | None = None,
    expert_base_url: str | None = None,
    on_expert_failure: str = "raise",
    signals: Signals,
    compose: Callable[..., Composition],
) -> SignalMode | ExpertMode:
    """The external mode of this name.

    Args:
        name: One of `signals`, or `expert_edits`.
        roles: The team.
        sandbox_slice: See `parse_slice`.
        original_prompt: Whether later prompts repeat the first one.
        previous_response: Whether later prompts show the agent's own last code.
        exception_text: Whether feedback tells the text of exceptions, or their type alone.
        expert_model: Name of the model that `expert_edits` asks.
        expert_base_url: Address of an endpoint of the user's own for it.
        on_expert_failure: `raise`, or `continue` without edits.
        signals: What each mode tells.
        compose: Makes the composition of the roles and the first four options, with its `look` given.

    Raises:
        ValueError: If a name or value is wrong, or `expert_edits` has no `expert_model`, or no key for it.
    """
    if name not in (*signals, "expert_edits"):
        raise ValueError(unknown("external_mode", name, (*signals, "expert_edits")))
    check_flags(
        original_prompt=original_prompt,
        previous_response=previous_response,
        exception_text=exception_text,
    )
    if on_expert_failure not in ("raise", "continue"):
        raise ValueError(unknown("on_expert_failure", on_expert_failure, ("raise", "continue")))
    composition = compose(
        roles, parse_slice(sandbox_slice), original_prompt, previous_response, exception_text
    )
    if name in signals:
        return SignalMode(name, composition, signals)
    if not expert_model:
        raise ValueError(
            "external_mode='expert_edits' needs expert_model, such as 'deepseek-coder'"
        )
    try:
        expert = make_expert(expert_model, base_url=expert_base_url)
    except MissingKey as error:
        raise MissingKey(
            f"{error}, ask another model (expert_model=...), or none (external_mode='level_feedback'); in a "
            "configuration external.expert_model=..., or external.mode=level_feedback"
        ) from None
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
