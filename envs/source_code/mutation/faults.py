"""Mutants of a program: single faults in its text, such as its author might have made by mistake.

Only the changed piece of the text is replaced, so comments and layout stay. Nothing is run: tests must show
whether a mutant behaves differently, and whether it ends.

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

from llm_decpomdp.envs.source_code.mutation.operators import MUTATION_OPERATORS
from llm_decpomdp.envs.source_code.parsing import LocatedSource, parse

KINDS = tuple(MUTATION_OPERATORS)


@dataclass(frozen=True)
class Mutation:
    """A piece of a text and its replacement."""

    key: str
    """Name of the mutation within its program: kind, line and column, and a number from the second on."""
    kind: str
    line: int
    """First line of the piece, counted from 1."""
    start: int
    """Offset of the piece, in bytes of UTF-8."""
    end: int
    text: str
    """Replacement of the piece."""


@dataclass(frozen=True)
class Mutant:
    """A program with one fault."""

    kind: str
    line: int
    source: str
    key: str


def mutations(source: str) -> tuple[Mutation, ...]:
    """Return all mutations of the functions and methods of `source`, in the order of the text.

    Some may give a text that does not parse or is equivalent; `mutants` leaves these out.

    Raises:
        SyntaxError: If `source` does not parse.
    """
    text = LocatedSource.from_text(source)
    locations = list(text.locations)
    edits = [
        (edit.start, edit.end, number, edit.text, kind)
        for number, (kind, operator) in enumerate(MUTATION_OPERATORS.items())
        for location in locations
        for edit in operator(text, location)
    ]
    counts: dict[str, int] = {}
    result = []
    for start, end, _, replacement, kind in sorted(set(edits)):
        line, column = text.position(start)
        key = f"{kind}@{line}:{column}"
        counts[key] = counts.get(key, 0) + 1
        if counts[key] > 1:
            key += f"~{counts[key]}"
        result.append(Mutation(key, kind, line, start, end, replacement))
    return tuple(result)


def mutants(source: str) -> tuple[Mutant, ...]:
    """Return the programs with one fault each, in the order of the text, all different and all well-formed.

    Raises:
        SyntaxError: If `source` does not parse.
    """
    meanings = {ast.dump(parse(source))}
    result = []
    for mutation in mutations(source):
        mutant = mutate(source, [mutation])
        meaning = _meaning(mutant)
        if meaning is not None and meaning not in meanings:
            meanings.add(meaning)
            result.append(Mutant(mutation.kind, mutation.line, mutant, mutation.key))
    return tuple(result)


def _meaning(source: str) -> str | None:
    """Return the program without its layout; None if it cannot be compiled."""
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
    """Check whether any two mutations touch."""
    ordered = sorted(faults, key=lambda fault: fault.start)
    return any(left.end >= right.start for left, right in pairwise(ordered))
