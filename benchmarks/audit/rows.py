"""Checks of each kind of task in which agents write code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from llm_decpomdp.benchmarks.audit.grading import Subject
from llm_decpomdp.benchmarks.audit.remarks import Remark
from llm_decpomdp.envs.bugfix.roles import FixerRole
from llm_decpomdp.envs.bugfix.tasks import BugTask
from llm_decpomdp.envs.classeval.roles import ClassRole
from llm_decpomdp.envs.datasets.classeval import ClassTask
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.sandbox import Tests, instrument
from llm_decpomdp.envs.source_code.functions import function_text
from llm_decpomdp.envs.source_code.parsing import find_function
from llm_decpomdp.interfaces import Role, Task

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
        yield Subject(task, _unrepaired(task, roles), "the program with its bugs")
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


def _unrepaired(task: BugTask, roles: Sequence[Role]) -> dict[str, str]:
    fixers = [role for role in roles if isinstance(role, FixerRole)]
    texts = {
        f.agent: [function_text(task.buggy, name) for name in f.owned_functions(task)]
        for f in fixers
    }
    return {agent: "\n\n".join(parts) for agent, parts in texts.items()}


def _function(name: str, body: str) -> str:
    return f"def {name}(*_, **__):\n{body}"
