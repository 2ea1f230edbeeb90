"""The reward of the code tasks: levels that a joint program climbs.

| component      | points   | condition                                                    | otherwise |
|----------------|----------|--------------------------------------------------------------|-----------|
| `aux_defined`  | 0.4      | a helper is defined and returns                              | go on     |
| `main_defined` | 0.6      | the entry function is defined and returns                    | stop      |
| `syntax`       | 0.5      | the joint program parses                                     | stop      |
| `tests`        | 0 to 1.0 | share of the tests that pass                                 | stop      |
| `uses_aux`     | 0.5      | the program calls a helper                                   | stop      |
| `not_wrapper`  | 1.0      | ... and no helper does as well as the entry function         | go on     |
| `aux_ignored`  | -0.5     | ... but no test's outcome depends on what it returns         | go on     |

The last column says what follows if the condition does not hold; for `tests`, if no test passes. After `stop`, the
components below have 0 points.

A team earns at most 4.0, a single agent 2.1. With N - 1 helpers, each has an equal share of the four
components that are about helpers: a component's points are those above times the share of helpers that fulfil the
condition, such as 0.4 * 2/3 where two of three are defined. The other components are the team's.

All of this is decided by running the program (`sandbox/worker/evaluator/helpers.py`), after its tests are decided:

- A helper is called if the program calls it during a passing test. A helper that is called only while the code is
  loaded, for example to make a table, counts as called if it is not ignored.
- A helper is ignored if no test's outcome changes when its results are changed within their type
  (`sandbox/worker/candidate/result_mutation.py`). It is also ignored if every passing test passes again when a
  trivial function replaces it: a constant, its first argument, or all its arguments. So `assert aux(x) == 0`
  ignores it.
- The entry function is a wrapper if every passing test passes again with a helper in its place. So beside a helper
  that solves the whole problem every entry function is a wrapper. Each helper that is called is tried.
- Calls count in the code of the entry function's author. Helpers may call each other, but a helper that only
  helpers call is not called.
- All code shares one namespace and runs in the team's order, so of two definitions of a name the later one counts
  for everybody. A helper that a later author's code replaces is not called, because the program calls the
  replacement.

Each test must be reached as often as by the reference solution. If this number may depend on the program, the
reference solution runs in the sandbox before the program does (`CodeReward._task_tests`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from llm_decpomdp.envs.coding.roles import AuxRole, Role
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.program_reward import (
    IGNORED,
    NOT_CALLED,
    ProgramReward,
    add_reference_counts,
    helper_uses,
    not_run,
    warn_about_endless_tests,
)
from llm_decpomdp.envs.sandbox import Execution, Outcome, Program, Tests
from llm_decpomdp.envs.source_code.completion import Reading
from llm_decpomdp.interfaces import Component, Verdict

COMPONENTS = {
    "aux_defined": Component(
        "0.4 if the helper function is defined and returns something.", form=True
    ),
    "main_defined": Component(
        "0.6 if the function that the tests call is defined and returns something.", form=True
    ),
    "syntax": Component("0.5 if the joint program parses.", form=True),
    "tests": Component("Share of the tests that the joint program passes, up to 1.0."),
    "uses_aux": Component("0.5 if the program calls the helper while a test that passes runs."),
    "not_wrapper": Component(
        "1.0 if a test that passes then fails with the helper in the entry function's place."
    ),
    "aux_ignored": Component(
        "-0.5 if it calls the helper, and no test depends on what that returns, or a trivial helper would do."
    ),
}
"""The components, for a team with one helper; several helpers share the points."""

Parts = tuple[tuple[str, str], ...]
"""Code, or names of functions, by their authors."""

FORMER_METHODS = {"program": "build_program", "judge": "score_program"}
"""Former names of methods of `CodeReward` that subclasses override, and the names that they have now."""

MAX_TEAM_REWARD = 4.0
MAX_SINGLE_REWARD = 2.1


@dataclass(frozen=True)
class CodeAnalysis:
    """The analysis of a turn."""

    task: CodeTask
    roles: tuple[Role, ...]
    readings: Mapping[str, Reading]
    """Each agent's completion, as it was read."""
    tests: tuple[Outcome, ...]
    uses: Mapping[str, str]
    """Main's use of each helper, by name: `USED`, `IGNORED` or `NOT_CALLED`; empty if no test passes."""
    wrapped: tuple[str, ...] = ()
    """Names of helpers that do as well in main's place."""

    def code(self, agent: str) -> str:
        """Return the code of an agent that defines its function; empty where it does not."""
        reading = self.readings[agent]
        return reading.code if reading.defined else ""

    @property
    def main(self) -> Reading:
        """The reading of the entry function's author."""
        return self.readings[self.roles[-1].agent]

    @property
    def parses(self) -> bool:
        """True if the joint program parses."""
        return not any(reading.problem for reading in self.readings.values() if reading.defined)

    @property
    def all_passed(self) -> bool:
        """True if main is there, all parses and every shown test passes."""
        tests = bool(self.tests) and all(test.passed for test in self.tests)
        return self.main.complete and self.parses and tests


@dataclass(frozen=True)
class CodeReward(ProgramReward):
    """Merges the agents' code into one program, runs it against the tests, and counts the levels.

    The program is the prompt's imports and helpers, the helpers' code in the team's order, the entry function's
    code, in this order. Code without its helper function is left out.
    """

    roles: tuple[Role, ...]
    components: ClassVar[Mapping[str, Component]] = COMPONENTS
    form: ClassVar[Mapping[str, float]] = {"aux_defined": 0.4, "main_defined": 0.6, "syntax": 0.5}
    """Points of the levels before the tests."""
    shown: int = 0
    """Number of tests, from the first on, that prompts may show; see `Tests.shown`."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Raise a `TypeError` for a method of a former name, which nothing would call."""
        super().__init_subclass__(**arguments)
        for former, name in FORMER_METHODS.items():
            if callable(getattr(cls, former, None)):
                raise TypeError(
                    f"{cls.__name__}.{former} overrides nothing: rename it to {name}, with the parameters of "
                    f"CodeReward.{name}"
                )

    @property
    def maximum(self) -> float:
        """Full marks of this team."""
        return MAX_TEAM_REWARD if len(self.roles) > 1 else MAX_SINGLE_REWARD

    @property
    def helpers(self) -> tuple[AuxRole, ...]:
        """The roles that write helpers."""
        return tuple(role for role in self.roles if isinstance(role, AuxRole))

    def __call__(self, task: CodeTask, completions: Mapping[str, str]) -> Verdict:
        """Score one joint completion."""
        points = dict.fromkeys(self.components, 0.0)
        readings = {role.agent: role.read(task, completions[role.agent]) for role in self.roles}
        main_agent = self.roles[-1].agent
        main = readings[main_agent]
        complete = sum(readings[role.agent].complete for role in self.helpers)
        points["aux_defined"] = self._share(self.form["aux_defined"], complete)
        # Without an entry function nothing can run: the levels after it are not reached.
        if not main.complete:
            tests = not_run(task.tests.cases, "the entry function is missing")
            return self._verdict(points, CodeAnalysis(task, self.roles, readings, tests, {}))
        points["main_defined"] = self.form["main_defined"]
        # Only code that defines its function takes part: other texts of an agent must not change the program.
        parts = {agent: reading for agent, reading in readings.items() if reading.defined}
        if any(reading.problem for reading in parts.values()):
            tests = not_run(task.tests.cases, "the joint program does not parse")
            return self._verdict(points, CodeAnalysis(task, self.roles, readings, tests, {}))
        points["syntax"] = self.form["syntax"]
        # The sandbox counts calls of the helpers, and replaces them to see whether a test needs them.
        helpers = tuple((role.agent, role.helper) for role in self.helpers)
        segments = tuple((agent, reading.code) for agent, reading in parts.items())
        program = self.build_program(segments, task, helpers)
        # May run the reference solution first: see `_task_tests`.
        execution = self.sandbox.run(program, self._task_tests(task))
        warn_about_endless_tests(task.task_id, task.test, completions, execution)
        # Use shows in tests that pass: in one that fails, any change of the helper leaves the result wrong.
        passes = any(test.passed for test in execution.tests)
        names = [role.helper for role in self.helpers]
        uses = helper_uses(execution, names) if passes else {}
        wrapped = self.score_program(execution, uses, points)
        analysis = CodeAnalysis(task, self.roles, readings, execution.tests, uses, wrapped)
        verdict = self._verdict(points, analysis, execution.error)
        return replace(verdict, own=self.own_points(execution))

    def build_program(self, segments: Parts, task: CodeTask, helpers: Parts) -> Program:
        """Return the program, with the runs that check its helpers."""
        return Program(segments, task.entry_point, task.preamble, helpers, substitute=True)

    def score_program(
        self, execution: Execution, uses: Mapping[str, str], points: dict[str, float]
    ) -> tuple[str, ...]:
        """Set the points of a program that has run; return the helpers that do as well in main's place."""
        points["tests"] = sum(test.passed for test in execution.tests) / len(execution.tests)
        called_helpers = sum(use != NOT_CALLED for use in uses.values())
        wrapped = tuple(
            helper
            for helper, suffices in zip(uses, execution.helpers_suffice, strict=False)
            if suffices and uses[helper] != NOT_CALLED
        )
        if called_helpers:
            points["uses_aux"] = self._share(0.5, called_helpers)
            points["not_wrapper"] = 0.0 if wrapped else self._share(1.0, called_helpers)
            points["aux_ignored"] = self._share(-0.5, [*uses.values()].count(IGNORED))
        return wrapped

    def own_points(self, execution: Execution) -> dict[str, dict[str, float]]:
        """Return points of single agents for a program that has run, by agent and component; here none."""
        return {}

    def _share(self, points: float, fulfilled: int) -> float:
        return points * (fulfilled / len(self.helpers)) if fulfilled else 0.0

    def _task_tests(self, task: CodeTask) -> Tests:
        """Return the task's tests, each to be reached as often as the reference solution reaches it.

        If these numbers may depend on the program, as in a loop over its result, the reference solution runs in
        the sandbox first. The cache of the sandbox keeps its execution, so it seldom runs again.
        """
        tests = replace(task.tests, shown=self.shown)
        if "main_0" not in task.references:
            return tests
        # Sorted by id: `aux_0` comes before `main_0`, as in the joint program.
        segments = tuple((agent, task.references[agent]) for agent in sorted(task.references))
        reference = Program(segments, task.entry_point, task.preamble)
        return add_reference_counts(self.sandbox, reference, tests)

    def _verdict(
        self, points: dict[str, float], analysis: CodeAnalysis, error: Outcome | None = None
    ) -> Verdict:
        record = self.details(analysis.tests, analysis.readings, error)
        verdict = Verdict(points, False, {**record, "helpers": dict(analysis.uses)}, analysis)
        # Shares of helpers add up with rounding errors.
        return replace(verdict, solved=verdict.reward >= self.maximum - 1e-9)
