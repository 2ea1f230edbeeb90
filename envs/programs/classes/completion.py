"""Reading an agent's completion as methods of a class.

Methods may stand alone, in the class, indented as in its body, in one Markdown fence or in several. Where a
block does not parse, it is read method by method, and a broken method costs only itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from llm_decpomdp.envs.programs.classes.skeleton import FunctionNode, Outline, first_line, is_stub
from llm_decpomdp.envs.programs.code_blocks import Attempts, candidates
from llm_decpomdp.envs.programs.completion import syntax_tree
from llm_decpomdp.envs.programs.parsing import MAX_CHARACTERS, SyntaxProblem

WRAPPER = "class _:\n"
"""Makes methods that are indented as in a class's body parse."""

METHOD_DECORATORS = ("staticmethod", "classmethod", "property")

_HEADER = re.compile(r"([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*\(")
_IMPORT = re.compile(r"(import|from)\b")


@dataclass(frozen=True)
class Piece:
    """A definition or an import, without indentation."""

    name: str
    code: str
    stub: bool = False
    """Whether its body is empty."""


@dataclass(frozen=True)
class ClassReading:
    """What a completion holds; of equal definitions the last one counts, except in properties."""

    imports: tuple[str, ...]
    functions: tuple[Piece, ...]
    """Functions beside the class."""
    methods: tuple[Piece, ...]
    broken: tuple[tuple[str, SyntaxProblem], ...]
    """Methods that do not parse, and why; lines count from the method's own first line."""


@dataclass
class _Found:
    imports: dict[str, None] = field(default_factory=dict)
    functions: dict[str, Piece] = field(default_factory=dict)
    methods: list[Piece] = field(default_factory=list)
    broken: dict[str, SyntaxProblem] = field(default_factory=dict)
    parse: Attempts = field(default_factory=lambda: Attempts(syntax_tree))


def read_class(completion: str, outline: Outline) -> ClassReading:
    """Read a completion that should define methods of the outlined class.

    Kept are methods, functions beside the class, and imports, which may stand at the top level or inside
    the class; all other statements are left out, as are definitions of what the skeleton has complete.
    A top-level function counts as a method if the skeleton has one of that name, or if its first parameter
    or a decorator says so. Nothing is found in a completion of more than `MAX_CHARACTERS`; what has too many
    tokens to be parsed is broken, see `Attempts`.
    """
    found = _Found()
    for block in _blocks(completion, found.parse) if len(completion) <= MAX_CHARACTERS else ():
        source, tree = _parsed(block, found.parse)
        if tree is not None:
            _collect(source, tree.body, outline, found)
        else:
            _salvage(block, outline, found)
    names = {piece.name for piece in found.methods}
    return ClassReading(
        imports=tuple(found.imports),
        functions=tuple(found.functions.values()),
        methods=tuple(_without_overwritten(found.methods)),
        broken=tuple((n, p) for n, p in found.broken.items() if n not in names),
    )


def _blocks(completion: str, parse: Attempts) -> list[str]:
    """The whole text if it parses, else its fenced blocks, else the whole text."""
    texts = [text.replace("\r\n", "\n").replace("\r", "\n") for text in candidates(completion)]
    if _parsed(texts[0], parse)[1] is not None:
        return texts[:1]
    return [text for text in texts[1:] if "```" not in text] or texts[:1]


def _parsed(text: str, parse: Attempts) -> tuple[str, ast.Module | None]:
    """The source that parses, perhaps with a class around it, and its tree."""
    body = text.strip("\n")
    first = body.lstrip(" \t")
    for source in (body, WRAPPER + body, f"{WRAPPER}    {first}"):
        tree = parse(source)
        if isinstance(tree, ast.Module):
            return source, tree
    return text, None


def _collect(source: str, body: list[ast.stmt], outline: Outline, found: _Found) -> None:
    """Take in what a block defines."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found.imports[ast.unparse(statement)] = None
        elif isinstance(statement, ast.ClassDef):
            if statement.name in (outline.class_name, "_"):
                _collect_methods(source, statement, outline, found)
        elif isinstance(statement, FunctionNode):
            piece = Piece(statement.name, segment(source, statement), is_stub(statement))
            if _is_method(statement, outline):
                _add(piece, outline, found)
            elif piece.name not in outline.taken:
                found.functions[piece.name] = piece


def _collect_methods(source: str, node: ast.ClassDef, outline: Outline, found: _Found) -> None:
    for statement in node.body:
        if isinstance(statement, FunctionNode):
            _add(
                Piece(statement.name, segment(source, statement), is_stub(statement)),
                outline,
                found,
            )
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            found.imports[ast.unparse(statement)] = None


def _add(piece: Piece, outline: Outline, found: _Found) -> None:
    if piece.name in outline.names or piece.name not in outline.taken:
        found.methods.append(piece)


def _is_method(function: FunctionNode, outline: Outline) -> bool:
    if function.name in outline.taken:
        return True
    parameters = [*function.args.posonlyargs, *function.args.args]
    decorators = [d.id for d in function.decorator_list if isinstance(d, ast.Name)]
    marked = not set(decorators).isdisjoint(METHOD_DECORATORS)
    return marked or (bool(parameters) and parameters[0].arg in ("self", "cls"))


def _without_overwritten(methods: list[Piece]) -> Iterator[Piece]:
    """Without the definitions that a later one of that name replaces; a property's parts all stay."""
    for place, piece in enumerate(methods):
        later = [other for other in methods[place + 1 :] if other.name == piece.name]
        if not later or any(_continues(other) for other in later):
            yield piece


def _continues(piece: Piece) -> bool:
    """Whether a definition builds on an earlier one of its name, as a setter does."""
    decorator = piece.code.partition("\n")[0]
    return decorator.startswith((f"@{piece.name}.", "@overload", "@typing.overload"))


# The text of definitions


def segment(source: str, node: FunctionNode) -> str:
    """A function's own text, decorators and comments included, without indentation."""
    begin, end = first_line(node), node.end_lineno or node.lineno
    lines = source.split("\n")[begin - 1 : end]
    prefix = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    return shift(lines, begin, inside_strings(node), prefix, "")


def inside_strings(tree: ast.AST) -> set[int]:
    """The lines that begin inside a text of several lines, whose indentation belongs to the text."""
    texts = {  # the parts of an f-string have its lines
        (node.lineno + 1, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
    }
    return {line for begin, end in texts for line in range(begin, end)}


def shift(lines: list[str], begin: int, fixed: set[int], old: str, new: str) -> str:
    """Lines with another indentation.

    Args:
        lines: The lines.
        begin: Number of the first one.
        fixed: Numbers of the lines that stay as they are.
        old: The indentation to remove; of a line with less, as much as there is.
        new: The indentation to add to lines that are not blank.
    """
    shifted = []
    for number, line in enumerate(lines, begin):
        if number not in fixed:
            rest = line.removeprefix(old) if line.startswith(old) else line.lstrip()
            line = new + rest if rest.strip() else ""
        shifted.append(line)
    return "\n".join(shifted)


# Blocks that do not parse


def _salvage(text: str, outline: Outline, found: _Found) -> None:
    """Read a block method by method: each from its decorators to the next one."""
    lines = text.split("\n")
    headers = [
        (number, match) for number, line in enumerate(lines) if (match := _HEADER.match(line))
    ]
    for line in lines:
        if _IMPORT.match(line) and isinstance(tree := found.parse(line), ast.Module):
            _collect(line, tree.body, outline, found)
    outer = min((len(match[1]) for _, match in headers), default=0)
    starts = [(n, match) for n, match in headers if len(match[1]) == outer]
    begins = [_with_decorators(lines, n, match[1]) for n, match in starts]
    ends = [*begins, len(lines)][1:]
    for begin, end, (_, match) in zip(begins, ends, starts, strict=True):
        problem = _salvage_one(lines[begin:end], outline, found)
        if problem is not None and match[2] in outline.names:
            found.broken.setdefault(match[2], problem)


def _with_decorators(lines: list[str], number: int, indent: str) -> int:
    while number and lines[number - 1].startswith(f"{indent}@"):
        number -= 1
    return number


def _salvage_one(lines: list[str], outline: Outline, found: _Found) -> SyntaxProblem | None:
    """Take in the longest part that parses, with no prose behind it; why none does, or None."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    wrapper = WRAPPER if indent else ""
    problem: SyntaxProblem | None = None
    end = len(lines)
    while end > 0 and found.parse.room > 0:
        source = wrapper + "\n".join(lines[:end])
        tree = found.parse(source)
        if isinstance(tree, ast.Module):
            _collect(source, tree.body, outline, found)
            return None
        line = min(max(tree.line - bool(wrapper), 1), len(lines))
        problem = problem or SyntaxProblem(tree.message, line, tree.column)
        end = _previous_end(lines, end, indent)
    return problem or SyntaxProblem("too much code that does not parse", 1, 1)


def _previous_end(lines: list[str], end: int, indent: int) -> int:
    """The last line before `end` that is indented no deeper than the method: prose may begin there."""
    for number in range(end - 1, 0, -1):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            return number
    return 0
