"""Classes with bugs: their methods are repaired as the functions of other programs are.

Methods are read and put into their class as in `classeval-v0`: see its `reading` and `merge`. The tests
run apart from the program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from llm_decpomdp.envs.classeval.tasks import import_statements
from llm_decpomdp.envs.programs.classes.completion import ClassReading, Piece, read_class
from llm_decpomdp.envs.programs.classes.merge import Contribution, Merged, merge
from llm_decpomdp.envs.programs.classes.skeleton import FunctionNode, Outline, find_class, outline
from llm_decpomdp.envs.programs.completion import parsed
from llm_decpomdp.envs.programs.functions import tokens
from llm_decpomdp.envs.programs.parsing import SyntaxProblem, parse


@lru_cache(maxsize=1024)
def is_class(code: str, name: str) -> bool:
    """Whether code that parses defines a class of this name at its top level."""
    module = parsed(code)
    return module is not None and find_class(module, name) is not None


@lru_cache(maxsize=1024)
def emptied(code: str, class_name: str) -> Outline:
    """The class with all of its methods still to be written.

    Raises:
        ValueError: If the code has no such class with methods.
    """
    module = parse(code)
    node = find_class(module, class_name)
    for statement in node.body if node is not None else ():
        if isinstance(statement, FunctionNode):
            statement.body = [ast.Expr(ast.Constant(...))]
    return outline(ast.unparse(module), class_name)


@lru_cache(maxsize=1024)
def import_lines(code: str) -> str:
    """The import statements at the top of code: the tests may use their names."""
    return "\n".join(import_statements(code))


def methods(code: str, class_name: str) -> dict[str, str]:
    """The text of each method, in order; of a property with a setter, both."""
    return _texts(_read(code, code, class_name).methods)


def _read(text: str, code: str, class_name: str) -> ClassReading:
    """What a text holds of the class that `code` defines."""
    return read_class(text, emptied(code, class_name))


def _texts(pieces: Iterable[Piece]) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in pieces:
        before = found.get(piece.name)
        found[piece.name] = piece.code if before is None else f"{before}\n\n{piece.code}"
    return found


def read_methods(
    completion: str, code: str, class_name: str, owned: Collection[str]
) -> tuple[str, dict[str, str], SyntaxProblem | None]:
    """What a completion holds of the `owned` methods of the class that `code` defines.

    Returns:
        The code that is run, the text of each method that is there and parses, and why another one does not.
    """
    reading = _read(completion, code, class_name)
    mine = _contribution("", reading, owned, emptied(code, class_name))
    submitted = {name: text for name, text in _texts(mine.own).items() if name in owned}
    for name, problem in reading.broken:
        if name in owned:
            return completion, submitted, _placed(problem, name, completion)
    return mine.code, submitted, None


def _placed(problem: SyntaxProblem, name: str, completion: str) -> SyntaxProblem:
    """A problem whose line counts in the whole completion, not in the method."""
    header = re.search(rf"^.*\bdef[ \t]+{re.escape(name)}[ \t]*\(", completion, re.MULTILINE)
    before = completion[: header.start()].count("\n") if header else 0
    return SyntaxProblem(problem.message, before + problem.line, problem.column)


def _contribution(
    agent: str, reading: ClassReading, owned: Collection[str], shape: Outline
) -> Contribution:
    others = set(shape.names).difference(owned)
    own = tuple(piece for piece in reading.methods if piece.name not in others)
    return Contribution(agent, tuple(owned), reading.imports, reading.functions, own, ())


def merged(
    code: str,
    class_name: str,
    kept: Collection[str],
    parts: Mapping[str, tuple[str, Collection[str]]],
) -> Merged:
    """The class that `code` defines with the agents' methods.

    Args:
        code: The program.
        class_name: Its class.
        kept: The methods that stay as they are.
        parts: Each agent's code, and its methods in it.
    """
    shape = emptied(code, class_name)
    team = [
        _contribution(agent, _read(text, code, class_name), names, shape)
        for agent, (text, names) in parts.items()
    ]
    there = tuple(p for p in _read(code, code, class_name).methods if p.name in kept)
    return merge(shape, (*team, Contribution("", (), (), (), (), there)))


def added_to_class(code: str, known: str, class_name: str) -> int:
    """How many tokens of an agent's code are neither in methods of the known class nor stand beside them there."""
    names = emptied(known, class_name).names
    reading, old = _read(code, known, class_name), _read(known, known, class_name)
    there = {*old.imports, *(piece.code for piece in old.functions)}
    beside = [*reading.imports, *(piece.code for piece in reading.functions)]
    beside += [piece.code for piece in reading.methods if piece.name not in names]
    return sum(len(tokens(text)) for text in beside if text not in there)
