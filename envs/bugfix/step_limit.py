"""Counts the steps of a program, so that no clock decides which of its variants end in time.

A step is a call of a function or a method, or a round of a loop or a comprehension. The program crashes at the one
after `MAX_STEPS`, which is far from any limit on time.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from llm_decpomdp.envs.source_code.parsing import parse
from llm_decpomdp.envs.source_code.positions import FUNCTIONS, has_docstring

MAX_STEPS = 300_000
"""Largest number of steps of a program in all of its tests together."""

COUNTER = f"""
__steps__ = 0
def __step__():
    global __steps__
    __steps__ += 1
    return __steps__ <= {MAX_STEPS} or __import__("os")._exit(1)
"""


def counted(code: str, names: Collection[str]) -> str:
    """Return a program that does the same, unless its functions and classes of these names take too many steps.

    Raises:
        SyntaxError: If it does not parse.
    """
    module = parse(code)
    for statement in module.body:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)) and statement.name in names:
            _count(statement)
    kinds = ast.Expr | ast.Import | ast.ImportFrom
    head = [isinstance(statement, kinds) for statement in module.body]
    place = (*head, False).index(False)
    module.body[place:place] = parse(COUNTER).body
    return ast.unparse(ast.fix_missing_locations(module))


def _count(statement: ast.stmt) -> None:
    for node in ast.walk(statement):
        if isinstance(node, (*FUNCTIONS, ast.For, ast.AsyncFor, ast.While)):
            node.body.insert(has_docstring(node), ast.Expr(_step()))
        elif isinstance(node, ast.comprehension):
            node.ifs.insert(0, _step())


def _step() -> ast.Call:
    return ast.Call(ast.Name("__step__", ast.Load()), [], [])
