"""Read an agent's completion as methods of a class, by the rule of `source_code/completion.py`.

Methods may stand alone, in the class, indented as in its body, in one Markdown fence or in several. A block that
does not parse is read method by method, so that a broken method does not affect the others. Differences from
functions:

- Methods of all blocks are taken together. Of several definitions of one the last complete one counts, those in
  fences before those in prose. Definitions that extend it stay, such as the setter of a property.
- Outside the class, all imports and functions are kept. Assignments, other classes and compound statements are
  kept if they bind a name that the methods read. All other statements are left out.
- A method may be bound by an assignment in the class's body. Attributes of the class that the skeleton does not
  have are kept as helper methods are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llm_decpomdp.envs.source_code.classes import (
    CodeSegment,
    FunctionNode,
    Outline,
    is_unwritten,
    segment,
)
from llm_decpomdp.envs.source_code.completion import SOLUTION
from llm_decpomdp.envs.source_code.parsing import (
    MAX_CHARACTERS,
    Attempts,
    SyntaxProblem,
    bodies,
    is_stub,
    split_blocks,
    syntax_tree,
)
from llm_decpomdp.envs.source_code.statements import (
    BLOCKS,
    Statement,
    fingerprint,
    fingerprints,
    needed_names,
)
from llm_decpomdp.utils.chat_text import find_answer

WRAPPER = "class _:\n"
"""Header that makes methods parse which are indented as in a class's body."""

OVERLOAD = "@overload"

METHOD_DECORATORS = ("staticmethod", "classmethod", "property")

_HEADER = re.compile(r"([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*\(")
_FUNCTION = re.compile(r"@|(?:async\s+)?def\b")
_REGISTER = re.compile(r"@[\w.]+\.register\b")
_IMPORT = re.compile(r"(import|from)\b")


@dataclass(frozen=True)
class ClassReading:
    """Definitions in a completion; of equal names the last one counts, except in properties."""

    imports: tuple[str, ...]
    functions: tuple[CodeSegment, ...]
    """Functions outside the class, and other statements that the methods need."""
    methods: tuple[CodeSegment, ...]
    broken: tuple[tuple[str, SyntaxProblem], ...]
    """Methods that do not parse, and the reasons; lines count from the method's own first line."""
    fallbacks: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Numbers by names of `completion.FALLBACKS`; those that are missing are 0."""


def read_class(
    completion: str, outline: Outline, opening: str = "", prompt: str = ""
) -> ClassReading:
    """Read a completion that should define methods of the outlined class.

    A top-level function counts as a method if the skeleton has one of that name, or by its first parameter or a
    decorator. Definitions that the skeleton has complete are left out. A completion of more than `MAX_CHARACTERS`
    is not read; code with too many tokens counts as broken, see `Attempts`.

    `opening` is the header of the only method that is wanted, if the completion may be its body. A method that
    is the same in `prompt`, code that the prompt shows, counts where there is no other.
    """
    answer = find_answer(completion)
    reader = _ClassReader(outline, fingerprints(prompt) if prompt else frozenset())
    blocks = split_blocks(answer.text, reader.parses) if len(answer.text) <= MAX_CHARACTERS else []
    # Fenced blocks first: a method in prose counts only if no fence has it.
    for reader.fenced, text in sorted(((b.fenced, b.text) for b in blocks), key=lambda b: not b[0]):
        source, tree = _parse_class(text, reader.parse)
        if tree is not None:
            reader.collect(source, tree.body)
        else:
            reader.salvage(text)
        reader.end_block()
    continued = False
    if opening and not (reader.methods or reader.broken):
        continued = reader.continue_opening(opening, [block.text for block in blocks])
    methods = tuple(reader.chosen_methods())
    beside = reader.needed_statements([*methods, *reader.functions.values()])
    names = {piece.name for piece in methods}
    stubs = sum(p.weak for p in reader.methods) - sum(p.weak for p in methods)
    return ClassReading(
        imports=tuple(reader.imports),
        functions=(*beside, *reader.functions.values()),
        methods=methods,
        broken=tuple((n, p) for n, p in reader.broken.items() if n not in names),
        fallbacks={
            "reasoning": answer.reasoning,
            "after_turn": answer.after_turn,
            "invisible": answer.invisible,
            "fences": sum(block.fenced for block in blocks),
            "drafts": len(reader.methods) - len(methods) - stubs,
            "stubs": stubs,
            "other_blocks": len(beside),
            "bindings": sum(
                p.name in outline.names and not _FUNCTION.match(p.code) for p in methods
            ),
            "body": int(continued),
        },
    )


def _parse_class(text: str, parse: Attempts) -> tuple[str, ast.Module | None]:
    body = text.strip("\n")
    first = body.lstrip(" \t")
    # As it stands, as the indented body of a class, and with the first line's indentation lost.
    for source in (body, WRAPPER + body, f"{WRAPPER}    {first}"):
        tree = parse(source)
        if isinstance(tree, ast.Module):
            return source, tree
    return text, None


@dataclass
class _ClassReader:
    outline: Outline
    quotations: frozenset[str] = frozenset()
    """Fingerprints of methods that the prompt shows."""
    imports: dict[str, None] = field(default_factory=dict)
    functions: dict[str, CodeSegment] = field(default_factory=dict)
    methods: list[CodeSegment] = field(default_factory=list)
    block: dict[CodeSegment, str] = field(default_factory=dict)
    """Methods of the block that is read, with their fingerprints."""
    beside: list[tuple[Statement, str]] = field(default_factory=list)
    """Statements outside the class, with their text."""
    broken: dict[str, SyntaxProblem] = field(default_factory=dict)
    fenced: bool = False
    """True while fenced blocks are read, which comes first."""
    in_fences: set[str] = field(default_factory=set)
    """Methods with a complete definition in fences."""
    parse: Attempts = field(default_factory=Attempts)

    def parses(self, text: str) -> bool:
        """Check whether a text is code."""
        return _parse_class(text, self.parse)[1] is not None

    def collect(self, source: str, body: list[ast.stmt], in_class: bool = False) -> None:
        """Collect the definitions of a block that parses, and those of the class in it."""
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.imports[ast.unparse(statement)] = None
            elif isinstance(statement, ast.ClassDef):
                if in_class or statement.name not in (self.outline.class_name, "_", SOLUTION):
                    self._collect_other(source, statement, in_class)
                else:
                    self.collect(source, statement.body, in_class=True)
            elif isinstance(statement, FunctionNode):
                weak = is_stub(statement)
                text = segment(source, statement)
                piece = CodeSegment(statement.name, text, is_unwritten(statement), weak)
                if self._is_taken(piece.name):
                    continue  # the skeleton has it complete
                # Outside a class, a function may be a method or a helper.
                if in_class or _is_method(statement, self.outline):
                    self.block[piece] = fingerprint(statement) if self.quotations else ""
                elif not (weak and piece.name in self.functions):
                    self.functions.pop(piece.name, None)
                    self.functions[piece.name] = piece
            elif isinstance(
                statement, (*BLOCKS, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
            ):
                self._collect_other(source, statement, in_class)

    def _collect_other(self, source: str, node: ast.stmt, in_class: bool) -> None:
        statement = Statement(node)
        methods = [name for name in self.outline.names if name in statement.definitions]
        if len(methods) > 1 or len(statement.bound.intersection(self.outline.names)) > 1:
            return  # the methods may be of several agents
        if methods:
            self.block[CodeSegment(methods[0], segment(source, node))] = ""
        elif not in_class:
            self.beside.append((statement, segment(source, node)))
        elif statement.bound and not any(map(self._is_taken, statement.bound)):
            self.block[CodeSegment(min(statement.bound), segment(source, node))] = ""

    def _is_taken(self, name: str) -> bool:
        return name in self.outline.taken and name not in self.outline.names

    def end_block(self) -> None:
        """Take over the methods of a block; those in prose count where there are none in fences."""
        quoted = self.quotations.issuperset(self.block.values())
        for piece in self.block:
            weak = piece.weak or quoted
            if self.fenced and not weak:
                self.in_fences.add(piece.name)
            if self.fenced or piece.name not in self.in_fences:
                self.methods.append(replace(piece, weak=weak))
        self.block.clear()

    def chosen_methods(self) -> Iterator[CodeSegment]:
        """Yield the definition of each method that counts, and after it those that build on it."""
        groups: dict[str, list[CodeSegment]] = {}
        for piece in self.methods:
            groups.setdefault(piece.name, []).append(piece)
        for group in groups.values():
            parts: dict[str, list[CodeSegment]] = {}
            for piece in group:
                parts.setdefault(_extending_decorator(piece), []).append(piece)
            yield from parts.pop(OVERLOAD, ())
            for part in sorted(parts, key=bool):
                yield ([p for p in parts[part] if not p.weak] or parts[part])[-1]

    def needed_statements(self, pieces: Sequence[CodeSegment]) -> list[CodeSegment]:
        """Return the statements outside the class that these pieces need, directly or indirectly."""
        if not self.beside:
            return []
        bound = {*self.outline.taken, *(piece.name for piece in self.functions.values())}
        pending = {name for piece in pieces for name in needed_names(piece.code)}
        pieces_at: dict[int, CodeSegment] = {}
        while names := pending - bound:
            bound |= names
            pending = set()
            for index, (statement, code) in enumerate(self.beside):
                match = names & (statement.bound | statement.changed_names)
                if match and index not in pieces_at:
                    pieces_at[index] = CodeSegment(min(match), code)
                    pending |= needed_names(code)
        texts: dict[str, list[str]] = {}
        for _, piece in sorted(pieces_at.items()):
            texts.setdefault(piece.name, []).append(piece.code)
        return [CodeSegment(name, "\n".join(codes)) for name, codes in texts.items()]

    def continue_opening(self, opening: str, texts: Sequence[str]) -> bool:
        """Read a text as the body of the only method that is wanted; return whether one is."""
        for part in bodies(opening, texts, self.parse):
            tree = syntax_tree(part)
            if isinstance(tree, ast.Module):
                self.collect(part, tree.body[:1])
                self.end_block()
                return True
        return False

    def salvage(self, text: str) -> None:
        """Read a block that does not parse method by method, each from its decorators to those of the next."""
        lines = _restore_indentation(text.split("\n"))
        for line in lines:
            if _IMPORT.match(line) and isinstance(tree := self.parse(line), ast.Module):
                self.collect(line, tree.body)
        headers = _outer_headers(lines)
        ends = [*(begin for begin, _ in headers), len(lines)][1:]
        for (begin, name), end in zip(headers, ends, strict=True):
            problem = self._salvage_method(lines[begin:end])
            if problem is not None and name in self.outline.names:
                self.broken.setdefault(name, problem)

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
            # Prose may begin at a line that is indented no deeper than the method.
            starts = (
                n
                for n in range(end - 1, 0, -1)
                if lines[n].strip() and len(lines[n]) - len(lines[n].lstrip()) <= indent
            )
            end = next(starts, 0)
        return problem or SyntaxProblem("too much code that does not parse", 1, 1)


def _restore_indentation(lines: list[str]) -> list[str]:
    """Indent the first header like the next one; a completion that was stripped has lost this indentation."""
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if lines[first] != lines[first].lstrip() or not _HEADER.match(lines[first]):
        return lines
    later = (n for n in range(first + 1, len(lines)) if _HEADER.match(lines[n]))
    end = next(later, first)
    indent = len(lines[end]) - len(lines[end].lstrip())
    body = [line for line in lines[first + 1 : end] if line.strip()]
    # A function within the first one would stand as deep as the body, or directly below the header.
    if not body or any(len(line) - len(line.lstrip()) <= indent for line in body):
        return lines
    return [*lines[:first], " " * indent + lines[first], *lines[first + 1 :]]


def _outer_headers(lines: list[str]) -> list[tuple[int, str]]:
    """Return the functions that stand in no other function: the line of header or decorators, and the name."""
    headers: list[tuple[int, str]] = []
    margin = -1
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent <= margin:
            margin = -1
        if margin < 0 and (match := _HEADER.match(line)):
            margin = indent
            begin = number
            while begin and lines[begin - 1].startswith(f"{match[1]}@"):
                begin -= 1
            headers.append((begin, match[2]))
    return headers


def _is_method(function: FunctionNode, outline: Outline) -> bool:
    if function.name in outline.taken:
        return True
    parameters = [*function.args.posonlyargs, *function.args.args]
    decorators = [d.id for d in function.decorator_list if isinstance(d, ast.Name)]
    decorated = not set(decorators).isdisjoint(METHOD_DECORATORS)
    return decorated or (bool(parameters) and parameters[0].arg in ("self", "cls"))


def _extending_decorator(piece: CodeSegment) -> str:
    """Return a key: of the definitions of one name with equal keys, the last one counts.

    It is empty for a definition that stands alone, and the decorator of one that builds on another of its name.
    """
    decorator = piece.code.partition("\n")[0]
    if decorator.startswith(("@overload", "@typing.overload")):
        return OVERLOAD
    if _REGISTER.match(decorator):
        return piece.code  # all variants of a dispatched method count, and all are called `_`
    return decorator if decorator.startswith(f"@{piece.name}.") else ""
