"""A program as pieces that agents repair: its top-level functions, or the methods of the class under test."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from llm_decpomdp.envs.bugfix.methods import known_class
from llm_decpomdp.envs.datasets.rows import BadRow
from llm_decpomdp.envs.problems.classeval import import_statements
from llm_decpomdp.envs.problems.unit_tests import class_tests
from llm_decpomdp.envs.sandbox import Program, Sandbox, Tests, instrument
from llm_decpomdp.envs.sandbox.instrument import names
from llm_decpomdp.envs.source_code.completion import parsed
from llm_decpomdp.envs.source_code.functions import excerpt, function_text, functions

PROGRAM = "program"
"""The origin of code that no agent submitted."""


def pieces(code: str, entry_point: str) -> Mapping[str, str]:
    """Return the text of each piece, in order."""
    if known := known_class(code, entry_point):
        return known.methods
    return {name: function_text(code, name) for name in functions(code)}


def repairable(code: str, test: str, entry_point: str) -> tuple[str, ...]:
    """Return the names of the pieces, in order, but for functions that the tests rely on.

    The tests of HumanEval/32, for one, call the `poly` that the prompt gives.
    """
    if known := known_class(code, entry_point):
        return tuple(known.methods)
    named = names(parsed(test) or ast.Module([], [])) - {entry_point}
    return tuple(name for name in functions(code) if name not in named)


def instrumented(code: str, test: str, entry_point: str) -> Tests:
    """Return the tests of a program.

    Raises:
        BadRow: If they do not parse.
    """
    try:
        if known := known_class(code, entry_point):
            imports = "\n".join(import_statements(code))
            return class_tests(test, entry_point, imports, own=known.shape.taken)
        return instrument(test, entry_point)
    except ValueError as error:
        raise BadRow(f"field 'test': {error}") from None


def whole(code: str, entry_point: str, repaired: Collection[str]) -> Program:
    """Return a program as it is, to be run; `repaired` names the pieces that are somebody's."""
    if known_class(code, entry_point):
        return Program(((PROGRAM, code),), entry_point)
    return joint(code, entry_point, repaired, repaired)


def joint(
    code: str,
    entry_point: str,
    repaired: Collection[str],
    kept: Collection[str],
    parts: Mapping[str, str] | None = None,
) -> Program:
    """Join what is nobody's, the functions that are kept, and the agents' parts, in this order.

    Args:
        code: The program.
        entry_point: The function that its tests call.
        repaired: The functions that are somebody's.
        kept: Those of them that nobody submitted.
        parts: Code by agent.
    """
    segments = [(PROGRAM, excerpt(code, kept, rest=False)), *(parts or {}).items()]
    preamble = excerpt(code, set(functions(code)) - set(repaired), rest=True)
    return Program(tuple(segment for segment in segments if segment[1]), entry_point, preamble)


def strict(sandbox: Sandbox, correct: Program, tests: Tests) -> Tests:
    """Return the tests, each to be reached as often as by a correct program.

    Otherwise a program that returns nothing would pass `for item in candidate(x): assert ...`.
    """
    if not tests.vary:
        return tests
    execution = sandbox.run(correct, tests)
    pairs = zip(execution.reached, execution.tests, strict=True)
    return tests.require_reached([times if test.passed else 0 for times, test in pairs])
