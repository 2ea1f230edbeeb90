"""Read an agent's completion as methods of a class.

Methods may stand alone, in the class, indented as in its body, in one Markdown fence or in several. A block that
does not parse is read method by method, so that a broken method does not affect the others.
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
"""Header that makes methods parse which are indented as in a class's body."""

METHOD_DECORATORS = ("staticmethod", "classmethod", "property")

_HEADER = re.compile(r"([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*\(")
_IMPORT = re.compile(r"(import|from)\b")


@dataclass(frozen=True)
class Piece:
    """A definition or an import, without indentation."""

    name: str
    code: str
    stub: bool = False
    """True if its body is empty."""


@dataclass(frozen=True)
class ClassReading:
    """Definitions in a completion; of equal names the last one counts, except in properties."""

    imports: tuple[str, ...]
    functions: tuple[Piece, ...]
    """Functions beside the class."""
    methods: tuple[Piece, ...]
    broken: tuple[tuple[str, SyntaxProblem], ...]
    """Methods that do not parse, and the reasons; lines count from the method's own first line."""


def read_class(completion: str, outline: Outline) -> ClassReading:
    """Read a completion that should define methods of the outlined class.

    The reading has methods, functions beside the class, and imports, which may stand at the top level or inside
    the class; all other statements are left out, as are definitions that the skeleton has complete.
    A top-level function counts as a method if the skeleton has one of that name, or by its first parameter
    or a decorator. A completion of more than `MAX_CHARACTERS` is not read; code with too many tokens counts as
    broken, see `Attempts`.
    """
    reader = _Reader(outline)
    for block in _blocks(completion, reader.parse) if len(completion) <= MAX_CHARACTERS else ():
        source, tree = _parsed(block, reader.parse)
        if tree is not None:
            reader.collect(source, tree.body)
        else:
            reader.salvage(block)
    names = {piece.name for piece in reader.methods}
    return ClassReading(
        imports=tuple(reader.imports),
        functions=tuple(reader.functions.values()),
        methods=tuple(_without_overwritten(reader.methods)),
        broken=tuple((n, p) for n, p in reader.broken.items() if n not in names),
    )


def _blocks(completion: str, parse: Attempts) -> list[str]:
    """Return the whole text if it parses, else its fenced blocks, else the whole text."""
    texts = [text.replace("\r\n", "\n").replace("\r", "\n") for text in candidates(completion)]
    if _parsed(texts[0], parse)[1] is not None:
        return texts[:1]
    return [text for text in texts[1:] if "```" not in text] or texts[:1]


def _parsed(text: str, parse: Attempts) -> tuple[str, ast.Module | None]:
    """Return the source that parses, if need be with a class header, and its tree."""
    body = text.strip("\n")
    first = body.lstrip(" \t")
    for source in (body, WRAPPER + body, f"{WRAPPER}    {first}"):
        tree = parse(source)
        if isinstance(tree, ast.Module):
            return source, tree
    return text, None


@dataclass
class _Reader:
    """Collects the definitions of a completion."""

    outline: Outline
    imports: dict[str, None] = field(default_factory=dict)
    functions: dict[str, Piece] = field(default_factory=dict)
    methods: list[Piece] = field(default_factory=list)
    broken: dict[str, SyntaxProblem] = field(default_factory=dict)
    parse: Attempts = field(default_factory=lambda: Attempts(syntax_tree))

    def collect(self, source: str, body: list[ast.stmt], in_class: bool = False) -> None:
        """Collect the definitions of a block that parses, and those of the class in it."""
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.imports[ast.unparse(statement)] = None
            elif isinstance(statement, ast.ClassDef):
                if not in_class and statement.name in (self.outline.class_name, "_"):
                    self.collect(source, statement.body, in_class=True)
            elif isinstance(statement, FunctionNode):
                piece = Piece(statement.name, segment(source, statement), is_stub(statement))
                if piece.name in self.outline.taken and piece.name not in self.outline.names:
                    continue  # the skeleton has it complete
                if in_class or _is_method(statement, self.outline):
                    self.methods.append(piece)
                else:
                    self.functions[piece.name] = piece

    def salvage(self, text: str) -> None:
        """Read a block that does not parse method by method, each from its decorators to those of the next."""
        lines = text.split("\n")
        for line in lines:
            if _IMPORT.match(line) and isinstance(tree := self.parse(line), ast.Module):
                self.collect(line, tree.body)
        headers = [(n, match) for n, line in enumerate(lines) if (match := _HEADER.match(line))]
        outer = min((len(match[1]) for _, match in headers), default=0)
        starts = [(n, match) for n, match in headers if len(match[1]) == outer]
        begins = [_with_decorators(lines, n, match[1]) for n, match in starts]
        ends = [*begins, len(lines)][1:]
        for begin, end, (_, match) in zip(begins, ends, starts, strict=True):
            problem = self._salvage_method(lines[begin:end])
            if problem is not None and match[2] in self.outline.names:
                self.broken.setdefault(match[2], problem)

    def _salvage_method(self, lines: list[str]) -> SyntaxProblem | None:
        """Collect the longest beginning that parses, without prose after it; return the problem if none does."""
        indent = len(lines[0]) - len(lines[0].lstrip())
        wrapper = WRAPPER if indent else ""
        problem: SyntaxProblem | None = None
        end = len(lines)
        while end > 0 and self.parse.room > 0:
            source = wrapper + "\n".join(lines[:end])
            tree = self.parse(source)
            if isinstance(tree, ast.Module):
                self.collect(source, tree.body)
                return None
            line = min(max(tree.line - bool(wrapper), 1), len(lines))
            problem = problem or SyntaxProblem(tree.message, line, tree.column)
            end = _previous_end(lines, end, indent)
        return problem or SyntaxProblem("too much code that does not parse", 1, 1)


def _is_method(function: FunctionNode, outline: Outline) -> bool:
    if function.name in outline.taken:
        return True
    parameters = [*function.args.posonlyargs, *function.args.args]
    decorators = [d.id for d in function.decorator_list if isinstance(d, ast.Name)]
    decorated = not set(decorators).isdisjoint(METHOD_DECORATORS)
    return decorated or (bool(parameters) and parameters[0].arg in ("self", "cls"))


def _without_overwritten(methods: list[Piece]) -> Iterator[Piece]:
    """Drop definitions that a later one of that name replaces; all parts of a property stay."""
    for index, piece in enumerate(methods):
        later = [item for item in methods[index + 1 :] if item.name == piece.name]
        if not later or any(map(_continues, later)):
            yield piece


def _continues(piece: Piece) -> bool:
    """Check whether a definition builds on an earlier one of its name, as a setter does."""
    decorator = piece.code.partition("\n")[0]
    return decorator.startswith((f"@{piece.name}.", "@overload", "@typing.overload"))


def _with_decorators(lines: list[str], number: int, indent: str) -> int:
    while number and lines[number - 1].startswith(f"{indent}@"):
        number -= 1
    return number


def _previous_end(lines: list[str], end: int, indent: int) -> int:
    """Return the last line before `end` that is indented no deeper than the method: prose may begin there."""
    for number in range(end - 1, 0, -1):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            return number
    return 0


# The text of definitions


def segment(source: str, node: FunctionNode) -> str:
    """Return the text of a function, decorators and comments included, without indentation."""
    begin, end = first_line(node), node.end_lineno or node.lineno
    lines = source.split("\n")[begin - 1 : end]
    prefix = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    return shift(lines, begin, inside_strings(node), prefix, "")


def inside_strings(tree: ast.AST) -> set[int]:
    """Return the lines that begin inside a literal of several lines, whose indentation belongs to it."""
    texts = {  # the parts of an f-string have its lines
        (node.lineno + 1, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
    }
    return {line for begin, end in texts for line in range(begin, end)}


def shift(lines: list[str], begin: int, fixed: set[int], old: str, new: str) -> str:
    """Change the indentation of lines.

    Args:
        lines: The lines.
        begin: Number of the first line.
        fixed: Numbers of the lines that are not changed.
        old: The indentation to remove; a line with less loses all of it.
        new: The indentation to add to lines that are not blank.
    """
    shifted = []
    for number, line in enumerate(lines, begin):
        if number not in fixed:
            rest = line.removeprefix(old) if line.startswith(old) else line.lstrip()
            line = new + rest if rest.strip() else ""
        shifted.append(line)
    return "\n".join(shifted)
