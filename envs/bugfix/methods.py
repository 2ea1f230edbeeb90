"""A program as segments that agents repair: its top-level functions, or the methods of the class under test.

Methods are read and merged as in `classeval-v0`: see `llm_decpomdp.envs.source_code.classes`. The tests of a class
run apart from the program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from llm_decpomdp.envs.datasets.classeval import class_tests, import_statements
from llm_decpomdp.envs.datasets.loading import BadRow
from llm_decpomdp.envs.sandbox import Program, Sandbox, Tests, instrument
from llm_decpomdp.envs.sandbox.instrument import names
from llm_decpomdp.envs.source_code.classes.completion import ClassReading, CodeSegment, read_class
from llm_decpomdp.envs.source_code.classes.merge import Contribution, Merged, merge
from llm_decpomdp.envs.source_code.classes.skeleton import (
    FunctionNode,
    Outline,
    find_class,
    outline,
)
from llm_decpomdp.envs.source_code.functions import excerpt, function_text, functions, tokens
from llm_decpomdp.envs.source_code.parsing import (
    SyntaxProblem,
    parse,
    parse_or_none,
)

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
    named = names(parse_or_none(test) or ast.Module([], [])) - {entry_point}
    return tuple(name for name in functions(code) if name not in named)


def test_cases_of_program(code: str, test: str, entry_point: str) -> Tests:
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


# Classes with bugs: their methods are repaired as the functions of other programs are


@dataclass(frozen=True)
class Submission:
    """An agent's functions or methods, as its completion has them."""

    code: str
    """The code that is run: its functions, and all else that it wrote but for the team-mates' functions."""
    submitted: Mapping[str, str]
    """The text of each of its functions that is there and parses."""
    problem: SyntaxProblem | None = None
    """Reason for its code not to parse, or None."""
    contribution: Contribution | None = None
    """The code as a part of a class, where the program is one."""
    fallbacks: Mapping[str, int] = field(default_factory=dict, compare=False)
    """What the reading reports: numbers by names of `completion.FALLBACKS`."""


@dataclass(frozen=True)
class KnownClass:
    """A class whose methods are repaired."""

    code: str
    """The program."""
    name: str

    @cached_property
    def shape(self) -> Outline:
        """The class with all of its methods still to be written.

        Raises:
            ValueError: If it has no methods.
        """
        module = parse(self.code)
        node = find_class(module, self.name)
        for statement in node.body if node is not None else ():
            if isinstance(statement, FunctionNode):
                statement.body = [ast.Expr(ast.Constant(...))]
        return outline(ast.unparse(module), self.name)

    @cached_property
    def reading(self) -> ClassReading:
        """The class as a completion that is read."""
        return read_class(self.code, self.shape)

    @property
    def methods(self) -> dict[str, str]:
        """The text of each method, in order; of a property with a setter, both."""
        return _texts(self.reading.methods)

    def read(self, agent: str, completion: str, owned: Collection[str]) -> Submission:
        """Read the methods that an agent owns in its completion."""
        headers = [unit.header for unit in self.shape.units if unit.name in owned]
        opening = f"{headers[0]}\n" if len(headers) == 1 else ""
        reading = read_class(completion, self.shape, opening, self.code)
        others = set(self.shape.names).difference(owned)
        pieces = tuple(piece for piece in reading.methods if piece.name not in others)
        part = Contribution(agent, (), reading.imports, reading.functions, pieces, ())
        submitted = {name: text for name, text in _texts(pieces).items() if name in owned}
        for name, problem in reading.broken:
            if name in owned:
                problem = _shift_problem(problem, name, completion)
                return Submission(completion, submitted, problem, fallbacks=reading.fallbacks)
        whole = replace(part, assigned=tuple(submitted))
        return Submission(part.code, submitted, None, whole, reading.fallbacks)

    def merge_methods(self, kept: Collection[str], parts: Iterable[Contribution]) -> Merged:
        """Return the class with the agents' methods, and those of `kept` as they are."""
        pieces = tuple(piece for piece in self.reading.methods if piece.name in kept)
        return merge(self.shape, (*parts, Contribution("", (), (), (), (), pieces)))

    def count_added_tokens(self, part: Contribution) -> int:
        """Count the tokens of an agent's code outside the class's methods, but for what stands there already."""
        known = {*self.reading.imports, *(piece.code for piece in self.reading.functions)}
        beside = [*part.imports, *(piece.code for piece in part.functions)]
        beside += [piece.code for piece in part.own if piece.name not in self.shape.names]
        return sum(len(tokens(text)) for text in beside if text not in known)


def known_class(code: str, name: str) -> KnownClass | None:
    """Return the top-level class of this name; None if code has none, or does not parse."""
    module = parse_or_none(code)
    node = find_class(module, name) if module is not None else None
    return None if node is None else KnownClass(code, name)


def _texts(pieces: Iterable[CodeSegment]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for piece in pieces:
        before = texts.get(piece.name)
        texts[piece.name] = piece.code if before is None else f"{before}\n\n{piece.code}"
    return texts


def _shift_problem(problem: SyntaxProblem, name: str, completion: str) -> SyntaxProblem:
    """Return a problem whose line counts in the whole completion, not in the method."""
    header = re.search(rf"^.*\bdef[ \t]+{re.escape(name)}[ \t]*\(", completion, re.MULTILINE)
    before = completion[: header.start()].count("\n") if header else 0
    return SyntaxProblem(problem.message, before + problem.line, problem.column)
