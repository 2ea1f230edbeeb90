"""Merge the agents' methods into the skeleton of a class.

The text of each method is inserted as it was written, comments and docstrings included; only its indentation
changes. The rules, all deterministic:

- A method that its own agent wrote counts. If its agent wrote none, the first other agent's counts.
- Where the skeleton decorates a method and the agent's text has no decorator, the skeleton's stay.
- Methods that the skeleton does not have are added at the end of the class; of equal names the first agent's.
- Imports and functions beside the class come before it, imports from the future first; of equal names the first
  agent's.
- A method that nobody wrote stays as the skeleton has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from llm_decpomdp.envs.source_code.classes.completion import CodeSegment, inside_strings, shift
from llm_decpomdp.envs.source_code.classes.skeleton import Outline, Unit
from llm_decpomdp.envs.source_code.parsing import SyntaxProblem, parse_or_none

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
        """Texts of its own code, in order."""
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
    """Complete a class with the contributions of a team.

    Args:
        outline: The class.
        team: Contribution of each agent, in the order of the team.
    """
    definitions = {unit.name: _definitions(unit, team) for unit in outline.units}
    inserted: dict[int, list[tuple[str, Origin]]] = {}
    dropped: set[int] = set()
    for unit in outline.units:
        pieces = definitions[unit.name]
        if not pieces:
            continue
        for begin, end in unit.stubs:
            dropped.update(range(begin, end + 1))
        decorators = unit.decorators if len(pieces) == 1 else ()
        lines = [line for entry in pieces for line in _lines(*entry, outline.indent, decorators)]
        inserted[unit.stubs[0][0]] = lines
    result: list[tuple[str, Origin]] = []
    for number, line in enumerate(outline.code.split("\n"), 1):
        if number == outline.head:
            result += _around(team)
        result += inserted.get(number, [])
        if number not in dropped:
            result.append((line, None))
        if number == outline.end:
            result += _helpers(outline, team)
    return Merged(
        code="\n".join(line for line, _ in result),
        places=tuple(place for _, place in result),
        overlaps=tuple(unit.name for unit in outline.units if len(_writers(unit, team)) > 1),
    )


def _writers(unit: Unit, team: tuple[Contribution, ...]) -> list[str]:
    return [
        member.agent
        for member in team
        if any(
            piece.name == unit.name and not piece.stub for piece in (*member.own, *member.foreign)
        )
    ]


def _definitions(
    unit: Unit, team: tuple[Contribution, ...]
) -> list[tuple[Contribution, CodeSegment]]:
    """Return the definitions of a method that count."""
    writers = _writers(unit, team)
    for member in sorted(team, key=lambda member: unit.name not in member.assigned):
        if member.agent in writers:
            pieces = member.own if unit.name in member.assigned else member.foreign
            return [(member, p) for p in pieces if p.name == unit.name]
    return []


def _lines(
    member: Contribution, piece: CodeSegment, indent: str, decorators: tuple[str, ...] = ()
) -> Iterator[tuple[str, Origin]]:
    """Yield the lines of a method as they stand in the class, with their origins."""
    if piece.code.startswith(("def ", "async ")):
        yield from ((indent + line, None) for line in decorators)
    module = parse_or_none(piece.code)
    fixed = inside_strings(module) if module is not None else set()
    begin = member.first_line_number(piece.code) if piece in member.own else 0
    for number, line in enumerate(shift(piece.code.split("\n"), 1, fixed, "", indent).split("\n")):
        yield line, (member.agent, begin + number) if begin else None
    yield "", None


def _around(team: tuple[Contribution, ...]) -> Iterator[tuple[str, Origin]]:
    """Yield imports and functions beside the class."""
    names: set[str] = set()
    imports = [
        (line, member.agent, n) for member in team for n, line in enumerate(member.imports, 1)
    ]
    for line, agent, number in sorted(imports, key=lambda item: not item[0].startswith(FUTURE)):
        if line not in names:
            yield line, (agent, number)
        names.add(line)
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
            if authors.setdefault(piece.name, member.agent) == member.agent:
                yield "", None
                yield from _lines(member, piece, outline.indent)
