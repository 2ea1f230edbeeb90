"""Remarks on a data set, from the rewards of programs that are graded again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_decpomdp.benchmarks.audit.grading import Grading, Subject
from llm_decpomdp.envs.bugfix.tasks import BugTask
from llm_decpomdp.envs.sandbox import Outcome

REFERENCE = "reference"

SHOWN = 3
"""Number of tests that a remark names."""


@dataclass(frozen=True)
class Remark:
    """Observation about a task or a program."""

    kind: str
    task_id: str
    program: str
    """Name of the program that showed it; empty if the row's text did."""
    text: str
    fault: bool = False
    """True if rewards are wrong, can be forged, or are a matter of chance while this stays as it is."""
    explained: str = ""
    """Known issue of the row, where it is recorded as such."""


def about_gradings(subject: Subject, gradings: Sequence[Grading]) -> Iterator[Remark]:
    """Yield remarks on several verdicts on one subject."""
    task_id, name = subject.task.task_id, subject.name
    differences = list(_differences(gradings))
    if differences:
        yield Remark("flaky", task_id, name, some(differences), fault=True)
    if name == REFERENCE and not any(grading.verdict.solved for grading in gradings):
        failed = [why(outcome) for outcome in gradings[0].tests if not outcome.passed]
        text = f"earns {gradings[0].verdict.reward:g}: {some(failed) or 'its parts do not work together'}"
        yield Remark("reference", task_id, name, text, fault=True)
    if any(grading.by_clock for grading in gradings):
        text = "a time-out was decided by the clock, so it depends on how busy the machine is"
        yield Remark("clock", task_id, name, text, fault=True)


def _differences(gradings: Sequence[Grading]) -> Iterator[str]:
    """Yield the tests on which verdicts differ, with the seeds; or the points, if only these do."""
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
    """Yield the tests that pass for a program that does no work; of a program to repair, some must."""
    passed = [title(outcome) for outcome in grading.tests if outcome.passed]
    fault = len(passed) == len(grading.tests)
    if fault or (passed and not isinstance(subject.task, BugTask)):
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
    """Return the first line of a test: the name of one of several lines."""
    return outcome.case.partition("\n")[0]
