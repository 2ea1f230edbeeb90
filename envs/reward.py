"""The reward of the code tasks: levels that a joint program climbs.

| component      | points   | condition                                                    | otherwise |
|----------------|----------|--------------------------------------------------------------|-----------|
| `aux_defined`  | 0.4      | the helper is defined and returns                            | go on     |
| `main_defined` | 0.6      | the entry function is defined and returns                    | stop      |
| `syntax`       | 0.5      | the joint program parses                                     | stop      |
| `tests`        | 0 to 1.0 | share of the tests that pass                                 | stop at 0 |
| `uses_aux`     | 0.5      | the entry function really calls the helper                   | stop      |
| `not_wrapper`  | 1.0      | ... and does more than return the helper's result            |           |
| `aux_ignored`  | -0.5     | ... but never uses what any call returned                    |           |

A team earns at most 4.0, a single agent 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llm_decpomdp.envs.humaneval import CodeTask
from llm_decpomdp.envs.roles import HELPER, Role
from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox, Tests
from llm_decpomdp.envs.teamwork import helper_use
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

    The program is the prompt's imports and helpers, the helper's code, the entry function's code, in this
    order. A helper that is not defined is left out, whatever else its author wrote.
    """

    roles: tuple[Role, ...]
    sandbox: Sandbox = field(default_factory=Sandbox)
    components: tuple[str, ...] = COMPONENTS

    @property
    def maximum(self) -> float:
        """Full marks of this team."""
        return MAX_TEAM_REWARD if len(self.roles) > 1 else MAX_SINGLE_REWARD

    def __call__(self, task: CodeTask, completions: Mapping[str, str]) -> Verdict:
        """Judge one joint completion."""
        points = dict.fromkeys(COMPONENTS, 0.0)
        readings = {role.agent: role.read(task, completions[role.agent]) for role in self.roles}
        main, aux = readings["main_0"], readings.get("aux_0")
        if aux is not None and aux.complete:
            points["aux_defined"] = 0.4
        if not main.complete:
            return self._verdict(task, points, "the entry function is missing")
        points["main_defined"] = 0.6
        parts = [(a, r) for a, r in readings.items() if r.defined]
        if any(reading.problem for _, reading in parts):
            return self._verdict(task, points, "the joint program does not parse")
        points["syntax"] = 0.5
        program = _program(task, {agent: reading.code for agent, reading in parts})
        execution = self.sandbox.run(program, self._tests(task))
        passed = sum(test.passed for test in execution.tests)
        points["tests"] = passed / len(execution.tests)
        if passed and aux is not None and aux.defined:
            use = helper_use(main.code, task.entry_point, HELPER)
            if use.called and (execution.helper_calls or use.loading):
                points["uses_aux"] = 0.5
                points["not_wrapper"] = 0.0 if use.wrapper else 1.0
                points["aux_ignored"] = -0.5 if use.ignored else 0.0
        return self._verdict(task, points, "", execution)

    def _tests(self, task: CodeTask) -> Tests:
        """The task's tests, each to be reached as often as the reference solution reaches it.

        Otherwise a program that returns nothing would pass `for item in candidate(x): assert ...`.
        """
        tests = task.tests
        if not tests.vary or "main_0" not in task.references:
            return tests
        reference = self.sandbox.run(_program(task, task.references), tests)
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


def _program(task: CodeTask, parts: Mapping[str, str]) -> Program:
    """The joint program: the helper's code comes before the entry function's."""
    segments = tuple((agent, parts[agent]) for agent in sorted(parts))
    return Program(segments, task.entry_point, task.preamble, HELPER)
