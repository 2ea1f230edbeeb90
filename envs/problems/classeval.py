"""ClassEval: the data set and its tasks."""

from __future__ import annotations

import ast
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from llm_decpomdp.envs.datasets.known_issues import KNOWN_ISSUES
from llm_decpomdp.envs.datasets.loading import SOURCES, Dataset, bundled_rows, load
from llm_decpomdp.envs.datasets.rows import BadRow, Row, text_field
from llm_decpomdp.envs.problems.humaneval import MAX_PROMPT_LENGTH
from llm_decpomdp.envs.problems.unit_tests import class_tests
from llm_decpomdp.envs.sandbox import Tests
from llm_decpomdp.envs.sandbox.worker_process import is_installed
from llm_decpomdp.envs.source_code.classes.skeleton import Outline, find_class, outline, repaired
from llm_decpomdp.envs.source_code.completion import parsed
from llm_decpomdp.tasks import Task, TaskSet
from llm_decpomdp.utils.extras import install_command

BEHIND = {"bs4": "lxml"}
"""Modules that others import when asked to, although their packages do not require them."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassTask(Task):
    """A class to complete; its `prompt` is the skeleton."""

    class_name: str
    test: str
    """A module of unittest classes."""
    solution: str = ""
    """The data's own complete class; empty where there is none."""

    @cached_property
    def outline(self) -> Outline:
        """The class with the methods that are to be written."""
        return outline(self.prompt, self.class_name)

    @cached_property
    def imports(self) -> str:
        """The import statements of the skeleton: a test may use their names."""
        return "\n".join(import_statements(self.prompt))

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """The modules beside the standard library that the class and its tests import."""
        texts = (self.prompt, self.solution, self.test)
        names = {name for text in texts for name in _imported(text)}
        names |= {BEHIND[name] for name in names if name in BEHIND}
        return tuple(sorted(names - sys.stdlib_module_names))

    @cached_property
    def tests(self) -> Tests:
        """The cases, to be run apart from the program."""
        return class_tests(self.test, self.class_name, self.imports, own=self.outline.taken)

    @cached_property
    def tests_inside(self) -> Tests:
        """The same cases, to be run in the program's process."""
        return class_tests(self.test, self.class_name, split=False)


def class_task(index: int, row: Row) -> ClassTask:
    """Make a task of a row with `task_id`, `class_name`, `skeleton`, `test` and perhaps `solution_code`.

    Statements of `import_statement` that the skeleton lacks are put before it.

    Raises:
        BadRow: If a field is missing, empty or unusable.
    """
    name = text_field(row, "class_name").strip()
    text = repaired(text_field(row, "skeleton").replace("\r\n", "\n"), name)
    if len(text) > MAX_PROMPT_LENGTH:
        raise BadRow(f"field 'skeleton' has {len(text)} characters; at most {MAX_PROMPT_LENGTH}")
    skeleton = _with_imports(text, row.get("import_statement") or [])
    test = text_field(row, "test")
    try:
        outline(skeleton, name)
        tests = class_tests(test, name)
    except ValueError as error:
        raise BadRow(f"fields 'skeleton' and 'test': {error}") from None
    if not tests.cases:
        raise BadRow("field 'test' holds no test method of a unittest class")
    task_id = text_field(row, "task_id")
    solution = row.get("solution_code")
    whole = parsed(solution) if isinstance(solution, str) else None
    return ClassTask(
        task_id=task_id,
        index=index,
        prompt=skeleton,
        class_name=name,
        test=test,
        solution=str(solution) if whole is not None and find_class(whole, name) else "",
        known_issue=KNOWN_ISSUES.get(task_id),
    )


def load_classes(
    split: str,
    source: str | os.PathLike[str],
    exclude_known_issues: bool = False,
    refuse: Callable[[Sequence[ClassTask]], Mapping[str, str]] | None = None,
) -> TaskSet:
    """Load one split, without the classes that cannot run here.

    They are named with the reason among the set's `excluded` tasks. Arguments and errors as of `load`.

    Args:
        split: As of `load`.
        source: As of `load`.
        exclude_known_issues: As of `load`.
        refuse: Names the tasks of a user's own file that are not wanted, and why. Those of ClassEval, and ours,
            need not be asked about.
    """
    whole = load(CLASSEVAL, split, source, exclude_known_issues)
    classes = [task for task in whole.tasks if isinstance(task, ClassTask)]
    remedy = install_command("classeval")
    reasons = {
        task.task_id: f"needs {', '.join(names)}, not installed here: {remedy}"
        for task in classes
        if (names := _missing(task))
    }
    if refuse is not None and str(source) not in SOURCES:
        reasons |= refuse([task for task in classes if task.task_id not in reasons])
    rest = tuple(task for task in whole.tasks if task.task_id not in reasons)
    if not rest:
        raise ValueError(f"no class of split {split!r} can run: {reasons}")
    if reasons:
        logger.warning("%d classes are left out: %s", len(reasons), reasons)
    return replace(whole, tasks=rest, excluded={**whole.excluded, **reasons})


def _missing(task: ClassTask) -> list[str]:
    return [name for name in task.packages if not is_installed(name)]


def _imported(code: str) -> frozenset[str]:
    """Return the top-level modules that code imports."""
    module = parsed(code)
    names: set[str] = set()
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return frozenset(names)


def import_statements(code: str) -> list[str]:
    """Return the import statements at the top of code; none where it does not parse."""
    module = parsed(code)
    statements = module.body if module is not None else []
    return [ast.unparse(s) for s in statements if isinstance(s, ast.Import | ast.ImportFrom)]


def _with_imports(skeleton: str, statements: object) -> str:
    """Return a skeleton with the imports of its row that it lacks."""
    if not isinstance(statements, list):
        return skeleton
    present = import_statements(skeleton)
    texts = [text for statement in statements for text in import_statements(str(statement))]
    missing = [text for text in texts if text not in present]
    return "\n".join([*missing, "", skeleton]) if missing else skeleton


CLASSEVAL = Dataset(
    name="classeval",
    hub="FudanSELab/ClassEval",
    filename="classeval.jsonl",
    bundled=partial(bundled_rows, "classeval.jsonl"),
    to_task=class_task,
    stand_in=True,
)
