"""Remarks on the texts of a data set and on programs that are graded several times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from typing_extensions import Protocol, runtime_checkable

from llm_decpomdp.benchmarks.audit.grading import Grading, Subject
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.datasets.loading import REFERENCE, Remark
from llm_decpomdp.envs.sandbox import Outcome, Tests, instrument
from llm_decpomdp.envs.source_code.parsing import find_function
from llm_decpomdp.interfaces import Role, Task

SHOWN = 3


@runtime_checkable
class ProgramTask(Protocol):
    """Task in which agents write code."""

    def idle_programs(self) -> Mapping[str, str]:
        """Return programs that do no work, by a description."""
        ...


def about_gradings(subject: Subject, gradings: Sequence[Grading]) -> Iterator[Remark]:
    """Yield remarks on several verdicts on one subject."""
    task_id, name = subject.task.task_id, subject.name
    differences = list(_differences(gradings))
    if differences:
        yield Remark("flaky", task_id, name, some(differences), fault=True)
    if name == REFERENCE and not any(grading.verdict.solved for grading in gradings):
        failed = [why(outcome) for outcome in gradings[0].tests if not outcome.passed]
        text = f"earns {gradings[0].verdict.reward:g}: {some(failed) or 'its parts fail together'}"
        yield Remark("reference", task_id, name, text, fault=True)
    if any(grading.by_clock for grading in gradings):
        text = "the clock, not the CPU time, decided a time-out, so it depends on the load of the machine"
        yield Remark("clock", task_id, name, text, fault=True)


def _differences(gradings: Sequence[Grading]) -> Iterator[str]:
    """Yield the tests on which verdicts differ, with the seeds. If no test differs, yield different rewards."""
    # One column for each test, with its outcome in every grading.
    columns = list(zip(*(grading.tests for grading in gradings), strict=True))
    differs = False
    for outcomes in columns:
        seeds: dict[str, list[str]] = {}
        for grading, outcome in zip(gradings, outcomes, strict=True):
            seeds.setdefault(outcome.status, []).append(str(grading.seed))
        if len(seeds) > 1:
            differs = True
            parts = [f"{status} with seed {', '.join(s)}" for status, s in seeds.items()]
            yield f"{title(outcomes[0])}: {'; '.join(parts)}"
    rewards = [grading.verdict.reward for grading in gradings]
    if not differs and len(set(rewards)) > 1:
        yield "rewards differ: " + ", ".join(f"{reward:g}" for reward in rewards)


def about_idler(subject: Subject, grading: Grading) -> Iterator[Remark]:
    """Yield the tests that pass for a program that does no work."""
    passed = [title(outcome) for outcome in grading.tests if outcome.passed]
    fault = len(passed) == len(grading.tests)
    # A buggy program is meant to pass some tests.
    if fault or (passed and not hasattr(subject.task, "buggy")):
        text = f"{len(passed)} of {len(grading.tests)} tests pass: {some(passed)}"
        yield Remark("vacuous", subject.task.task_id, subject.name, text, fault)


def some(texts: Sequence[str]) -> str:
    """Return the first few of some texts, and how many more there are."""
    more = f"; and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return "; ".join(texts[:SHOWN]) + more


def why(outcome: Outcome) -> str:
    """Return a test and why it did not pass."""
    return f"{title(outcome)}: {outcome.message or outcome.status}"


def title(outcome: Outcome) -> str:
    """Return the first line of a test."""
    return outcome.case.partition("\n")[0]


APART = (
    "passes only if the tests run in the process of the program: in another process they get values of builtin "
    "classes and the attributes and methods of other objects, but cannot compare these objects; see "
    "docs/security.md"
)


def about_text(task: Task) -> Iterator[Remark]:
    """Yield remarks on the text of a row."""
    if isinstance(task, CodeTask):
        yield from _about_function(task)


def _about_function(task: CodeTask) -> Iterator[Remark]:
    tests = task.tests
    for remark in task.remarks:
        text = f"a correct program may fail here and pass in plain Python: {remark}"
        yield Remark("process", task.task_id, "", text)
    if find_function(task.stub, task.entry_point) is None:
        text = f"the prompt does not parse as the header of {task.entry_point}"
        yield Remark("prompt", task.task_id, "", text, fault=True)
    if tests.vary and "main_0" in task.references:
        text = "asserts in loops or functions pass only if they run as often as with the reference"
        yield Remark("varying", task.task_id, "", text)
    # Without a reference nothing tells how often an assert in a loop should run.
    elif tests.vary:
        text = "asserts in loops or functions may never run, and there is no reference for how often they should"
        yield Remark("varying", task.task_id, "", text, fault=True)


@dataclass(frozen=True)
class _Inside(CodeTask):
    @property
    def tests(self) -> Tests:
        return instrument(self.test, self.entry_point, split=False)


def inside(task: Task) -> CodeTask | None:
    """Return a task of one function with tests that run in the process of the program; None for other tasks."""
    if not isinstance(task, CodeTask):
        return None
    return _Inside(**{entry.name: getattr(task, entry.name) for entry in fields(task)})


def idlers(task: Task, alone: Role) -> Iterator[Subject]:
    """Yield programs that do no work, as answers of one agent. They must not pass all tests."""
    if isinstance(task, ProgramTask):
        for name, code in task.idle_programs().items():
            yield Subject(task, {alone.agent: code}, name)
