"""Rewrite a test function so that it reports every assert and goes on.

The whole body of the test runs as its author wrote it: set-up, loops, helper functions, exception tests. Each
top-level statement of the body is a *stage*: an exception ends its stage only. Each `assert` is a *test*: it
passes if it was reached and held every time.

- A statement that holds no assert and checks in other words (`self.assertEqual(...)`, `raise AssertionError`,
  `with self.assertRaises(...)`) is one test: it passes if it ends without an exception.
- `assert False` is a guard ("must not get here"): it passes if its stage ran to the end without reaching it.
- An assert about constants that are true (`assert True, "..."`) tests nothing and is not counted.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from llm_decpomdp.envs.sandbox.program import Tests
from llm_decpomdp.envs.sandbox.syntax import (
    FUNCTIONS,
    names,
    parse,
    receivers,
    uses_files,
    variables,
)

MAX_CASE_LENGTH = 500  # longest text of one test that an agent is shown, in characters

CHECKS = ("raises", "warns", "fail")
"""Functions of test frameworks that may fail a test, besides those whose names begin with `assert`."""


@lru_cache(maxsize=2048)
def instrument(test: str, entry_point: str, split: bool = True) -> Tests:
    """Instrument the text of a test.

    Args:
        test: A module with a function `check(candidate)` (any parameter name, annotations allowed), or plain
            statements that call the entry point by its name.
        entry_point: Name of the function under test.
        split: As `Tests.split`.

    Raises:
        ValueError: If `test` does not parse.
    """
    try:
        return _instrument(parse(test), entry_point, split)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError(f"the test does not parse: {error}") from None


def _instrument(module: ast.Module, entry_point: str, split: bool) -> Tests:
    checks = [s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "check"]
    parameters = [*checks[-1].args.posonlyargs, *checks[-1].args.args] if checks else []
    # Without a parameter it cannot be the test function: the module itself is the test.
    check = checks[-1] if parameters else None
    parameter = parameters[0].arg if parameters else entry_point
    body = module.body if check is None else check.body
    outside = [] if check is None else [s for s in module.body if s is not check]
    reads = tuple(variables(module, body, parameter))
    results = receivers(ast.Module([*outside, *body], []), {parameter, entry_point})
    writer = _Writer(parameter, entry_point, split, results)
    around: list[ast.stmt] = []
    stages = list(map(writer.stage, range(len(body)), body)) if check is None else []
    # In the order of the module, which numbers the tests.
    for statement in () if check is None else module.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if statement is check:
            stages = list(map(writer.stage, range(len(body)), body))
        # A call of the test function is left out, as it is called anyway.
        elif not isinstance(call, ast.Call) or ast.unparse(call.func) != "check":
            around.append(writer.outside(statement))
    function = parse(f"def __check__({parameter}, __record__, __stage__):\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = stages or function.body
    asserts = [isinstance(statement, ast.Assert) for statement in body]
    nodes = [*ast.walk(module)]
    asks_for_repr = any(getattr(node, "conversion", -1) == ord("r") for node in nodes)
    return Tests(
        source=ast.unparse(ast.fix_missing_locations(ast.Module([*around, function], []))),
        cases=tuple(t.case for t in writer.tests),
        guards=frozenset(i for i, t in enumerate(writer.tests) if t.guard),
        stages=tuple(t.stage for t in writer.tests),
        num_stages=len(body),
        stage_reads=reads,
        # A stage may write every variable that it names, unless it is an assert.
        stage_writes=tuple(
            () if only_asserts else read for only_asserts, read in zip(asserts, reads, strict=True)
        ),
        prefetch=not uses_files(module),
        vary=sum(not test.whole for test in writer.tests) > sum(asserts),
        judges_result=tuple(test.judges_result for test in writer.tests),
        minimum=(1,) * len(writer.tests),
        split=split,
        # A test may compare the `repr` of an object.
        methods=frozenset({"__repr__"} if asks_for_repr or "repr" in names(module) else ()),
    )


def _checks(statement: ast.AST) -> bool:
    """Check whether a statement may raise AssertionError in other words than an assert, when it runs."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
        return False
    if isinstance(statement, ast.Raise):
        raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
        return isinstance(raised, ast.Name) and raised.id == "AssertionError"
    if isinstance(statement, ast.Call):
        function = statement.func
        name = getattr(function, "attr", getattr(function, "id", ""))
        if name.startswith("assert") or name in CHECKS:
            return True
    return any(map(_checks, ast.iter_child_nodes(statement)))


@dataclass(frozen=True)
class _Test:
    case: str
    guard: bool
    stage: int
    judges_result: bool
    whole: bool = False
    """True for a statement that checks in other words than an assert."""


class _Writer(ast.NodeTransformer):
    """Replaces asserts by reports and collects them in `tests`."""

    def __init__(self, parameter: str, entry_point: str, split: bool, results: set[str]) -> None:
        self.parameter = parameter
        self.split = split
        self.entry_point = entry_point
        self.tests: list[_Test] = []
        self.number = 0
        self.results = results  # names through which a test may see what a call returned
        self.top_level = False

    def outside(self, statement: ast.stmt) -> ast.stmt:
        """Rewrite a statement outside the test function, such as a helper function; it belongs to no stage."""
        self.number = -1
        visited = self.visit(statement)
        assert isinstance(visited, ast.stmt)
        return visited

    def stage(self, number: int, statement: ast.stmt) -> ast.stmt:
        """Wrap a statement: it runs unless the stage is to be skipped, and its exceptions are reported."""
        self.number = number
        self.top_level = isinstance(statement, ast.Assert)
        if isinstance(statement, ast.Global | ast.Nonlocal):
            return statement
        template = f"if __stage__.runs({number}):\n    with __stage__:\n        pass"
        wrapper = parse(template).body[0]
        assert isinstance(wrapper, ast.If) and isinstance(wrapper.body[0], ast.With)
        first = len(self.tests)
        case = ast.unparse(statement) if _checks(statement) else ""
        judges = not self.results.isdisjoint(names(statement))
        visited = self.visit(statement)
        wrapper.body[0].body = visited if isinstance(visited, list) else [visited]
        if case and len(self.tests) == first:
            wrapper.body[0].body += parse(f"__record__({first}, True)").body
            self.tests.append(_Test(self._text(case), False, number, judges, whole=True))
        return wrapper

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        constant = isinstance(node.test, ast.Constant)
        if isinstance(node.test, ast.Constant) and node.test.value:
            return ast.Pass()
        index = len(self.tests)
        judges = not self.top_level or not self.results.isdisjoint(names(node.test))
        case = self._text(ast.unparse(ast.Assert(node.test, None)))
        self.tests.append(_Test(case, constant, self.number, judges))
        report = parse(
            f"try:\n    __record__({index}, True if 0 else False)\n"
            f"except BaseException as __error__:\n    __record__({index}, __error__)"
        ).body[0]
        assert isinstance(report, ast.Try)
        call = report.body[0]
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        outcome = call.value.args[1]
        assert isinstance(outcome, ast.IfExp)
        outcome.test = node.test
        # A computed message may itself fail; the case's text says enough.
        if isinstance(node.msg, ast.Constant):
            call.value.args.append(node.msg)
        return report

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Mark a call whose result is ignored as one that is made to change its arguments."""
        call = node.value
        if self.split and isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            if call.func.id == self.parameter:
                call.func = ast.Attribute(call.func, "__call_in_place__", ast.Load())
        return self.generic_visit(node)

    def _text(self, case: str) -> str:
        text = ast.unparse(_Rename(self.parameter, self.entry_point).visit(parse(case)))
        return text if len(text) <= MAX_CASE_LENGTH else text[:MAX_CASE_LENGTH] + "..."


class _Rename(ast.NodeTransformer):
    """Renames a variable, and leaves strings that contain its name alone."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.new, node.ctx) if node.id == self.old else node
