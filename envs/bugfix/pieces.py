"""A program as pieces that agents repair: its top-level functions, or the methods of the class under test."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from functools import lru_cache

from llm_decpomdp.envs.bugfix.methods import emptied, import_lines, is_class, methods
from llm_decpomdp.envs.classeval.unit_tests import class_tests
from llm_decpomdp.envs.datasets.loading import BadRow
from llm_decpomdp.envs.programs.completion import parsed
from llm_decpomdp.envs.programs.functions import excerpt, function_text, functions
from llm_decpomdp.envs.sandbox import Program, Sandbox, Tests, instrument
from llm_decpomdp.envs.sandbox.instrumentation.analysis import names

PROGRAM = "program"
"""The origin of code that no agent submitted."""


@lru_cache(maxsize=4096)
def pieces(code: str, entry_point: str) -> Mapping[str, str]:
    """The text of each piece, in order."""
    if is_class(code, entry_point):
        return methods(code, entry_point)
    return {name: function_text(code, name) for name in functions(code)}


@lru_cache(maxsize=4096)
def repairable(code: str, test: str, entry_point: str) -> tuple[str, ...]:
    """The names of the pieces, in order, but for functions that the tests rely on.

    The tests of HumanEval/32, for one, call the `poly` that the prompt gives.
    """
    if is_class(code, entry_point):
        return tuple(pieces(code, entry_point))
    named = names(parsed(test) or ast.Module([], [])) - {entry_point}
    return tuple(name for name in functions(code) if name not in named)


def instrumented(code: str, test: str, entry_point: str) -> Tests:
    """The tests of a program.

    Raises:
        BadRow: If they do not parse.
    """
    try:
        if is_class(code, entry_point):
            own = emptied(code, entry_point).taken
            return class_tests(test, entry_point, import_lines(code), own=own)
        return instrument(test, entry_point)
    except ValueError as error:
        raise BadRow(f"field 'test': {error}") from None


def whole(code: str, entry_point: str, repaired: Collection[str]) -> Program:
    """A program as it is, to be run; `repaired` names the pieces that are somebody's."""
    if is_class(code, entry_point):
        return Program(((PROGRAM, code),), entry_point)
    return joint(code, entry_point, repaired, repaired)


def joint(
    code: str,
    entry_point: str,
    repaired: Collection[str],
    kept: Collection[str],
    parts: Mapping[str, str] | None = None,
) -> Program:
    """What is nobody's comes first, then the functions that are kept, then the agents' parts.

    Args:
        code: The program.
        entry_point: The function that its tests call.
        repaired: The functions that are somebody's.
        kept: Those of them that nobody submitted.
        parts: Code by agent.
    """
    segments = [(PROGRAM, excerpt(code, kept, rest=False)), *(parts or {}).items()]
    preamble = excerpt(code, set(functions(code)) - set(repaired), rest=True)
    return Program(tuple((who, part) for who, part in segments if part), entry_point, preamble)


def strict(sandbox: Sandbox, correct: Program, tests: Tests) -> Tests:
    """The tests, each to be reached as often as by a correct program.

    Otherwise a program that returns nothing would pass `for item in candidate(x): assert ...`.
    """
    if not tests.vary:
        return tests
    execution = sandbox.run(correct, tests)
    pairs = zip(execution.reached, execution.tests, strict=True)
    return tests.at_least([times if test.passed else 0 for times, test in pairs])
