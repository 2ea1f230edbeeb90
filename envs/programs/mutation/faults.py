"""Small faults put into a program's text, as a slip of its author might have: what to change, and where.

Only the changed piece of the text is replaced, so comments and layout stay. Nothing is run: whether a mutant
behaves otherwise, and whether it ends, is for its tests to say.

| kind                | what is changed                                                             |
|---------------------|-----------------------------------------------------------------------------|
| `operator`          | `+` for `-`, `and` for `or`, a lost minus sign                              |
| `comparison`        | `<` for `<=`, `==` for `!=`, `in` for `not in`                              |
| `off_by_one`        | a bound, an index or a number beside `+`, `-` or a comparison, by one       |
| `wrong_variable`    | a variable read in place of the one that was bound before it                |
| `dropped_statement` | a statement, or an `if` without `else`, is gone                             |
| `swapped_arguments` | two neighbours among a call's positional arguments                          |
| `wrong_constant`    | any other number, text or truth value                                       |
| `wrong_default`     | the default of a parameter                                                  |
| `negated_condition` | a condition that is no single `==`, `in` or `is`, which `comparison` covers |
| `missing_return`    | the value is computed and not returned                                      |
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from llm_decpomdp.envs.programs.mutation.operators import SLIPS
from llm_decpomdp.envs.programs.parsing import parse
from llm_decpomdp.envs.programs.positions import Located

KINDS = tuple(SLIPS)


@dataclass(frozen=True)
class Mutation:
    """A piece of a text and what to put in its place."""

    key: str
    """Names the mutation within its program: kind, line and column, and a number from the second on."""
    kind: str
    line: int
    """Where the piece begins, counted from 1."""
    start: int
    """Where the piece begins, in bytes of UTF-8."""
    end: int
    text: str
    """What takes its place."""


@dataclass(frozen=True)
class Mutant:
    """A program with one fault."""

    kind: str
    line: int
    source: str
    key: str


def mutations(source: str) -> tuple[Mutation, ...]:
    """All faults that the functions and methods of `source` can be given, in the order of the text.

    Some may give a text that does not parse or is another way to write the same; `mutants` leaves them out.

    Raises:
        SyntaxError: If `source` does not parse.
    """
    text = Located.of(source)
    places = list(text.places)
    found = [
        (edit.start, edit.end, number, edit.text, kind)
        for number, (kind, slips) in enumerate(SLIPS.items())
        for place in places
        for edit in slips(text, place)
    ]
    seen: dict[str, int] = {}
    result = []
    for start, end, _, replacement, kind in sorted(set(found)):
        line, column = text.position(start)
        key = f"{kind}@{line}:{column}"
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 1:
            key += f"~{seen[key]}"
        result.append(Mutation(key, kind, line, start, end, replacement))
    return tuple(result)


def mutants(source: str) -> tuple[Mutant, ...]:
    """The programs with one fault each, in the order of the text, all different and all well-formed.

    Raises:
        SyntaxError: If `source` does not parse.
    """
    seen = {ast.dump(parse(source))}
    result = []
    for mutation in mutations(source):
        changed = mutate(source, [mutation])
        meaning = _meaning(changed)
        if meaning is not None and meaning not in seen:
            seen.add(meaning)
            result.append(Mutant(mutation.kind, mutation.line, changed, mutation.key))
    return tuple(result)


def _meaning(source: str) -> str | None:
    """The program without its layout; None if it cannot be compiled."""
    try:
        tree = parse(source)
        compile(tree, "<mutant>", "exec", dont_inherit=True)
    except SyntaxError:
        return None
    return ast.dump(tree)


def mutate(source: str, faults: Iterable[Mutation]) -> str:
    """Put several faults into a program at once.

    Raises:
        ValueError: If two of them change the same piece.
    """
    data = source.encode()
    ordered = sorted(faults, key=lambda fault: fault.start)
    if overlap(ordered):
        raise ValueError(f"{[fault.key for fault in ordered]} change the same piece of the text")
    for fault in reversed(ordered):
        data = data[: fault.start] + fault.text.encode() + data[fault.end :]
    return data.decode()


def overlap(faults: Sequence[Mutation]) -> bool:
    """Whether any two of some faults touch."""
    ordered = sorted(faults, key=lambda fault: fault.start)
    return any(one.end >= two.start for one, two in pairwise(ordered))
