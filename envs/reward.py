"""The reward of the code tasks: levels that a joint program climbs.

| component      | points   | condition                                                    | otherwise |
|----------------|----------|--------------------------------------------------------------|-----------|
| `aux_defined`  | 0.4      | a helper is defined and returns                              | go on     |
| `main_defined` | 0.6      | the entry function is defined and returns                    | stop      |
| `syntax`       | 0.5      | the joint program parses                                     | stop      |
| `tests`        | 0 to 1.0 | share of the tests that pass                                 | stop at 0 |
| `uses_aux`     | 0.5      | the entry function really calls a helper                     | stop      |
| `not_wrapper`  | 1.0      | ... and does more than return what helpers return            |           |
| `aux_ignored`  | -0.5     | ... but never uses what any call returned                    |           |

A team earns at most 4.0, a single agent 2.1. Where N - 1 helpers help, each has an equal share of the four
components that are about helpers: a component's points are those above times the share of helpers that fulfil the
condition, such as 0.4 * 2/3 where two of three are defined. The other components are the team's.

- A helper is used if the code of the entry function's author calls it. Helpers may call each other, but a helper
  that only helpers call is not used.
- All code shares one namespace and runs in the team's order, so of two definitions of a name the later one counts
  for everybody. A helper that a later author's code replaces is not used, for what is called is not its own.
- The entry function is a wrapper if it does no more than return results of helpers, be it one or several, one
  given to another, or one here and another there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from llm_decpomdp.envs.code import Reading
from llm_decpomdp.envs.humaneval import CodeTask
from llm_decpomdp.envs.roles import AuxRole, Role
from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox, Tests
from llm_decpomdp.envs.teamwork import HelperUse, binds, helper_uses
from llm_decpomdp.episode import Outcome, Verdict

COMPONENTS = (
    "aux_defined",
    "main_defined",
    "syntax",
    "tests",
    "uses_aux",
    "not_wrapper",
    "aux_ignored",
)

MAX_TEAM_REWARD = 4.0
MAX_SINGLE_REWARD = 2.1


@dataclass(frozen=True)
class CodeReward:
    """Merges the agents' code into one program, runs it against the tests, and counts the levels.

    The program is the prompt's imports and helpers, the helpers' code in the team's order, the entry function's
    code, in this order. A helper that is not defined is left out, whatever else its author wrote.
    """

    roles: tuple[Role, ...]
    sandbox: Sandbox = field(default_factory=Sandbox)
    components: tuple[str, ...] = COMPONENTS
    shown: int = 0
    """How many tests, from the first on, prompts may show; see `Tests.shown`."""

    @property
    def maximum(self) -> float:
        """Full marks of this team."""
        return MAX_TEAM_REWARD if len(self.roles) > 1 else MAX_SINGLE_REWARD

    @property
    def helpers(self) -> tuple[AuxRole, ...]:
        """The roles that write helpers."""
        return tuple(role for role in self.roles if isinstance(role, AuxRole))

    def __call__(self, task: CodeTask, completions: Mapping[str, str]) -> Verdict:
        """Judge one joint completion."""
        points = dict.fromkeys(COMPONENTS, 0.0)
        readings = {role.agent: role.read(task, completions[role.agent]) for role in self.roles}
        main = readings[self.roles[-1].agent]
        complete = sum(readings[role.agent].complete for role in self.helpers)
        points["aux_defined"] = self._share(0.4, complete)
        if not main.complete:
            return self._verdict(task, points, "the entry function is missing")
        points["main_defined"] = 0.6
        parts = {agent: reading for agent, reading in readings.items() if reading.defined}
        if any(reading.problem for reading in parts.values()):
            return self._verdict(task, points, "the joint program does not parse")
        points["syntax"] = 0.5
        execution = self.sandbox.run(self._program(task, parts), self._tests(task))
        passed = sum(test.passed for test in execution.tests)
        points["tests"] = passed / len(execution.tests)
        if passed:
            uses = self._uses(task, parts, execution)
            points["uses_aux"] = self._share(0.5, len(uses))
            points["not_wrapper"] = self._share(1.0, sum(not use.wrapper for use in uses))
            points["aux_ignored"] = self._share(-0.5, sum(use.ignored for use in uses))
        return self._verdict(task, points, "", execution)

    def _share(self, points: float, fulfilled: int) -> float:
        """The points of a component that is shared out over the helpers."""
        return points * (fulfilled / len(self.helpers)) if fulfilled else 0.0

    def _program(self, task: CodeTask, parts: Mapping[str, Reading]) -> Program:
        """The joint program: helpers' code comes before the entry function's."""
        segments = tuple((agent, reading.code) for agent, reading in parts.items())
        helpers = tuple((role.agent, role.helper) for role in self.helpers)
        return Program(segments, task.entry_point, task.preamble, helpers)

    def _uses(
        self, task: CodeTask, parts: Mapping[str, Reading], execution: Execution
    ) -> list[HelperUse]:
        """How the entry function uses the helpers that it really calls."""
        *_, (_, main) = parts.items()
        names = tuple(role.helper for role in self.helpers if role.agent in parts)
        uses = dict(zip(names, helper_uses(main.code, task.entry_point, names), strict=True))
        found = []
        for role, calls in zip(self.helpers, execution.helper_calls, strict=True):
            use = uses.get(role.helper)
            if use is None or not use.called:
                continue
            if calls or (use.loading and not _is_replaced(role, parts)):
                found.append(use)
        return found

    def _tests(self, task: CodeTask) -> Tests:
        """The task's tests, each to be reached as often as the reference solution reaches it.

        Otherwise a program that returns nothing would pass `for item in candidate(x): assert ...`.
        """
        tests = replace(task.tests, shown=self.shown)
        if not tests.vary or "main_0" not in task.references:
            return tests
        segments = tuple((agent, task.references[agent]) for agent in sorted(task.references))
        reference = self.sandbox.run(Program(segments, task.entry_point, task.preamble), tests)
        pairs = zip(reference.reached, reference.tests, strict=True)
        return tests.at_least([times if test.passed else 0 for times, test in pairs])

    def _verdict(
        self, task: CodeTask, points: dict[str, float], why: str, execution: Execution | None = None
    ) -> Verdict:
        if execution is not None:
            tests, error = execution.tests, execution.error
        else:
            tests = tuple(Outcome(case, False, "not_run", why) for case in task.tests.cases)
            error = None
        verdict = Verdict(points, False, tests, error)
        return Verdict(points, verdict.reward >= self.maximum - 1e-9, tests, error)


def _is_replaced(helper: AuxRole, parts: Mapping[str, Reading]) -> bool:
    """Whether code that runs after a helper's own gives its name another meaning."""
    agents = list(parts)
    later = agents[agents.index(helper.agent) + 1 :]
    return any(binds(parts[agent].code, helper.helper) for agent in later)
