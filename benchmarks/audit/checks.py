"""Remarks on a data set: from the texts of its rows, and from programs that are graded again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from llm_decpomdp.benchmarks.audit.grading import Grading, Subject
from llm_decpomdp.envs.bugfix.roles import FixerRole
from llm_decpomdp.envs.bugfix.tasks import BugTask
from llm_decpomdp.envs.classeval.roles import ClassRole
from llm_decpomdp.envs.compose.tasks import ComposeTask
from llm_decpomdp.envs.datasets.classeval import ClassTask
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.sandbox import Outcome, Tests, instrument
from llm_decpomdp.envs.source_code.functions import function_text
from llm_decpomdp.envs.source_code.parsing import find_function
from llm_decpomdp.interfaces import Role, Task

CODE_TASKS = (CodeTask, ClassTask, BugTask, ComposeTask)
"""Tasks in which agents write code."""

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


IDLE = {
    "raises": "    raise Exception('nothing here')\n    return None\n",
    "returns None": "    return None\n",
}
"""Bodies of functions that do no work, by their behaviour."""

APART = (
    "passes only where the tests share its process: apart from it they have values of builtin classes, and the "
    "attributes and methods of its objects, but no comparison of these; see docs/security.md"
)
"""Reason why a reference fails that does what the test asks for."""


def about_text(task: Task) -> Iterator[Remark]:
    """Yield remarks on the text of a row."""
    if isinstance(task, CodeTask):
        yield from _about_function(task)


def _about_function(task: CodeTask) -> Iterator[Remark]:
    tests = task.tests
    for remark in task.remarks:
        text = f"a correct program may fail here although it passes in plain Python: {remark}"
        yield Remark("process", task.task_id, "", text)
    if find_function(task.stub, task.entry_point) is None:
        text = f"the prompt does not parse as the header of {task.entry_point}"
        yield Remark("prompt", task.task_id, "", text, fault=True)
    if tests.vary and "main_0" in task.references:
        text = "asserts in loops or functions count only if reached as often as by the reference"
        yield Remark("varying", task.task_id, "", text)
    elif tests.vary:
        text = "asserts in loops or functions may never be reached, and no reference says how often they are"
        yield Remark("varying", task.task_id, "", text, fault=True)


@dataclass(frozen=True)
class _Inside(CodeTask):
    """Task whose tests run in the program's process."""

    @property
    def tests(self) -> Tests:
        return instrument(self.test, self.entry_point, split=False)


def inside(task: Task) -> CodeTask | None:
    """Return the same task with tests that run in the program's process, where it is one about functions."""
    if not isinstance(task, CodeTask):
        return None
    return _Inside(**{entry.name: getattr(task, entry.name) for entry in fields(task)})


def idlers(task: Task, roles: Sequence[Role]) -> Iterator[Subject]:
    """Yield joint completions that do no work, which must not pass all tests.

    Functions without work; for a program to repair, itself as it is.

    Args:
        task: The task.
        roles: A team for it; of functions, an agent alone writes one.
    """
    if isinstance(task, BugTask):
        yield Subject(task, _buggy_program(task, roles), "the program with its bugs")
        return
    for behaviour, body in IDLE.items():
        completions = {}
        if isinstance(task, CodeTask):
            completions = {"main_0": _function(task.entry_point, body)}
        for role in roles:
            if isinstance(task, ClassTask) and isinstance(role, ClassRole):
                methods = [_function(name, body) for name in role.methods(task)]
                completions[role.agent] = "\n".join(methods)
        yield Subject(task, completions, f"code that {behaviour}")


def _buggy_program(task: BugTask, roles: Sequence[Role]) -> dict[str, str]:
    fixers = [role for role in roles if isinstance(role, FixerRole)]
    texts = {
        f.agent: [function_text(task.buggy, name) for name in f.owned_functions(task)]
        for f in fixers
    }
    return {agent: "\n\n".join(parts) for agent, parts in texts.items()}


def _function(name: str, body: str) -> str:
    return f"def {name}(*_, **__):\n{body}"
