"""Examples in a problem's text, compared with its tests and its reference.

Examples are doctests (`>>> f(2)` and the value under it), and calls of the function that are followed by a value
on the same line: `f(2) == 4`, `f(2) -> 4`, `f(2) => 4`, `f(2) ==> 4`, `f(2) ➞ 4`, `f(2) # 4`, `f(2) returns 4`.
Arguments and value must be literals of Python. Exceptions are ignored, and a single `=`, which may define a
sequence. In classes only doctests are examples; those of a docstring run as one session, up to the first
exception.

There are two checks. (1) No test expects another value of a call with the same arguments; otherwise a program that
follows the text fails it. (2) The reference returns the value. Numbers may differ by a millionth. Examples that
depend on chance or on the clock are reported, too.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import Protocol, runtime_checkable

from llm_decpomdp.envs.datasets.classeval import ClassTask
from llm_decpomdp.envs.datasets.loading import Remark
from llm_decpomdp.envs.source_code.parsing import FUNCTIONS, parse_or_none
from llm_decpomdp.interfaces import Task

# The forms occur in the texts of HumanEval and CoopHumanEval.
ARROW = re.compile(r"\s*(?:(?:#\s*)?(?:==>|=>|==|->|➞|→|➔)|#|(?:should return|returns)\b)\s*")

TAIL = re.compile(r"\s+#|\s+\(|\s+-+\s+[A-Za-z]|[.;,](?:\s|$)|\s+(?:because|since|as)\s")
"""Beginnings of texts that may follow a value."""

SAME = """
def __same__(found, expected):
    if isinstance(expected, float) and type(found) in (int, float):
        return found == expected or abs(found - expected) <= 1e-6 * max(1.0, abs(expected))
    if isinstance(expected, (list, tuple)) and type(found) is type(expected):
        return len(found) == len(expected) and all(map(__same__, found, expected))
    if isinstance(expected, dict) and isinstance(found, dict):
        return found.keys() == expected.keys() and all(__same__(found[k], v) for k, v in expected.items())
    return found == expected
"""
"""Comparison of a value with an example, as part of the tests."""


@runtime_checkable
class FunctionTask(Protocol):
    """Task with one entry point and a function `check` that tests it."""

    prompt: str
    entry_point: str
    test: str

    @property
    def stub(self) -> str:
        """The prompt as a module."""
        ...


@dataclass(frozen=True)
class Example:
    """Expression and its value in the text of a problem."""

    expression: str
    value: str

    def __str__(self) -> str:
        return f"{self.expression} -> {self.value}"


def examples(text: str, function: str) -> list[Example]:
    """Return the examples of a function in a text, each once."""
    # Doctests first: they are exact; the others are guessed.
    matches = [
        example
        for entry in _doctests(text)
        if (example := _doctest_example(entry)) is not None
        and function in (names := _names(example.expression))
        and names <= {function, *vars(builtins)}  # no variables of earlier lines
    ]
    for line in text.splitlines():
        matches += _inline(line, function)
    return list(dict.fromkeys(matches))


def _doctests(text: str) -> list[doctest.Example]:
    """Return the doctests of a text with any indentation, with or without a space after `>>>`."""
    lines = (re.sub(r"^(>>>|\.\.\.)(?=\S)", r"\1 ", line.strip()) for line in text.splitlines())
    return doctest.DocTestParser().get_examples("\n".join(lines))


def _names(expression: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)}


def _doctest_example(entry: doctest.Example) -> Example | None:
    expression = _expression(entry.source)
    if expression is None or entry.exc_msg is not None:
        return None
    if "\b" in entry.source + entry.want or " at 0x" in entry.want:
        return None  # an unescaped pattern, or the address of an object
    if isinstance(expression, ast.Call) and ast.unparse(expression.func) == "print":
        output = entry.want.strip()
        # The output of several arguments depends on the separator.
        plain = len(expression.args) == 1 and not expression.keywords and "\n" not in output
        return Example(f"str({ast.unparse(expression.args[0])})", repr(output)) if plain else None
    lines = entry.want.splitlines()
    for end in range(1, len(lines) + 1):
        value = _literal("\n".join(lines[:end]))
        if value is not None:
            return Example(ast.unparse(expression), value)
    return None


def _inline(line: str, function: str) -> Iterator[Example]:
    for start in (match.start() for match in re.finditer(rf"(?<![\w.]){function}\(", line)):
        for end in (match.end() for match in re.finditer(r"\)", line[start:])):
            call = _expression(line[start : start + end])
            arrow = ARROW.match(line, start + end)
            if arrow and _arguments(call, {function}) is not None:
                assert call is not None
                value = _first_literal(line[arrow.end() :])
                if value is not None:
                    yield Example(ast.unparse(call), value)
                break


def _first_literal(text: str) -> str | None:
    """Return the literal at the start of a text, if the text ends there or `TAIL` follows."""
    # The longest text first: a value such as "a, b" may have the mark of an end inside.
    ends = [len(text), *sorted((m.start() for m in TAIL.finditer(text)), reverse=True)]
    return next((value for end in ends if (value := _literal(text[:end])) is not None), None)


def _expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _literal(text: str) -> str | None:
    try:
        return repr(ast.literal_eval(text.strip()))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


# Examples against asserts


def contradictions(task: Task) -> Iterator[Remark]:
    """Yield the examples of a task of one function that contradict an assert about the same call."""
    if not isinstance(task, FunctionTask):
        return
    values = {
        _arguments(_expression(example.expression), {task.entry_point}): example
        for example in _task_examples(task)
    }
    for key, value, case in _assert_values(task):
        example = values.get(key)
        if key is not None and example is not None and not _agree(value, example.value):
            text = f"the text says {example}, but a test says {case}"
            yield Remark("example", task.task_id, "", text, fault=True)


def _agree(value: str, expected: str) -> bool:
    names: dict[str, object] = {}
    exec(SAME, names)  # our own text, on literals
    same = names["__same__"]
    assert callable(same)
    return bool(same(ast.literal_eval(value), ast.literal_eval(expected)))


def _task_examples(task: FunctionTask) -> list[Example]:
    """Return the examples in the docstrings of the entry point, or in the whole text if there are none."""
    module = parse_or_none(task.stub)
    functions = [node for node in module.body if isinstance(node, FUNCTIONS)] if module else []
    texts = [ast.get_docstring(f) or "" for f in functions if f.name == task.entry_point]
    return examples("\n".join(texts) or task.prompt, task.entry_point)


def _arguments(node: ast.expr | None, functions: set[str]) -> str | None:
    """Return the arguments of a call of one of these functions, if all are literals."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) not in functions:
        return None
    values = [*map(ast.unparse, node.args)]
    values += [f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in node.keywords]
    plain = all(_literal(ast.unparse(a)) for a in (*node.args, *(k.value for k in node.keywords)))
    return ", ".join(values) if plain else None


def _assert_values(task: FunctionTask) -> Iterator[tuple[str | None, str, str]]:
    """Yield arguments, expected value and text of the asserts that compare a call with a literal."""
    module = parse_or_none(task.test)
    names = {task.entry_point}
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            names |= {argument.arg for argument in node.args.args}
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, ast.Assert):
            call, value = _split_assert(node.test)
            if value is not None:
                yield (
                    _arguments(call, names),
                    value,
                    ast.unparse(ast.Assert(node.test)),
                )  # without its message


def _split_assert(test: ast.expr) -> tuple[ast.expr, str | None]:
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        if isinstance(test.ops[0], ast.Eq | ast.Is):
            return test.left, _literal(ast.unparse(test.comparators[0]))
        return test, None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand, "False"
    return test, "True"


# Examples against the reference


def examples_as_tests(task: Task) -> Task | None:
    """Return the task with its examples as tests; None if there are no examples."""
    if isinstance(task, ClassTask):
        sessions = "".join(_sessions(task))
        head = f"import unittest\n{SAME}\n\nclass Examples(unittest.TestCase):\n"
        return replace(task, test=head + sessions) if sessions else None
    if not isinstance(task, FunctionTask) or not (stated := _task_examples(task)):
        return None
    name = re.compile(rf"\b{task.entry_point}\(")
    lines = [f"    assert {_condition(example, name)}\n" for example in stated]
    source: Any = task  # a dataclass with a field `test`, which a protocol cannot express
    with_examples: Task = replace(source, test=f"{SAME}\ndef check(candidate):\n{''.join(lines)}")
    return with_examples


def _condition(example: Example, name: re.Pattern[str]) -> str:
    expression = name.sub("candidate(", example.expression)
    if "." in example.value:
        return f"__same__({expression}, {example.value})"
    return f"({expression}) == {example.value}"  # the expression may be a comparison


SESSION = """
    def test_{name}(self):
        try:
{body}
        except AssertionError:
            raise
        except Exception:
            pass
"""
"""Test that fails only if an example has another value."""


def _sessions(task: ClassTask) -> Iterator[str]:
    module = parse_or_none(task.prompt)
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            body = "\n".join(map(_step, _doctests(ast.get_docstring(node) or "")))
            if "__same__" in body and parse_or_none(body) is not None:
                yield SESSION.format(name=node.name, body=textwrap.indent(body, " " * 12))


def _step(entry: doctest.Example) -> str:
    """Return a line of a session. If its value is a literal, the line compares it."""
    example = _doctest_example(entry)
    if example is None:
        return entry.source.strip()
    text = f"{example.expression} is not {example.value} but "
    return (
        f"__found__ = {example.expression}\n"
        f"if not __same__(__found__, {example.value}):\n"
        f"    raise AssertionError({text!r} + repr(__found__))"
    )
