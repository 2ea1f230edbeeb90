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
        module = ast.parse(test)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError(f"the test does not parse: {error}") from None
    check = _find_check(module)
    parameter = check.args.args[0].arg if check is not None else entry_point
    body = check.body if check is not None else module.body
    preamble = [s for s in module.body if s is not check] if check is not None else []
    writer = _Writer(parameter, entry_point)
    stages = [writer.stage(number, statement) for number, statement in enumerate(body)]
    writer.number = -1
    before = [writer.visit(statement) for statement in preamble]
    order = sorted(range(len(writer.found)), key=lambda i: writer.found[i].position)
    rank = {old: new for new, old in enumerate(order)}
    arguments = f"{parameter}, __record__, __stage__"
    function = ast.parse(f"def __check__({arguments}):\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [s for stage in stages for s in stage] or function.body
    # Helper functions of the preamble need the reporters too: they are globals of the test's module.
    result = ast.Module([*before, function], [])
    for node in ast.walk(result):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "__record__" and isinstance(node.args[0], ast.Constant):
                node.args[0] = ast.Constant(rank[node.args[0].value])
    tests = [writer.found[i] for i in order]
    return Tests(
        source=ast.unparse(ast.fix_missing_locations(result)),
        cases=tuple(t.case for t in tests),
        guards=frozenset(i for i, t in enumerate(tests) if t.guard),
        stages=tuple(t.stage for t in tests),
        num_stages=len(stages),
    )


def _find_check(module: ast.Module) -> ast.FunctionDef | None:
    functions = [s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "check"]
    return functions[-1] if functions and functions[-1].args.args else None


@dataclass(frozen=True)
class _Test:
    case: str
    guard: bool
    stage: int
    position: tuple[int, int]


class _Writer(ast.NodeTransformer):
    """Replaces asserts by reports and remembers them."""

    def __init__(self, parameter: str, entry_point: str) -> None:
        self.parameter = parameter
        self.entry_point = entry_point
        self.found: list[_Test] = []
        self.number = 0

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
        position = (node.lineno, node.col_offset)
        self.found.append(_Test(self._case(node), constant, self.number, position))
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
