"""The reward for shared work, the division of labor that it measures, and divided references.

| component      | points    | for                                                                           |
|----------------|-----------|-------------------------------------------------------------------------------|
| `aux_defined`  | 0.04      | a helper is defined and returns                                               |
| `main_defined` | 0.04      | the entry function is defined and returns; otherwise stop                     |
| `syntax`       | 0.02      | the joint program parses; otherwise stop                                      |
| `tests`        | 0 to 0.40 | the share of the tests that pass                                              |
| `helper_part`  | 0 to 0.05 | 2.5 times the share of the tests to which a helper adds something, at most 1  |
| `shared`       | 0 to 0.45 | 2.5 times the share of the tests that are shared work, at most 1              |

A helper adds something to a test that passes, and fails with every trivial function in its place. The test is
*shared work* if it also fails with the helper in place of the entry function. This is decided by running the
program with something trivial in place of one side (`sandbox/worker/evaluator/helpers.py`). Two tests of five are
enough for full marks, because one side alone may handle edge cases.

So a team that divides the work earns 1.0. If the entry function does all of it, the team earns 0.5, and if that
only returns what the helper returns, 0.55. An agent alone earns at most 0.46. With several helpers, `aux_defined`,
`helper_part` and `shared` are means over them.

Each agent of a team also has points of its own, which are no part of the reward:

| component  | points   | for                                                                     |
|------------|----------|-------------------------------------------------------------------------|
| `own/part` | 0 to 1.0 | the share of the passing tests to which the agent's code adds something |

A `main_0` that does everything alone has `own/part` 1.0, so a large `algorithm.own_weight` can reward ignoring the
helper.

# What is trivial

In place of the entry function: what a helper returned when it got the entry function's arguments, or arguments
that are derived from these (`sandbox/worker/candidate/derived.py`). It may be cast, or packed in a list, and a
missing value may have a default. Also trivial are an item at a fixed place, an item or a part by a constant, an
arithmetic operation with a constant, a text joined, split, stripped or in other letters, and a choice between two
constants.

In place of a helper: its results changed within their type, an empty value, a constant of the type, one argument
or all of them, a value that is derived from the arguments, and a value that equals everything. So a helper whose
result is only compared with what it should be adds nothing.

Among these, what a helper returned, and results that make no difference, decide test by test. Any other trivial
function counts only where it alone explains nine of ten of the tests in question: a constant gives every answer
True of a function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.coding.reward import CodeReward, Parts
from llm_decpomdp.envs.coding.roles import HELPER
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.datasets.loading import REFERENCE, Remark
from llm_decpomdp.envs.program_reward import NOT_CALLED
from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox
from llm_decpomdp.envs.source_code.function_extraction import divide_function
from llm_decpomdp.envs.source_code.parsing import find_function
from llm_decpomdp.interfaces import Component

POINTS = {
    "aux_defined": 0.04,
    "main_defined": 0.04,
    "syntax": 0.02,
    "tests": 0.4,
    "helper_part": 0.05,
    "shared": 0.45,
}
"""Points of each component."""

FULL_SHARE = 0.4
"""Share of the tests from which on a division is complete: one side alone may handle the others, as edge cases."""


@dataclass(frozen=True)
class Division:
    """What each side of a program adds, for each test."""

    passed: tuple[bool, ...]
    main_adds: tuple[bool, ...]
    """True where the test passes, and fails with a helper in place of the entry function."""
    helpers_add: tuple[tuple[bool, ...], ...]
    """For each helper, True where the test passes, and fails with every trivial function in the helper's place."""

    @classmethod
    def of(cls, execution: Execution) -> Division:
        """Return the division that a run with `Program.divide` has found."""
        passed = tuple(test.passed for test in execution.tests)
        nothing = (False,) * len(passed)
        helpers = execution.helpers_add or tuple(nothing for _ in execution.helper_calls)
        return cls(passed, execution.main_adds or nothing, helpers)

    def main_part(self) -> float:
        """Return the share of the passing tests to which the entry function adds something."""
        return sum(self.main_adds) / max(sum(self.passed), 1)

    def helper_part(self) -> float:
        """Return the share of the passing tests to which a helper adds something; the mean over helpers."""
        return self._mean(self.helpers_add) / max(sum(self.passed), 1)

    def shared(self) -> float:
        """Return the share of all tests that pass by shared work; the mean over helpers."""
        pairs = [zip(self.main_adds, adds, strict=True) for adds in self.helpers_add]
        shared = [[main and helper for main, helper in pair] for pair in pairs]
        return self._mean(shared) / len(self.passed)

    def points(self) -> dict[str, float]:
        """Return the points of the components that depend on the tests."""
        helped = self._mean(self.helpers_add) / len(self.passed)
        shares = {"helper_part": helped / FULL_SHARE, "shared": self.shared() / FULL_SHARE}
        shares["tests"] = sum(self.passed) / len(self.passed)
        return {name: POINTS[name] * min(share, 1.0) for name, share in shares.items()}

    def _mean(self, columns: Sequence[Sequence[bool]]) -> float:
        """Return the number of tests marked in each column; the mean over the helpers."""
        return sum(map(sum, columns)) / max(len(self.helpers_add), 1)

    def is_real(self) -> bool:
        """Check whether all tests pass, and enough of them by shared work."""
        return all(self.passed) and self.shared() >= FULL_SHARE


def measure_divisions(
    programs: Sequence[tuple[CodeTask, Mapping[str, str]]], sandbox: Sandbox
) -> list[Division]:
    """Measure the division of labor in programs of two agents, in parallel.

    Each program is a task with the code of `aux_0` and `main_0`. Equal programs run once.
    """
    jobs = []
    for task, code in programs:
        # As in the joint program, sorted by id.
        segments = tuple((agent, code[agent]) for agent in sorted(code))
        helpers = (("aux_0", HELPER),)
        program = Program(segments, task.entry_point, task.preamble, helpers, divide=True)
        jobs.append((program, task.tests))
    return [Division.of(execution) for execution in sandbox.run_batch(jobs)]


class DivisionReward(CodeReward):
    """Merges the agents' code into one program as `CodeReward` does, and counts the tests that need both sides."""

    components: ClassVar[Mapping[str, Component]] = {
        "aux_defined": Component("0.04 if the helper function is defined and returns.", form=True),
        "main_defined": Component("0.04 if the entry function is defined and returns.", form=True),
        "syntax": Component("0.02 if the joint program parses.", form=True),
        "tests": Component("Share of the tests that the joint program passes, up to 0.4."),
        "helper_part": Component("Up to 0.05 for tests that fail with every trivial helper."),
        "shared": Component("Up to 0.45 for tests that also fail with a helper in place of main."),
    }
    form: ClassVar[Mapping[str, float]] = POINTS

    @property
    def maximum(self) -> float:
        """Full marks of this team."""
        return 1.0 if self.helpers else 0.46

    @property
    def own_components(self) -> tuple[str, ...]:
        """Points of single agents, which a learner adds with `algorithm.own_weight`."""
        return ("part",) if self.helpers else ()

    def own_points(self, execution: Execution) -> dict[str, dict[str, float]]:
        """Return for each agent the share of the passing tests to which its own code adds something."""
        if not self.helpers:
            return {}
        division = Division.of(execution)
        passing = max(sum(division.passed), 1)
        parts = [sum(adds) / passing for adds in division.helpers_add]
        agents = [role.agent for role in self.roles]
        shares = zip(agents, [*parts, division.main_part()], strict=True)
        return {agent: {"part": share} for agent, share in shares}

    def audit(self, env: DecPOMDPEnv) -> Iterator[Remark]:
        """Yield for each row how many tests are shared work under its own division, or its best known one."""
        tasks = [task for task in env.tasks.tasks if isinstance(task, CodeTask)]
        own = [task for task in tasks if "aux_0" in task.references]
        divisions = measure_divisions([(task, task.references) for task in own], self.sandbox)
        for task, division in zip(own, divisions, strict=True):
            count = f"{division.shared() * len(division.passed):g} of {len(division.passed)}"
            real = "real" if division.is_real() else "not real"
            text = f"its division is {real}: {count} tests are shared work"
            yield Remark("division", task.task_id, REFERENCE, text, not division.is_real())
        for task in tasks:
            if task not in own:
                text = "function extraction finds a real division of the solution"
                yield Remark("division", task.task_id, REFERENCE, text)

    def build_program(self, segments: Parts, task: CodeTask, helpers: Parts) -> Program:
        """Return the program, with the runs that measure its division."""
        return Program(segments, task.entry_point, task.preamble, helpers, divide=True)

    def score_program(
        self, execution: Execution, uses: Mapping[str, str], points: dict[str, float]
    ) -> tuple[str, ...]:
        """Set the points of a program that has run; return the helpers that do as well in main's place."""
        division = Division.of(execution)
        points |= division.points()
        if any(division.main_adds):
            return ()
        return tuple(helper for helper, use in uses.items() if use != NOT_CALLED)


# References divided between two agents: the data's own division, or the best extraction from a whole solution


MAX_TRIED = 16
"""Extractions of a reference that are run, in the order of `divide_function`."""

AT_ONCE = 4
"""Extractions that are run together."""


@dataclass(frozen=True)
class DivisionOptions:
    """Which divisions of a reference are tried."""

    same_parameters: bool = False
    """Only helpers with the parameters of the entry function. Then both agents know the call without reading each
    other's code."""
    kinds: Sequence[str] = ()
    """Only these extracted parts, of `KINDS`. If empty, all of them and the divisions of the data."""
    prefill: str = ""
    """Only divisions whose two parts begin with this text, for models with this `prefill`."""

    def includes(self, code: Mapping[str, str], origin: str, entry_point: str) -> bool:
        """Check whether a division is tried, by the code of both parts and its origin."""
        if self.kinds and origin not in self.kinds:
            return False
        if not all(part.startswith(self.prefill) for part in code.values()):
            return False
        if not self.same_parameters:
            return True
        parameters = _parameters(code["main_0"], entry_point)
        return parameters is not None and parameters == _parameters(code["aux_0"], HELPER)


@dataclass(frozen=True)
class DividedReference:
    """A reference in two parts, and what each of them adds to the tests."""

    code: Mapping[str, str]
    """Code of `aux_0` and `main_0`."""
    origin: str
    """`reference`, or the kind of the extracted part."""
    balance: float
    """Operations of the smaller part divided by those of the larger; 1 for a division of the data."""
    counts: bool
    """True if the helper only returns a `range`, which is little work."""
    division: Division

    @property
    def is_tail(self) -> bool:
        """True if the last line of the entry function begins with `return aux(`."""
        *_, last = self.code["main_0"].rstrip().split("\n")
        return last.strip().startswith(f"return {HELPER}(")


def divide_reference(
    task: CodeTask, sandbox: Sandbox, options: DivisionOptions | None = None
) -> DividedReference | None:
    """Return the division of a task's reference with most shared tests, of equal ones the first.

    `None` if the task has no reference, or no division passes all tests.
    """
    best: DividedReference | None = None
    for reference in find_divisions(task, sandbox, options):
        if best is None or reference.division.shared() > best.division.shared():
            best = reference
        if best.division.shared() == 1.0:
            break  # those that follow are less balanced, or only count
    return best


def find_divisions(
    task: CodeTask, sandbox: Sandbox, options: DivisionOptions | None = None
) -> Iterator[DividedReference]:
    """Yield the divisions of a task's reference that pass all tests, in the order of `divide_function`."""
    candidates = _candidates(task, options or DivisionOptions())
    for first in range(0, len(candidates), AT_ONCE):
        part = candidates[first : first + AT_ONCE]
        divisions = measure_divisions([(task, code) for code, *_ in part], sandbox)
        for candidate, division in zip(part, divisions, strict=True):
            if all(division.passed):
                yield DividedReference(*candidate, division)


def _candidates(
    task: CodeTask, options: DivisionOptions
) -> list[tuple[dict[str, str], str, float, bool]]:
    if "aux_0" in task.references:
        candidates = [(dict(task.references), REFERENCE, 1.0, False)]
    else:
        code = task.references.get("main_0", "")
        parts = divide_function(code, task.entry_point, preamble=task.preamble)
        candidates = [
            ({"aux_0": part.helper, "main_0": part.main}, part.kind, part.balance, part.counts)
            for part in parts
        ]
    tried = (one for one in candidates if options.includes(one[0], one[1], task.entry_point))
    return list(islice(tried, MAX_TRIED))


def _parameters(code: str, name: str) -> tuple[list[str], ...] | None:
    """Return the names of a function's parameters by kind, without annotations; `None` without the function."""
    function = find_function(code, name)
    if function is None:
        return None
    of = function.args
    kinds = (of.posonlyargs, of.args, of.kwonlyargs, [of.vararg], [of.kwarg])
    return tuple([part.arg for part in kind if part is not None] for kind in kinds)
