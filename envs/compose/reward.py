"""The reward of composition, for passed tests and for agents that do their own steps.

| component      | points   | condition                                                              |
|----------------|----------|------------------------------------------------------------------------|
| `aux_defined`  | 0.25     | a helper's function is defined, returns and parses                     |
| `main_defined` | 0.25     | so is the entry function; otherwise stop                               |
| `names_aux`    | 0.5      | the entry function's code calls a helper's function by its name        |
| `tests`        | 0 to 1.0 | share of the tests that the joint program passes                       |
| `together`     | 0 to 2.0 | that share, but at most the share of tests in which helper and `main`  |
|                |          | do their own steps without each other's code (`separate_runs.py`)      |

The maximum is 4.0 for a team and 1.25 for one agent. Several helpers have equal shares of the points about
helpers. A program has points for `tests` and none for `together` if it does not need its helpers: its helper does
more than its own steps, or its entry function needs no helper. With the convention `name`, the entry function's
code must also refer to exactly one of the names.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from llm_decpomdp.envs.compose.roles import EntryRole, HelperRole, Role
from llm_decpomdp.envs.compose.separate_runs import separate_shares
from llm_decpomdp.envs.compose.tasks import ENTRY_POINT, ComposeTask
from llm_decpomdp.envs.program_reward import (
    USED,
    ProgramReward,
    helper_uses,
    not_run,
    warn_about_endless_tests,
)
from llm_decpomdp.envs.sandbox import Outcome, Program
from llm_decpomdp.envs.source_code.completion import Reading
from llm_decpomdp.envs.source_code.parsing import parse_or_none
from llm_decpomdp.interfaces import Component, Verdict


@dataclass(frozen=True)
class ComposeAnalysis:
    """The analysis of a turn."""

    roles: tuple[Role, ...]
    readings: Mapping[str, Reading]
    """Each agent's completion after parsing."""
    tests: tuple[Outcome, ...]
    uses: Mapping[str, str]
    """Use of each helper's function, by agent, as in `envs.program_reward`; empty if no test passes."""
    solved: bool = False
    """True for the maximum reward."""

    def code(self, agent: str) -> str:
        """Return the code of an agent that defines its function; otherwise empty."""
        reading = self.readings[agent]
        return reading.code if reading.defined else ""

    def works(self, agent: str) -> bool:
        """Check whether an agent's function is defined, returns, and parses."""
        reading = self.readings[agent]
        return reading.complete and not reading.problem

    @property
    def all_passed(self) -> bool:
        """True for the maximum reward: passed tests do not show whether each function does its own steps."""
        return self.solved


AUX_DEFINED, MAIN_DEFINED, NAMES_AUX, TESTS, TOGETHER = 0.25, 0.25, 0.5, 1.0, 2.0

COMPONENTS = {
    "aux_defined": Component("0.25 if the helper's function is defined and returns.", form=True),
    "main_defined": Component("0.25 if the entry function is defined and returns.", form=True),
    "names_aux": Component("0.5 if the entry function's code calls the helper's.", form=True),
    "tests": Component("Share of the tests that the joint program passes, up to 1.0."),
    "together": Component(
        "2.0 times the share of tests that pass, as long as each function does its own author's steps and no more."
    ),
}
"""The components, for a team with one helper; several helpers share the points."""


@dataclass(frozen=True)
class ComposeReward(ProgramReward):
    """Merges the agents' code into one program, runs it on the tests, and checks that each agent was needed."""

    roles: tuple[Role, ...]
    components: ClassVar[Mapping[str, Component]] = COMPONENTS

    @property
    def helpers(self) -> tuple[HelperRole, ...]:
        """The roles that write helpers."""
        return tuple(role for role in self.roles if isinstance(role, HelperRole))

    @property
    def maximum(self) -> float:
        """The maximum reward of this team."""
        alone = MAIN_DEFINED + TESTS
        return alone + AUX_DEFINED + NAMES_AUX + TOGETHER if self.helpers else alone

    def __call__(self, task: ComposeTask, completions: Mapping[str, str]) -> Verdict:
        """Score one joint completion."""
        points = dict.fromkeys(COMPONENTS, 0.0)
        readings = {role.agent: role.read(task, completions[role.agent]) for role in self.roles}
        tests = not_run(task.tests.cases, "the entry function is missing")
        analysis = ComposeAnalysis(self.roles, readings, tests, {})
        main = self.roles[-1].agent
        authors = [helper for helper in self.helpers if analysis.works(helper.agent)]
        points["aux_defined"] = self._share(AUX_DEFINED, len(authors))
        if not analysis.works(main):
            return self._verdict(points, analysis)
        points["main_defined"] = MAIN_DEFINED
        functions = {helper.agent: helper.name(completions[helper.agent]) for helper in authors}
        parts = {agent: readings[agent] for agent in (*functions, main)}
        # Helpers' code comes first, so that the entry function's code can call it at the top level.
        segments = tuple((agent, reading.code) for agent, reading in parts.items())
        program = Program(segments, ENTRY_POINT, helpers=tuple(functions.items()))
        execution = self.sandbox.run(program, task.tests)
        warn_about_endless_tests(task.task_id, task.test, completions, execution)
        share = sum(test.passed for test in execution.tests) / len(execution.tests)
        points["tests"] = TESTS * share
        uses = helper_uses(execution, functions) if share else {}
        callees = _callees(readings[main].code)
        # A call through an alias has no name in the code; the run shows it.
        calls = [a for a, name in functions.items() if name in callees or uses.get(a) == USED]
        points["names_aux"] = self._share(NAMES_AUX, len(calls))
        agreed = [h.agent for h in authors if h.agrees(functions[h.agent], readings[main].code)]
        # Separate runs cost a program for each helper: skip those that cannot get points.
        if used_agents := [agent for agent in agreed if uses.get(agent) == USED]:
            role = self.roles[-1]
            assert isinstance(role, EntryRole)
            shares = separate_shares(self.sandbox, task, role, parts, functions, used_agents)
            together = sum(min(share, part) for part in shares.values())
            points["together"] = self._share(TOGETHER, together)
        analysis = replace(analysis, tests=execution.tests, uses=uses)
        return self._verdict(points, analysis, execution.error)

    def _share(self, points: float, fulfilled: float) -> float:
        return points * fulfilled / len(self.helpers) if fulfilled else 0.0

    def _verdict(
        self, points: dict[str, float], analysis: ComposeAnalysis, error: Outcome | None = None
    ) -> Verdict:
        record = self.details(analysis.tests, analysis.readings, error)
        verdict = Verdict(points, False, {**record, "helpers": dict(analysis.uses)}, analysis)
        # Shares of several helpers may not add up exactly.
        solved = verdict.reward >= self.maximum - 1e-9
        return replace(verdict, solved=solved, analysis=replace(analysis, solved=solved))


def _callees(code: str) -> set[str]:
    tree = parse_or_none(code)
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
    return {function.id for function in calls if isinstance(function, ast.Name)}
