"""What the audit must know of each kind of task in which agents write code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from llm_decpomdp.benchmarks.audit.grading import Subject
from llm_decpomdp.benchmarks.audit.remarks import Remark
from llm_decpomdp.envs.bugfix.roles import FixerRole
from llm_decpomdp.envs.bugfix.tasks import BugTask
from llm_decpomdp.envs.classeval.roles import ClassRole
from llm_decpomdp.envs.classeval.tasks import ClassTask
from llm_decpomdp.envs.code import find_function
from llm_decpomdp.envs.humaneval import CodeTask
from llm_decpomdp.envs.program_text import function_text
from llm_decpomdp.parts import Role
from llm_decpomdp.tasks import Task

IDLE = {
    "raises": "    raise Exception('nothing here')\n    return None\n",
    "returns None": "    return None\n",
}
"""Bodies of functions that do no work, by what they do."""


def about_text(task: Task) -> Iterator[Remark]:
    """What the text of a row tells."""
    if isinstance(task, CodeTask):
        yield from _about_function(task)


def _about_function(task: CodeTask) -> Iterator[Remark]:
    tests = task.tests
    if find_function(task.stub, task.entry_point) is None:
        text = f"the prompt does not parse as the header of {task.entry_point}"
        yield Remark("prompt", task.task_id, "", text, fault=True)
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


def about_process(task: ClassTask, apart: bool) -> Iterator[Remark]:
    """Where the tests of a class run; `apart` from programs or not."""
    if not apart:
        needs = ", ".join(task.packages)
        reason = (
            f"it needs {needs}" if needs else "they share more than plain values with the class"
        )
        text = f"its tests run in the program's process, where results can be forged: {reason}"
        yield Remark("in-process", task.task_id, "", text)


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


def idlers(task: Task, roles: Sequence[Role]) -> Iterator[Subject]:
    """Joint completions that do no work, which must not pass all tests.

    Functions without work; for a program to repair, itself as it is.

    Args:
        task: The task.
        roles: A team for it; of functions, an agent alone writes one.
    """
    if isinstance(task, BugTask):
        yield Subject(task, _unrepaired(task, roles), "the program with its bugs")
        return
    for what, body in IDLE.items():
        completions = {}
        if isinstance(task, CodeTask):
            completions = {"main_0": _function(task.entry_point, body)}
        for role in roles:
            if isinstance(task, ClassTask) and isinstance(role, ClassRole):
                written = [_function(name, body) for name in role.methods(task)]
                completions[role.agent] = "\n".join(written)
        yield Subject(task, completions, f"code that {what}")


def _unrepaired(task: BugTask, roles: Sequence[Role]) -> dict[str, str]:
    fixers = [role for role in roles if isinstance(role, FixerRole)]
    texts = {f.agent: [function_text(task.buggy, name) for name in f.owned(task)] for f in fixers}
    return {agent: "\n\n".join(parts) for agent, parts in texts.items()}


def _function(name: str, body: str) -> str:
    return f"def {name}(*_, **__):\n{body}"
