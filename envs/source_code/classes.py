"""Skeletons of classes with methods to write, and the merging of the agents' methods into them.

The text of each method is inserted as it was written, comments and docstrings included; only its indentation
changes. The rules, all deterministic:

- A method that its own agent wrote counts. If its agent wrote none, the first other agent's counts.
- Where the skeleton decorates a method and the agent's text has no decorator, the skeleton's stay.
- Methods that the skeleton does not have are added at the end of the class; of equal names the first agent's.
- Imports and functions outside the class come before it, imports from the future first; of equal names the first
  agent's.
- A method that no agent wrote stays as the skeleton has it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from llm_decpomdp.envs.sandbox import Execution, Outcome
from llm_decpomdp.envs.source_code.parsing import SyntaxProblem, header, is_stub, parse_or_none
from llm_decpomdp.envs.source_code.statements import Statement, first_line

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

# Some skeletons of ClassEval have quotes of a word processor.
CURLY_QUOTES = str.maketrans(dict.fromkeys("\u201c\u201d\u201e\u201f", '"'))

_DEFINITION = re.compile(r"[ \t]*(@|(async[ \t]+)?def\b)")


@dataclass(frozen=True)
class Unit:
    """All definitions of one name in a class: a method, or a property with its setter."""

    name: str
    parameters: int
    """Parameters of its first stub, `self` included."""
    stubs: tuple[tuple[int, int], ...]
    """First line, decorators included, and last line of each definition that is still to be written."""
    decorators: tuple[str, ...]
    """Decorators of its stub, where it has only one, as lines without indentation."""
    header: str
    """The line with `def` of its first stub, without indentation."""


@dataclass(frozen=True)
class Outline:
    """A class to complete. Lines count from 1."""

    code: str
    class_name: str
    units: tuple[Unit, ...]
    """Units to write, in the order of the code."""
    indent: str
    """Indentation of the class's body."""
    head: int
    """Line before which imports may be added."""
    begin: int
    """First line of the class, decorators included."""
    end: int
    """Last line of the class."""
    taken: frozenset[str]
    """Names that the skeleton itself defines, in the class and around it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the units."""
        return tuple(unit.name for unit in self.units)


def outline(code: str, class_name: str) -> Outline:
    """Outline a skeleton.

    A definition is to be written if its body is empty but for a docstring, `pass`, `...` or
    `raise NotImplementedError`. A constructor that is just `pass` is complete.

    Raises:
        ValueError: If the code does not parse or has no such class with something to write.
    """
    module = parse_or_none(code)
    node = find_class(module, class_name) if module is not None else None
    if module is None or node is None:
        raise ValueError(f"no class {class_name!r} in code that parses")
    lines = code.split("\n")
    groups: dict[str, list[FunctionNode]] = {}
    for statement in node.body:
        if isinstance(statement, FunctionNode):
            groups.setdefault(statement.name, []).append(statement)
    units = tuple(unit for group in groups.values() if (unit := _unit(group, lines)) is not None)
    if not units:
        raise ValueError(f"class {class_name!r} has no method to write")
    first = lines[units[0].stubs[0][0] - 1]
    bound_names: set[str] = set()
    for statement in (*module.body, *node.body):
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            bound_names |= Statement(statement).bound
    return Outline(
        code=code,
        class_name=class_name,
        units=units,
        indent=first[: len(first) - len(first.lstrip())],
        head=_head(module),
        begin=first_line(node),
        end=node.end_lineno or len(lines),
        taken=frozenset(bound_names),
    )


def find_class(module: ast.Module, name: str) -> ast.ClassDef | None:
    """Return the last top-level class of that name; None where there is none."""
    classes = [s for s in module.body if isinstance(s, ast.ClassDef) and s.name == name]
    return classes[-1] if classes else None


def is_unwritten(function: FunctionNode) -> bool:
    """Check whether a function is still to be written; a constructor that is just `pass` is complete."""
    plain = len(function.body) == 1 and isinstance(function.body[0], ast.Pass)
    return is_stub(function) and not (plain and function.name == "__init__")


def _unit(group: list[FunctionNode], lines: list[str]) -> Unit | None:
    stubs = [function for function in group if is_unwritten(function)]
    if not stubs:
        return None
    spans = tuple((first_line(stub), stub.end_lineno or stub.lineno) for stub in stubs)
    decorators = [line.strip() for line in lines[spans[0][0] - 1 : stubs[0].lineno - 1]]
    args = stubs[0].args
    variadic = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return Unit(
        name=stubs[0].name,
        parameters=len([*args.posonlyargs, *args.args, *args.kwonlyargs, *variadic]),
        stubs=spans,
        decorators=tuple(decorators) if len(group) == 1 else (),
        header=header(stubs[0]),
    )


def _head(module: ast.Module) -> int:
    """Return the first line after a docstring and imports from the future."""
    for statement in module.body:
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        value = statement.value if isinstance(statement, ast.Expr) else None
        text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        if not future and not text:
            return (
                first_line(statement) if isinstance(statement, ast.ClassDef) else statement.lineno
            )
    return 1


# Skeletons of the real data that do not parse


def repair_skeleton(code: str, class_name: str) -> str:
    """Repair a skeleton with curly quotes, in a string, or with a docstring left open.

    Returns:
        A skeleton that parses, or the code itself if it cannot be repaired.
    """
    module = parse_or_none(code)
    if module is None:
        code = code.translate(CURLY_QUOTES)
        module = parse_or_none(code)
    if module is None:
        code = _close_docstrings(code)
        module = parse_or_none(code)
    if module is not None and find_class(module, class_name) is None and len(module.body) == 1:
        text = ast.get_docstring(module, clean=False)
        if text is not None:
            return text.strip("\n") + "\n"
    return code


def _close_docstrings(code: str) -> str:
    chunks: list[list[str]] = [[]]
    for line in code.split("\n"):
        decorated = bool(chunks[-1]) and chunks[-1][-1].lstrip().startswith("@")
        if _DEFINITION.match(line) and not decorated:
            chunks.append([])
        chunks[-1].append(line)
    parts = ["\n".join(chunk) for chunk in chunks]
    for number, chunk in enumerate(chunks[1:], 1):
        if parse_or_none(f"class _:\n{parts[number]}") is None:
            indent = chunk[0][: len(chunk[0]) - len(chunk[0].lstrip())]
            parts[number] = f'{parts[number].rstrip()}\n{indent}    """\n'
    return "\n".join(parts)


# The text of definitions


def segment(source: str, node: ast.stmt) -> str:
    """Return the text of a statement, decorators and comments included, without indentation."""
    begin, end = first_line(node), node.end_lineno or node.lineno
    lines = source.split("\n")[begin - 1 : end]
    before = lines[0].encode()[: node.col_offset] if begin == node.lineno else b""
    after = lines[-1].encode()[node.end_col_offset :].strip()
    if before.strip() or (after and not after.startswith(b"#")):
        try:
            return ast.unparse(node)  # others share its lines
        except RecursionError:  # a chain of hundreds of attributes
            return ast.get_source_segment(source, node) or ""
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

    The first line has the number `begin`, and lines with `fixed` numbers are not changed. A line with less than
    the `old` indentation loses all of it, and blank lines get no `new` one.
    """
    shifted = []
    for number, line in enumerate(lines, begin):
        if number not in fixed:
            rest = line.removeprefix(old) if line.startswith(old) else line.lstrip()
            line = new + rest if rest.strip() else ""
        shifted.append(line)
    return "\n".join(shifted)


# Merging


@dataclass(frozen=True)
class CodeSegment:
    """A definition or an import, without indentation."""

    name: str
    code: str
    stub: bool = False
    """True if it is still to be written."""
    weak: bool = False
    """True if any other definition comes before it: its body is empty, or the prompt shows it."""


FUTURE = "from __future__ import"
"""Beginning of imports that must precede all other code."""

Origin = tuple[str, int] | None
"""An agent, and a line in its code; None for the skeleton."""


@dataclass(frozen=True)
class Contribution:
    """Contribution of one agent to a class."""

    agent: str
    assigned: tuple[str, ...]
    imports: tuple[str, ...]
    functions: tuple[CodeSegment, ...]
    own: tuple[CodeSegment, ...]
    """Methods assigned to it, and helpers that it added."""
    foreign: tuple[CodeSegment, ...]
    """Methods assigned to others."""
    broken: Mapping[str, SyntaxProblem] = field(default_factory=dict)
    """Methods assigned to it that do not parse."""
    fallbacks: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Report of the reading: numbers by names of `completion.FALLBACKS`."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Texts of the agent's own code, in order."""
        imports = ("\n".join(self.imports),) if self.imports else ()
        return (*imports, *(piece.code for piece in (*self.functions, *self.own)))

    @property
    def code(self) -> str:
        """Own code as one text."""
        return "\n\n".join(self.parts)

    @property
    def written_methods(self) -> tuple[str, ...]:
        """Methods assigned to it that it wrote."""
        names = {piece.name for piece in self.own if not piece.stub}
        return tuple(name for name in self.assigned if name in names)

    def first_line_number(self, part: str) -> int:
        """Return the line on which a part of `code` begins, from 1."""
        before = self.parts[: self.parts.index(part)]
        return 1 + sum(text.count("\n") + 2 for text in before)


@dataclass(frozen=True)
class Merged:
    """A merged class."""

    code: str
    places: tuple[Origin, ...]
    """Origin of each line of `code`."""
    overlaps: tuple[str, ...]
    """Methods that several agents wrote."""

    def place(self, line: int) -> Origin:
        """Return the origin of a line, counted from 1."""
        return self.places[line - 1] if 0 < line <= len(self.places) else None


def merge(outline: Outline, team: tuple[Contribution, ...]) -> Merged:
    """Complete a class with the contributions of a team."""
    inserted: dict[int, list[tuple[str, Origin]]] = {}
    dropped: set[int] = set()
    overlaps = []
    for unit in outline.units:
        writers = _writers(unit, team)
        if len(writers) > 1:
            overlaps.append(unit.name)
        if not writers:
            continue
        for begin, end in unit.stubs:
            dropped.update(range(begin, end + 1))
        # The method's own agent comes first, then the others in the order of the team.
        member = min(writers, key=lambda member: unit.name not in member.assigned)
        pieces = member.own if unit.name in member.assigned else member.foreign
        pieces = tuple(piece for piece in pieces if piece.name == unit.name)
        decorators = unit.decorators if len(pieces) == 1 else ()
        inserted[unit.stubs[0][0]] = [
            line for piece in pieces for line in _lines(member, piece, outline.indent, decorators)
        ]
    result: list[tuple[str, Origin]] = []
    for number, line in enumerate(outline.code.split("\n"), 1):
        if number == outline.head:
            result += _imports(team)
        if number == outline.begin:
            result += _functions(team)
        result += inserted.get(number, [])
        if number not in dropped:
            result.append((line, None))
        if number == outline.end:
            result += _helpers(outline, team)
    return Merged(
        code="\n".join(line for line, _ in result),
        places=tuple(place for _, place in result),
        overlaps=tuple(overlaps),
    )


def _writers(unit: Unit, team: tuple[Contribution, ...]) -> list[Contribution]:
    return [
        member
        for member in team
        if any(p.name == unit.name and not p.stub for p in (*member.own, *member.foreign))
    ]


def _lines(
    member: Contribution, piece: CodeSegment, indent: str, decorators: tuple[str, ...] = ()
) -> Iterator[tuple[str, Origin]]:
    """Yield the lines of a method as they stand in the class, with their origins."""
    if piece.code.startswith(("def ", "async ")):
        yield from ((indent + line, None) for line in decorators)
    module = parse_or_none(piece.code)
    # Lines inside a literal belong to its value and keep their indentation.
    fixed = inside_strings(module) if module is not None else set()
    begin = member.first_line_number(piece.code) if piece in member.own else 0
    for number, line in enumerate(shift(piece.code.split("\n"), 1, fixed, "", indent).split("\n")):
        yield line, (member.agent, begin + number) if begin else None
    yield "", None


def _imports(team: tuple[Contribution, ...]) -> Iterator[tuple[str, Origin]]:
    """Yield the imports, those from the future first."""
    names: set[str] = set()
    imports = [
        (line, member.agent, n) for member in team for n, line in enumerate(member.imports, 1)
    ]
    for line, agent, number in sorted(imports, key=lambda item: not item[0].startswith(FUTURE)):
        if line not in names:
            yield line, (agent, number)
        names.add(line)


def _functions(team: tuple[Contribution, ...]) -> Iterator[tuple[str, Origin]]:
    """Yield functions and statements outside the class, which may use the imports of the skeleton."""
    names: set[str] = set()
    for member in team:
        for piece in member.functions:
            if piece.name not in names:
                begin = member.first_line_number(piece.code)
                for number, line in enumerate(piece.code.split("\n")):
                    yield line, (member.agent, begin + number)
                yield "", None
            names.add(piece.name)


def _helpers(outline: Outline, team: tuple[Contribution, ...]) -> Iterator[tuple[str, Origin]]:
    """Yield methods that the skeleton does not have."""
    authors: dict[str, str] = {}
    for member in team:
        for piece in member.own:
            if piece.name in outline.names:
                continue
            # Of equal names the first agent's counts, with all its parts, such as a setter.
            if authors.setdefault(piece.name, member.agent) == member.agent:
                yield "", None
                yield from _lines(member, piece, outline.indent)


def attribute_lines(execution: Execution, merged: Merged, origin: str) -> Execution:
    """Return the execution of a merged class, of this origin, with the agents whose lines raised."""

    def attribute_line(test: Outcome) -> Outcome:
        place = merged.place(test.line) if test.origin == origin else None
        agent, line = place or ("", 0)
        return replace(test, origin=agent, line=line)

    error = execution.error and attribute_line(execution.error)
    return replace(execution, tests=tuple(map(attribute_line, execution.tests)), error=error)
