"""Puts the agents' methods into the skeleton of a class.

The text of each method is spliced in as it was written, comments and docstrings included; only its indentation
changes. The rules, all of them without chance:

- A method that its own agent wrote counts. If its agent wrote none, the first other agent's counts.
- Where the skeleton decorates a method and the agent's text has no decorator, the skeleton's stay.
- Methods that the skeleton does not know are added at the end of the class; of equal names the first agent's.
- Imports and functions beside the class come before it, imports from the future first; of equal names the first
  agent's.
- A method that nobody wrote stays as the skeleton has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from llm_decpomdp.envs.programs.classes.completion import Piece, inside_strings, shift
from llm_decpomdp.envs.programs.classes.skeleton import Outline, Unit
from llm_decpomdp.envs.programs.completion import parsed
from llm_decpomdp.envs.programs.parsing import SyntaxProblem

FUTURE = "from __future__ import"
"""How imports begin that must stand before all other code."""

Place = tuple[str, int] | None
"""An agent, and a line in its own code."""


@dataclass(frozen=True)
class Contribution:
    """What one agent adds to a class."""

    agent: str
    assigned: tuple[str, ...]
    imports: tuple[str, ...]
    functions: tuple[Piece, ...]
    own: tuple[Piece, ...]
    """Methods that it was asked for, and helpers of its own."""
    foreign: tuple[Piece, ...]
    """Methods that others were asked for."""
    broken: Mapping[str, SyntaxProblem] = field(default_factory=dict)
    """Methods that it was asked for and that do not parse."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The texts of its own code, in order."""
        imports = ("\n".join(self.imports),) if self.imports else ()
        return (*imports, *(piece.code for piece in (*self.functions, *self.own)))

    @property
    def code(self) -> str:
        """Its own code as one text."""
        return "\n\n".join(self.parts)

    @property
    def written(self) -> tuple[str, ...]:
        """The methods that it was asked for and wrote."""
        found = {piece.name for piece in self.own if not piece.stub}
        return tuple(name for name in self.assigned if name in found)

    def line_of(self, part: str) -> int:
        """The line on which a part of `code` begins, from 1."""
        before = self.parts[: self.parts.index(part)]
        return 1 + sum(text.count("\n") + 2 for text in before)


@dataclass(frozen=True)
class Merged:
    """A class that was put together."""

    code: str
    places: tuple[Place, ...]
    """For each line of `code` whose it is."""
    overlaps: tuple[str, ...]
    """The methods that several agents wrote."""

    def place(self, line: int) -> Place:
        """Whose a line is, counted from 1."""
        return self.places[line - 1] if 0 < line <= len(self.places) else None


def merge(outline: Outline, team: tuple[Contribution, ...]) -> Merged:
    """Complete a class with what a team wrote.

    Args:
        outline: The class.
        team: What each agent adds, in the order of the team.
    """
    chosen = {unit.name: _chosen(unit, team) for unit in outline.units}
    spliced: dict[int, list[tuple[str, Place]]] = {}
    dropped: set[int] = set()
    for unit in outline.units:
        pieces = chosen[unit.name]
        if not pieces:
            continue
        for begin, end in unit.stubs:
            dropped.update(range(begin, end + 1))
        kept = unit.decorators if len(pieces) == 1 else ()
        lines = [line for entry in pieces for line in _lines(*entry, outline.indent, kept)]
        spliced[unit.stubs[0][0]] = lines
    result: list[tuple[str, Place]] = []
    for number, line in enumerate(outline.code.split("\n"), 1):
        if number == outline.head:
            result += _around(team)
        result += spliced.get(number, [])
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
        one.agent
        for one in team
        if any(piece.name == unit.name and not piece.stub for piece in (*one.own, *one.foreign))
    ]


def _chosen(unit: Unit, team: tuple[Contribution, ...]) -> list[tuple[Contribution, Piece]]:
    """The definitions of a method that count."""
    writers = _writers(unit, team)
    for one in sorted(team, key=lambda one: unit.name not in one.assigned):
        if one.agent in writers:
            pieces = one.own if unit.name in one.assigned else one.foreign
            return [(one, p) for p in pieces if p.name == unit.name]
    return []


def _lines(
    one: Contribution, piece: Piece, indent: str, decorators: tuple[str, ...] = ()
) -> Iterator[tuple[str, Place]]:
    """The lines of a method as they stand in the class, with where they come from."""
    if not piece.code.startswith("@"):
        yield from ((indent + line, None) for line in decorators)
    module = parsed(piece.code)
    fixed = inside_strings(module) if module is not None else set()
    begin = one.line_of(piece.code) if piece in one.own else 0
    for number, line in enumerate(shift(piece.code.split("\n"), 1, fixed, "", indent).split("\n")):
        yield line, (one.agent, begin + number) if begin else None
    yield "", None


def _around(team: tuple[Contribution, ...]) -> Iterator[tuple[str, Place]]:
    """Imports and functions beside the class."""
    seen: set[str] = set()
    imports = [(line, one.agent, n) for one in team for n, line in enumerate(one.imports, 1)]
    for line, agent, number in sorted(imports, key=lambda found: not found[0].startswith(FUTURE)):
        if line not in seen:
            yield line, (agent, number)
        seen.add(line)
    for one in team:
        for piece in one.functions:
            if piece.name not in seen:
                begin = one.line_of(piece.code)
                for number, line in enumerate(piece.code.split("\n")):
                    yield line, (one.agent, begin + number)
                yield "", None
            seen.add(piece.name)


def _helpers(outline: Outline, team: tuple[Contribution, ...]) -> Iterator[tuple[str, Place]]:
    """Methods that the skeleton does not know."""
    seen: dict[str, str] = {}
    for one in team:
        for piece in one.own:
            if piece.name in outline.names:
                continue
            if seen.setdefault(piece.name, one.agent) == one.agent:
                yield "", None
                yield from _lines(one, piece, outline.indent)
