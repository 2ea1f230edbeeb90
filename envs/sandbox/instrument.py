"""Turns a test function into one that reports every assert and goes on.

The whole body of the test runs as its author wrote it: set-up, loops, helper functions, exception tests. Each
top-level statement of the body is a *stage*: an exception ends its stage only. Each `assert` is a *test*: it
passes if it was reached and held every time.

- `assert False` is a guard ("must not get here"): it passes if its stage ran to the end without reaching it.
- An assert about constants that are true (`assert True, "..."`) tests nothing and is not counted.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

MAX_CASE_LENGTH = 500
"""Longest text of one test that an agent is shown, in characters."""


@dataclass(frozen=True)
class Tests:
    """An instrumented test."""

    source: str
    """A module that defines `__check__(candidate, __record__, __stage__)`."""
    cases: tuple[str, ...]
    """The text of each test, with the entry point's name in place of the parameter's."""
    guards: frozenset[int]
    """The tests that pass by not being reached."""
    stages: tuple[int, ...]
    """The stage that each test belongs to; -1 in helper functions outside the test function."""
    num_stages: int


@lru_cache(maxsize=2048)
def instrument(test: str, entry_point: str) -> Tests:
    """Instrument the text of a test.

    Args:
        test: A module with a function `check(candidate)` (any parameter name, annotations allowed), or plain
            statements that call the entry point by its name.
        entry_point: Name of the function under test.

    Raises:
        ValueError: If `test` does not parse.
    """
    try:
        return _instrument(ast.parse(test), entry_point)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError(f"the test does not parse: {error}") from None


def _instrument(module: ast.Module, entry_point: str) -> Tests:
    check = _find_check(module)
    parameter = _parameters(check)[0].arg if check is not None else entry_point
    body = check.body if check is not None else module.body
    writer = _Writer(parameter, entry_point)
    around: list[ast.stmt] = []
    stages: list[ast.stmt] = []
    for statement in module.body if check is not None else ():
        if statement is check:
            stages = writer.stages(body)
        elif not _calls_check(statement):
            around.append(writer.outside(statement))
    stages = stages if check is not None else writer.stages(body)
    function = ast.parse(f"def __check__({parameter}, __record__, __stage__):\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = stages or function.body
    return Tests(
        source=ast.unparse(ast.fix_missing_locations(ast.Module([*around, function], []))),
        cases=tuple(t.case for t in writer.found),
        guards=frozenset(i for i, t in enumerate(writer.found) if t.guard),
        stages=tuple(t.stage for t in writer.found),
        num_stages=len(body),
    )


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args]


def _find_check(module: ast.Module) -> ast.FunctionDef | None:
    functions = [s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "check"]
    return functions[-1] if functions and _parameters(functions[-1]) else None


def _calls_check(statement: ast.stmt) -> bool:
    """Whether a statement is `check(...)`: the test function is called anyway."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) == "check"


@dataclass(frozen=True)
class _Test:
    case: str
    guard: bool
    stage: int


class _Writer(ast.NodeTransformer):
    """Replaces asserts by reports and remembers them."""

    def __init__(self, parameter: str, entry_point: str) -> None:
        self.parameter = parameter
        self.entry_point = entry_point
        self.found: list[_Test] = []
        self.number = 0

    def outside(self, statement: ast.stmt) -> ast.stmt:
        """A statement outside the test function, such as a helper function; it belongs to no stage."""
        self.number = -1
        visited = self.visit(statement)
        assert isinstance(visited, ast.stmt)
        return visited

    def stages(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of the test function, each a stage."""
        return [s for number, part in enumerate(body) for s in self.stage(number, part)]

    def stage(self, number: int, statement: ast.stmt) -> list[ast.stmt]:
        """The statement, run unless the stage is to be skipped, its exceptions reported."""
        self.number = number
        if isinstance(statement, ast.Global | ast.Nonlocal):
            return [statement]
        template = f"if __stage__.runs({number}):\n    with __stage__:\n        pass"
        wrapper = ast.parse(template).body[0]
        assert isinstance(wrapper, ast.If) and isinstance(wrapper.body[0], ast.With)
        visited = self.visit(statement)
        wrapper.body[0].body = visited if isinstance(visited, list) else [visited]
        return [wrapper]

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        constant = isinstance(node.test, ast.Constant)
        if isinstance(node.test, ast.Constant) and node.test.value:
            return ast.Pass()
        index = len(self.found)
        self.found.append(_Test(self._case(node), constant, self.number))
        report = ast.parse(
            f"try:\n    __record__({index}, True if 0 else False)\n"
            f"except BaseException as __error__:\n    __record__({index}, __error__)"
        ).body[0]
        assert isinstance(report, ast.Try)
        call = report.body[0]
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        outcome = call.value.args[1]
        assert isinstance(outcome, ast.IfExp)
        outcome.test = node.test
        if node.msg is not None and not isinstance(node.msg, ast.Constant):
            return report  # a computed message may itself fail; the case's text says enough
        if node.msg is not None:
            call.value.args.append(node.msg)
        return report

    def _case(self, node: ast.Assert) -> str:
        renamed = _Rename(self.parameter, self.entry_point).visit(
            ast.parse(ast.unparse(ast.Assert(node.test, None)))
        )
        text = ast.unparse(renamed)
        return text if len(text) <= MAX_CASE_LENGTH else text[:MAX_CASE_LENGTH] + "..."


class _Rename(ast.NodeTransformer):
    """Renames a variable; strings that contain its name stay as they are."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.new, node.ctx) if node.id == self.old else node
