"""ClassEval: the data set, its tasks, and their unittest modules as tests for the sandbox.

Each test method is a case. It runs in unittest's order with its own fixture (`setUpClass`, `setUp`, `tearDown`,
clean-ups), and passes if it raises nothing; a skipped one does not pass.

A class can be tested in two ways. *Split*: the test runs in another process than the program, and the class's name
stands for a remote class. Only plain values cross, so a program passes only with correct answers. *Inside*: the
test runs in the program's process. Tests that share more than plain values with the class (files, dates, lists
that both change) need this, and a program can forge their results.
"""

from __future__ import annotations

import ast
import logging
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec

from llm_decpomdp.envs.datasets.humaneval import MAX_PROMPT_LENGTH
from llm_decpomdp.envs.datasets.loading import SOURCES, Dataset, idle_functions, load
from llm_decpomdp.envs.datasets.rows import KNOWN_ISSUES, BadRow, Row, bundled_rows, text_field
from llm_decpomdp.envs.sandbox import Tests
from llm_decpomdp.envs.sandbox.syntax import names
from llm_decpomdp.envs.source_code.classes import (
    FunctionNode,
    Outline,
    find_class,
    outline,
    repair_skeleton,
)
from llm_decpomdp.envs.source_code.parsing import parse, parse_or_none
from llm_decpomdp.interfaces import Task, TaskSet
from llm_decpomdp.utils.extras import install_command
from llm_decpomdp.utils.text import warn_once

BEHIND = {"bs4": "lxml"}
"""Optional imports of other modules, which their packages do not require."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassTask(Task):
    """A class to complete; its `prompt` is the skeleton."""

    class_name: str
    test: str
    """A module of unittest classes."""
    solution: str = ""
    """The data's complete class; empty if there is none."""

    @cached_property
    def outline(self) -> Outline:
        """The class with the methods to write."""
        return outline(self.prompt, self.class_name)

    @cached_property
    def imports(self) -> str:
        """The import statements of the skeleton, whose names a test may use."""
        return "\n".join(import_statements(self.prompt))

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """The modules outside the standard library that the class and its tests import."""
        texts = (self.prompt, self.solution, self.test)
        names = {name for text in texts for name in _imported_modules(text)}
        names |= {BEHIND[name] for name in names if name in BEHIND}
        return tuple(sorted(names - sys.stdlib_module_names))

    @cached_property
    def tests(self) -> Tests:
        """The cases, to be run in another process than the program."""
        return class_tests(self.test, self.class_name, self.imports, own=self.outline.taken)

    @cached_property
    def tests_inside(self) -> Tests:
        """The same cases, to be run in the program's process."""
        return class_tests(self.test, self.class_name, split=False)

    def idle_programs(self) -> dict[str, str]:
        """Return programs that do no work, by a description."""
        return idle_functions(self.outline.names)


def class_task(index: int, row: Row) -> ClassTask:
    """Make a task of a row with `task_id`, `class_name`, `skeleton`, `test` and optionally `solution_code`.

    Imports of `import_statement` that the skeleton lacks are put before it.

    Raises:
        BadRow: If a field is missing, empty or unusable.
    """
    name = text_field(row, "class_name").strip()
    text = repair_skeleton(text_field(row, "skeleton").replace("\r\n", "\n"), name)
    if len(text) > MAX_PROMPT_LENGTH:
        raise BadRow(f"field 'skeleton' has {len(text)} characters; at most {MAX_PROMPT_LENGTH}")
    skeleton = _add_imports(text, row.get("import_statement") or [])
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
    whole = parse_or_none(solution) if isinstance(solution, str) else None
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
    """Load one split as `load` does, without the classes that cannot run here.

    The set's `excluded` names these with the reason.

    `refuse` returns tasks of a user's file to leave out, with the reason; all else is as in `load`.
    """
    whole = load(CLASSEVAL, split, source, exclude_known_issues)
    classes = [task for task in whole.tasks if isinstance(task, ClassTask)]
    remedy = install_command("classeval")
    reasons = {
        task.task_id: f"needs {', '.join(names)}, not installed here: {remedy}"
        for task in classes
        if (names := [name for name in task.packages if find_spec(name) is None])
    }
    if refuse is not None and str(source) not in SOURCES:
        reasons |= refuse([task for task in classes if task.task_id not in reasons])
    rest = tuple(task for task in whole.tasks if task.task_id not in reasons)
    if not rest:
        raise ValueError(f"no class of split {split!r} can run: {reasons}")
    if reasons:
        warn_once(logger, "%d classes are left out: %s", len(reasons), reasons)
    return replace(whole, tasks=rest, excluded={**whole.excluded, **reasons})


def _imported_modules(code: str) -> frozenset[str]:
    module = parse_or_none(code)
    names: set[str] = set()
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return frozenset(names)


def import_statements(code: str) -> list[str]:
    """Return the import statements at the top of code; none if it does not parse."""
    module = parse_or_none(code)
    statements = module.body if module is not None else []
    return [ast.unparse(s) for s in statements if isinstance(s, ast.Import | ast.ImportFrom)]


def _add_imports(skeleton: str, statements: object) -> str:
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


MAX_CASE_LENGTH = 2_000
"""Maximum length of a test in a prompt, in characters."""

RUN_CODE = """
import unittest as __unittest__

__file__ = "tests.py"


class __Result__(__unittest__.TestResult):
    def __init__(self):
        super().__init__()
        self.problem = None

    def addError(self, test, error):
        self.problem = self.problem or error[1]

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        self.problem = self.problem or (error and error[1])

    def addSkip(self, test, reason):
        self.problem = self.problem or AssertionError("the test was skipped")

    def addUnexpectedSuccess(self, test):
        self.problem = self.problem or AssertionError("the test passed, but should not")


def __changing__(function, /, *args, **kwargs):
    if hasattr(type(function), "__call_in_place__"):
        return function.__call_in_place__(*args, **kwargs)
    return function(*args, **kwargs)


def __outcome__(case, name):
    result = __Result__()
    __unittest__.TestSuite([case(name)]).run(result)
    return result.problem or True


def __check__(candidate, __record__, __stage__):
    for number, (case, name) in enumerate({cases}):
        if __stage__.runs(number):
            with __stage__:
                __record__(number, __outcome__(globals()[case], name))
"""


def class_tests(
    test: str,
    class_name: str,
    imports: str = "",
    split: bool = True,
    own: frozenset[str] = frozenset(),
) -> Tests:
    """Return the cases of a unittest module.

    The tests may use the names of the `imports`, and run in another process than the program if `split`. `own`
    are the names that the skeleton defines, including the class's methods.

    Raises:
        ValueError: If the module does not parse.
    """
    try:
        module = parse(test)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError(f"the test does not parse: {error}") from None
    # unittest's order: by class, then by method.
    cases = sorted(_cases(module), key=lambda case: case[:2])
    running = RUN_CODE.replace("{cases}", repr([(case, name) for case, name, _ in cases]))
    texts = tuple(_text(case, name, node, test) for case, name, node in cases)
    source = "\n".join(
        [*_used_imports(imports, names(module)), ast.unparse(_Changing().visit(module)), running]
    )
    return Tests(
        source=source,
        cases=texts,
        guards=frozenset(),
        stages=tuple(range(len(cases))),
        num_stages=len(cases),
        stage_reads=((),) * len(cases),
        stage_writes=((),) * len(cases),
        prefetch=False,
        judges_result=(True,) * len(cases),
        minimum=(1,) * len(cases),
        split=split,
        methods=own,
    )


def case_id(case: str) -> str:
    """Return the name of a test, such as `StackTestPush.test_push_1`, from its text."""
    return case.partition("\n")[0]


def _cases(module: ast.Module) -> Iterator[tuple[str, str, FunctionNode]]:
    """Yield class, name and code of the test methods, including those of base classes in the module."""
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    for name, node in classes.items():
        line = list(_ancestry(node, classes))
        bases = [ast.unparse(base) for ancestor in line for base in ancestor.bases]
        if any(base.rpartition(".")[2].endswith("TestCase") for base in bases):
            methods: dict[str, FunctionNode] = {}
            for ancestor in reversed(line):
                methods |= {s.name: s for s in ancestor.body if isinstance(s, FunctionNode)}
            yield from ((name, m, code) for m, code in methods.items() if m.startswith("test"))


def _ancestry(
    node: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 0
) -> Iterator[ast.ClassDef]:
    yield node
    for base in node.bases:
        parent = classes.get(base.id) if isinstance(base, ast.Name) else None
        if parent is not None and depth < len(classes):  # bases may form a cycle, until they run
            yield from _ancestry(parent, classes, depth + 1)


def _used_imports(imports: str, wanted: set[str]) -> Iterator[str]:
    """Yield the import statements that bind one of the wanted names; others may be slow."""
    for statement in parse(imports).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
            if bound & (wanted | {"*"}):
                yield ast.unparse(statement)


class _Changing(ast.NodeTransformer):
    """Marks the calls whose results are not used, which may change the object in place."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            # `obj.method(x)` becomes `__changing__(obj.method, x)`.
            call.args.insert(0, call.func)
            call.func = ast.Name("__changing__", ast.Load())
        return self.generic_visit(node)


def _text(case: str, name: str, node: FunctionNode, test: str) -> str:
    lines = test.replace("\r\n", "\n").split("\n")[node.lineno - 1 : node.end_lineno]
    # `chr(10)` is a line break, as the braces of an f-string hold no backslash before Python 3.12.
    text = f"{case}.{name}\n{textwrap.dedent(chr(10).join(lines))}"
    return text if len(text) <= MAX_CASE_LENGTH else text[:MAX_CASE_LENGTH] + "..."
