"""Scores of reasoning-gym, whose checkers trust the answers that they score.

Some checkers evaluate an answer as Python code in this process, also by `parse_expr` of SymPy. Such a checker gets
only lists, formulas (`is_formula`), and texts that are no code. No checker gets a number with an exponent of four
digits, such as `1e9999`, which takes gigabytes as a fraction, nor NaN, which is within every tolerance.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MAX_CHARACTERS = 1000
"""Longest answer that is evaluated."""

MAX_DEPTH = 100
"""Deepest nesting of operations in a formula."""

MAX_EXPONENT = 99

MAX_NESTED = 2
"""Powers, or functions, inside of each other in a formula."""

FUNCTIONS = frozenset(
    "sin cos tan sec csc cot asin acos atan sinh cosh tanh exp log ln sqrt Abs".split()
)

_EVALUATION = re.compile(r"\b(?:eval|exec|parse_expr|sympify|S|simplify)\(\s*answer\b")
_REFUSED = re.compile(r"[0-9.]e[-+]?[0-9_]{4}|\bnan\b", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z]{1,80}(?:_?[0-9]{1,3})?")  # constants of integrals are C1 or C_1, too


def score_answer(data: Any, answer: str, entry: Mapping[str, Any]) -> float:
    """Return the score of an answer by a data set's own checker; 0 for an answer that it must not see."""
    # The right answer may look like a number with an exponent, as in hexadecimal.
    right = str(entry.get("answer"))
    if any(number not in right for number in _REFUSED.findall(answer)):
        return 0.0
    checker = find_checker(data, entry).__class__
    if answer.strip() != right.strip() and evaluates(checker) and not is_safe(answer):
        return 0.0
    return float(data.score_answer(answer, entry))


def find_checker(data: Any, entry: Mapping[str, Any]) -> Any:
    """Return the data set that checks an entry: of a composite data set the member that the entry is of."""
    while isinstance(members := getattr(data, "datasets", None), Mapping):
        data = members.get(entry.get("metadata", {}).get("source_dataset"))
    return data


@lru_cache(maxsize=256)
def evaluates(kind: type) -> bool:
    """Check whether the checker of a class of data sets evaluates answers; true where its code is not known."""
    # A subclass inherits its checker, or calls that of its base.
    bases = [
        base
        for base in kind.__mro__
        if base.__module__.partition(".")[0] not in sys.stdlib_module_names
    ]
    if not bases:
        return True
    try:
        return any(_EVALUATION.search(inspect.getsource(base)) for base in bases)
    except (OSError, TypeError):
        return True


def is_safe(answer: str) -> bool:
    """Check whether an answer may be evaluated: a formula, or a text that is no code and becomes none."""
    if len(answer) > MAX_CHARACTERS:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(answer.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # SymPy reads `f(x)!` as a factorial. Without parentheses and factorials nothing is called.
        return not re.search("[(!]", answer)
    return is_formula(tree)


def is_formula(node: ast.expr, depth: int = 0, powers: int = 0, calls: int = 0) -> bool:
    """Check whether an expression has only small numbers, texts, lists, names and operations on numbers."""
    depth += 1
    if max(powers, calls) > MAX_NESTED or depth > MAX_DEPTH:
        return False
    match node:
        case ast.Constant(value):
            return len(str(value)) <= 20 or isinstance(value, str)
        case ast.Name(name):
            return _NAME.fullmatch(name) is not None
        case ast.List(parts) | ast.Tuple(parts):
            return all(is_formula(part, depth, powers, calls) for part in parts)
        case ast.UnaryOp(ast.USub() | ast.UAdd(), part):
            return is_formula(part, depth, powers, calls)
        case ast.BinOp(left, operator, right):
            powers += isinstance(operator, ast.Pow)
            if not isinstance(operator, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow):
                return False
            if _is_sequence(left) or _is_sequence(right):
                return False
            if isinstance(operator, ast.Pow) and _bound(right) > MAX_EXPONENT:
                return False
            return all(is_formula(part, depth, powers, calls) for part in (left, right))
        case ast.Call(ast.Name(name), [part], []):
            return name in FUNCTIONS and is_formula(part, depth, powers, calls + 1)
    return False


def _is_sequence(node: ast.expr) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return text or isinstance(node, ast.List | ast.Tuple)


def _bound(exponent: ast.expr) -> float:
    """Return a bound on the value of an exponent: the product of its numbers, those below 2 as 2."""
    bound = 1.0
    for node in ast.walk(exponent):
        if isinstance(node, ast.Pow | ast.Call):
            return float("inf")
        if isinstance(node, ast.Constant):
            value = node.value
            bound *= max(2.0, abs(value)) if isinstance(value, int | float) else float("inf")
    return bound
