"""Turns a module of unittest classes into a test that the sandbox can run, one case for each test method.

Each method runs with a fixture of its own (`setUpClass`, `setUp`, `tearDown`, clean-ups), in unittest's order,
and passes if it raises nothing; a skipped one does not pass.

A class can be tested in two ways. *Split*: the test runs where no program can reach it, and the class's name
stands for a remote class; what crosses is plain values, so that a program can pass only by giving right answers.
*Inside*: the test runs in the program's own process, which it needs where it shares more than plain values with
the class (files, dates, lists that both change), and a program can forge what it reports.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from llm_decpomdp.envs.sandbox import Tests
from llm_decpomdp.envs.sandbox.instrument import names
from llm_decpomdp.envs.source_code.classes.skeleton import FunctionNode
from llm_decpomdp.envs.source_code.parsing import parse

MAX_CASE_LENGTH = 2_000
"""Longest text of one test that an agent is shown, in characters."""

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

    Args:
        test: The module.
        class_name: The class under test.
        imports: Import statements whose names the tests may use too.
        split: Runs the tests apart from the program, with the class's name standing for the class.
        own: The names that the skeleton itself gives a meaning, the class's methods among them.

    Raises:
        ValueError: If the module does not parse.
    """
    try:
        module = parse(test)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError(f"the test does not parse: {error}") from None
    cases = sorted(_cases(module), key=lambda case: case[:2])
    running = RUN_CODE.replace("{cases}", repr([(case, name) for case, name, _ in cases]))
    texts = tuple(_text(case, name, node, test) for case, name, node in cases)
    source = "\n".join(
        [*_used(imports, names(module)), ast.unparse(_Changing().visit(module)), running]
    )
    return Tests(
        source=source,
        cases=texts,
        guards=frozenset(),
        stages=tuple(range(len(cases))),
        num_stages=len(cases),
        uses=((),) * len(cases),
        changes=((),) * len(cases),
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
    """Yield the test methods: class, name and code, those of base classes in the module included."""
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    for name, node in classes.items():
        line = list(_ancestry(node, classes))
        if any(_is_test_case(base) for ancestor in line for base in ancestor.bases):
            methods: dict[str, FunctionNode] = {}
            for ancestor in reversed(line):
                methods |= {s.name: s for s in ancestor.body if isinstance(s, FunctionNode)}
            yield from ((name, m, code) for m, code in methods.items() if m.startswith("test"))


def _ancestry(
    node: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 0
) -> Iterator[ast.ClassDef]:
    """Yield a class and those of the module that it derives from."""
    yield node
    for base in node.bases:
        parent = classes.get(base.id) if isinstance(base, ast.Name) else None
        if parent is not None and depth < len(classes):
            yield from _ancestry(parent, classes, depth + 1)


def _used(imports: str, wanted: set[str]) -> Iterator[str]:
    """Yield the import statements that bind one of the wanted names; others may be slow and are not needed."""
    for statement in parse(imports).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
            if bound & (wanted | {"*"}):
                yield ast.unparse(statement)


class _Changing(ast.NodeTransformer):
    """Marks the calls whose results nobody looks at."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            call.args.insert(0, call.func)
            call.func = ast.Name("__changing__", ast.Load())
        return self.generic_visit(node)


def _is_test_case(base: ast.expr) -> bool:
    return ast.unparse(base).rpartition(".")[2].endswith("TestCase")


def _text(case: str, name: str, node: FunctionNode, test: str) -> str:
    lines = test.replace("\r\n", "\n").split("\n")[node.lineno - 1 : node.end_lineno]
    text = f"{case}.{name}\n{textwrap.dedent(chr(10).join(lines))}"
    return text if len(text) <= MAX_CASE_LENGTH else text[:MAX_CASE_LENGTH] + "..."
