"""What the rewards of all families of code share.

The keys of the infos, how the entry function uses each helper, tests that must be reached as often as by a correct
program, and the agent whose line of a merged class raised an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from llm_decpomdp.envs.sandbox import Execution, Outcome, Program, Sandbox, Tests
from llm_decpomdp.envs.sandbox.program import INFO_KEYS, details, notes
from llm_decpomdp.envs.source_code.classes import Merged
from llm_decpomdp.envs.source_code.completion import reading_details, reading_keys
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
    notes = staticmethod(notes)

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Names of the numbers in `Verdict.details` that the infos repeat."""
        return (*INFO_KEYS, *reading_keys(role.agent for role in self.roles))

    def copy_with_sandbox(self: Own, sandbox: Sandbox) -> Own:
        """Return the reward with another sandbox, for audits."""
        return replace(self, sandbox=sandbox)

    def details(
        self, tests: Sequence[Outcome], parts: Mapping[str, Any], error: Outcome | None = None
    ) -> dict[str, Any]:
        """Return `Verdict.details` of tests, and of the agents' code as it was read."""
        fallbacks = {agent: part.fallbacks for agent, part in parts.items()}
        return {**details(tests, error), **reading_details(fallbacks)}


def helper_uses(execution: Execution, names: Iterable[str]) -> dict[str, str]:
    """Return the use of each helper of a program, by its name."""
    pairs = zip(execution.helper_calls, execution.helpers_used, strict=True)
    uses = [USED if used else IGNORED if calls else NOT_CALLED for calls, used in pairs]
    return dict(zip(names, uses, strict=True))


def require_reached(sandbox: Sandbox, correct: Program, tests: Tests) -> Tests:
    """Return tests, each to be reached as often as by a correct program."""
    # Tests that run a fixed number of times need no count.
    if not tests.vary:
        return tests
    # Otherwise a program that returns nothing would pass `for item in candidate(x): assert ...`.
    execution = sandbox.run(correct, tests)
    pairs = zip(execution.reached, execution.tests, strict=True)
    return tests.require_reached([times if test.passed else 0 for times, test in pairs])


def attribute_lines(execution: Execution, merged: Merged, origin: str) -> Execution:
    """Return the execution of a merged class, of this origin, with the agents whose lines raised."""

    def attribute_line(test: Outcome) -> Outcome:
        place = merged.place(test.line) if test.origin == origin else None
        agent, line = place or ("", 0)
        return replace(test, origin=agent, line=line)

    error = execution.error and attribute_line(execution.error)
    return replace(execution, tests=tuple(map(attribute_line, execution.tests)), error=error)
