"""Parse code, with bounds on the time and memory of parsing and compiling, and find functions in it."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from llm_decpomdp.envs.sandbox.syntax import FUNCTIONS as FUNCTIONS
from llm_decpomdp.envs.sandbox.syntax import parse as parse

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

MAX_CHARACTERS = 100_000
"""Longest text that is parsed."""

MAX_TOKENS = 8000
"""Most words and marks of a text that is parsed. Solutions of the data sets have at most about a thousand."""

MAX_COMPILED = 4 * 10**4
"""Most nodes of a tree that is compiled, each counted as often as it is compiled."""

CLEANUP = 10
"""Nodes that make as much work as leaving a `with` block."""

# Only code with one of these words is walked through before it is compiled.
COPYING = ("finally", "with", "except", "lambda")
"""Keywords of code that the compiler emits more than once, or with ever longer names."""

WITH_CLEANUP = (ast.With, ast.AsyncWith, ast.ExceptHandler)
"""Blocks with clean-up code at each exit."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class SyntaxProblem:
    """Reason why code does not parse; line and column count from 1, in the agent's own code."""

    message: str
    line: int
    column: int
    parses: bool = False
    """True if the code parses and only compiling fails."""


def tokens(code: str) -> int:
    """Count the words and marks of a text, those in comments and literals included."""
    return len(_TOKEN.findall(code))


def end_of_bound(code: str) -> int:
    """Return the line on which a text exceeds the bounds of parsing, counted from 1; 0 if it does not."""
    if len(code) > MAX_CHARACTERS:
        return code.count("\n", 0, MAX_CHARACTERS) + 1
    if len(code) > MAX_TOKENS:
        for number, token in enumerate(_TOKEN.finditer(code)):
            if number == MAX_TOKENS:
                return code.count("\n", 0, token.start()) + 1
    return 0


@lru_cache(maxsize=16)  # enough for one turn; the tree of a long completion takes several megabytes
def syntax_tree(code: str) -> ast.Module | SyntaxProblem:
    """Parse and compile code without running it; return the module, or the problem."""
    if line := end_of_bound(code):
        text = f"more than {MAX_TOKENS} tokens or {MAX_CHARACTERS} characters of code"
        return SyntaxProblem(text, line, 1)
    tree: ast.Module | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" in an agent's code
            tree = parse(code)
            # Checked before compiling, which is what takes too long.
            if any(word in code for word in COPYING) and explodes(tree):
                text = "too many ways out of finally and with blocks, or functions in functions"
                return SyntaxProblem(text, 1, 1, parses=True)
            # Some errors come only from the compiler, such as `return` outside of a function.
            compile(code, "<completion>", "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = code.count("\n") + 1
        line = min(max(error.lineno or 1, 1), lines)
        return SyntaxProblem(error.msg, line, max(error.offset or 1, 1), tree is not None)
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, hostile nesting
        return SyntaxProblem(str(error) or type(error).__name__, 1, 1, tree is not None)
    return tree


def explodes(tree: ast.Module) -> bool:
    """Check whether compiling takes too long, as CPython compiles a `finally` block again for each path to it.

    There are two paths, with an exception and without, and one for each `return`, `break` and `continue` in its
    `try`. Each exit from a `with` block, or from an `except` with a name, has clean-up code, too. The qualified
    name of a function contains those of all functions around it.
    """
    # A walk in the order in which the compiler emits code, without recursion: trees may be deep.
    size = 0
    leaving: Counter[ast.AST] = Counter()
    pending: list[tuple[ast.AST, int, tuple[ast.AST, ...], int, bool]] = [(tree, 1, (), 0, False)]
    while pending and size <= MAX_COMPILED:
        node, copies, around, depth, finally_ = pending.pop()
        final = set(getattr(node, "finalbody", ()))
        if finally_:
            copies = 2 * copies + leaving[node]
            pending += [(part, copies, around, depth, False) for part in final]
            continue
        size += copies
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            leaving.update(dict.fromkeys(around, copies))
            size += copies * CLEANUP * sum(isinstance(block, WITH_CLEANUP) for block in around)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            around, depth = (), depth + 1
            size += depth
        if final:
            pending.append((node, copies, around, depth, True))  # after the rest of the statement
        if final or isinstance(node, WITH_CLEANUP):
            around = (*around, node)
        inner = (part for part in ast.iter_child_nodes(node) if part not in final)
        pending += [(part, copies, around, depth, False) for part in inner]
    return size > MAX_COMPILED


def parse_or_none(code: str) -> ast.Module | None:
    """Return the module of `code`, shared by all callers; None where it does not parse."""
    tree = syntax_tree(code)
    return tree if isinstance(tree, ast.Module) else None


def find_function(code: str, name: str) -> FunctionNode | None:
    """Return the last top-level definition of `name`, a function or a lambda; None where there is none."""
    tree = parse_or_none(code)
    definition: FunctionNode | None = None
    for statement in tree.body if tree is not None else []:
        if isinstance(statement, FUNCTIONS) and statement.name == name:
            definition = statement
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Lambda):
            if any(isinstance(t, ast.Name) and t.id == name for t in statement.targets):
                definition = statement.value
    return definition


def remove_function(code: str, name: str) -> str:
    """Remove the top-level function `name` from `code`, to get a prompt's imports and helpers.

    Empty where `code` does not parse, as when a prompt is prose.
    """
    tree = parse_or_none(code)
    if tree is None:
        return ""
    statements = [s for s in tree.body if not isinstance(s, FUNCTIONS) or s.name != name]
    return ast.unparse(ast.Module(statements, [])) + "\n" if statements else ""


def is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Check whether a body has only docstrings, `pass`, `...` and `raise NotImplementedError`."""
    return all(map(_is_empty, function.body))


def _is_empty(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    if isinstance(statement, ast.Raise):
        error = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
        return isinstance(error, ast.Name) and error.id == "NotImplementedError"
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str | type(...))


def returns(function: FunctionNode) -> bool:
    """Check whether a function itself has a `return` or `yield`, nested functions and classes aside."""
    if isinstance(function, ast.Lambda):
        return True
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    return False


def header(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the line with `def`, such as `def f(x: int) -> str:`."""
    keyword = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    result = f" -> {ast.unparse(function.returns)}" if function.returns is not None else ""
    return f"{keyword} {function.name}({ast.unparse(function.args)}){result}:"


def signature(code: str, name: str) -> str:
    """Return the header of function `name` without its colon, such as `def f(x: int) -> str`.

    It is `def name(...)` where `code` does not define it.
    """
    node = find_function(code, name)
    if node is None or isinstance(node, ast.Lambda):
        return f"def {name}(...)"
    return header(node).removesuffix(":")


def has_docstring(node: ast.AST) -> bool:
    """Check whether a node is a function or class with a docstring."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return ast.get_docstring(node, clean=False) is not None
