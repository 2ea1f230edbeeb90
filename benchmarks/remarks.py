"""What can be wrong with a data set's tests, found by grading programs again and again."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_decpomdp.envs.humaneval import CodeTask
from llm_decpomdp.envs.reward import CodeReward
from llm_decpomdp.envs.roles import coding_team
from llm_decpomdp.envs.sandbox import Execution, Limits, Program, Sandbox, Tests
from llm_decpomdp.episode import Verdict

REFERENCE = "reference"

STUBS = {
    "raises": "    raise Exception('nothing here')\n    return None\n",
    "returns None": "    return None\n",
}
"""Bodies of functions that do no work, by what they do."""

SHOWN = 3
"""Tests that a remark names."""


@dataclass(frozen=True)
class Subject:
    """A joint completion to grade."""

    task: CodeTask
    completions: Mapping[str, str]
    name: str
    """`reference`, or where it stands in a file."""


@dataclass(frozen=True)
class Grading:
    """One verdict on a subject."""

    seed: int
    verdict: Verdict
    by_clock: bool
    """Whether a time-out came from the clock on the wall."""


@dataclass(frozen=True)
class Remark:
    """Something to know about a task or a program."""

    kind: str
    task_id: str
    program: str
    """Name of the program that showed it; empty if the test's text did."""
    text: str
    fault: bool = False
    """Whether rewards are wrong, can be forged, or are a matter of chance while this stays as it is."""


class _Recorder(Sandbox):
    """A sandbox that knows whether the clock has decided a verdict."""

    by_clock = False

    def run(self, program: Program, tests: Tests, limits: Limits | None = None) -> Execution:
        execution = super().run(program, tests, limits)
        self.by_clock = self.by_clock or execution.wall_decided
        return execution


def grade(subject: Subject, seed: int, limits: Limits) -> Grading:
    """Grade a joint completion, with the reward that its team would have earned."""
    sandbox = _Recorder(limits, seed=seed, cache_size=0)
    reward = CodeReward(coding_team(len(subject.completions)), sandbox)
    verdict = reward(subject.task, subject.completions)
    return Grading(seed, verdict, sandbox.by_clock)


def about_text(task: CodeTask) -> Iterator[Remark]:
    """What the text of a test tells."""
    tests = task.tests
    if not tests.split:
        reads = ", ".join(attributes_read(task))
        text = (
            f"runs inside the program's process, where its result can be forged: it reads {reads}"
        )
        yield Remark("in-process", task.task_id, "", text, fault=True)
    if tests.vary and "main_0" in task.references:
        text = "asserts in loops or functions count only if reached as often as by the reference"
        yield Remark("varying", task.task_id, "", text)
    elif tests.vary:
        text = "asserts in loops or functions may never be reached, and no reference says how often they are"
        yield Remark("varying", task.task_id, "", text, fault=True)


def attributes_read(task: CodeTask) -> list[str]:
    """The attributes of the function under test that the test's text names, such as `candidate.__doc__`."""
    module = ast.parse(task.test)
    names = {task.entry_point}
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "check":
            names |= {argument.arg for argument in statement.args.posonlyargs + statement.args.args}
    return sorted(
        {
            ast.unparse(node)
            for node in ast.walk(module)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in names
        }
    )


def about_gradings(subject: Subject, gradings: Sequence[Grading]) -> Iterator[Remark]:
    """What several verdicts on one subject tell."""
    task, name = subject.task, subject.name
    differences = list(_differences(gradings))
    if differences:
        yield Remark("flaky", task.task_id, name, _some(differences), fault=True)
    if name == REFERENCE and not any(grading.verdict.solved for grading in gradings):
        verdict = gradings[0].verdict
        failed = [f"{o.case}: {o.message or o.status}" for o in verdict.tests if not o.passed]
        text = f"earns {verdict.reward:g}: {_some(failed) or 'its parts do not work together'}"
        if task.known_issue:
            text += f" (known: {task.known_issue})"
        yield Remark("reference", task.task_id, name, text, fault=not task.known_issue)
    if any(grading.by_clock for grading in gradings):
        text = "a time-out was decided by the clock, so it depends on how busy the machine is"
        yield Remark("clock", task.task_id, name, text, fault=True)


def _differences(gradings: Sequence[Grading]) -> Iterator[str]:
    """The tests on which verdicts differ, with the seeds; or the points, if only these do."""
    columns = list(zip(*(grading.verdict.tests for grading in gradings), strict=True))
    found = False
    for outcomes in columns:
        seeds: dict[str, list[str]] = {}
        for grading, outcome in zip(gradings, outcomes, strict=True):
            seeds.setdefault(outcome.status, []).append(str(grading.seed))
        if len(seeds) > 1:
            found = True
            told = "; ".join(
                f"{status} with seed {', '.join(who)}" for status, who in seeds.items()
            )
            yield f"{outcomes[0].case}: {told}"
    rewards = [grading.verdict.reward for grading in gradings]
    if not found and len(set(rewards)) > 1:
        yield "rewards differ: " + ", ".join(f"{reward:g}" for reward in rewards)


def about_stubs(task: CodeTask, limits: Limits) -> Iterator[Remark]:
    """The tests that pass for a function that does no work."""
    for name, body in STUBS.items():
        code = f"def {task.entry_point}(*_, **__):\n{body}"
        verdict = grade(Subject(task, {"main_0": code}, name), 0, limits).verdict
        passed = [outcome.case for outcome in verdict.tests if outcome.passed]
        if passed:
            text = f"{len(passed)} of {len(verdict.tests)} tests pass: {_some(passed)}"
            fault = len(passed) == len(verdict.tests)
            yield Remark("vacuous", task.task_id, f"a function that {name}", text, fault)


def _some(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return "; ".join(texts[:SHOWN]) + more
