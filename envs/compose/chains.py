"""Steps, chains of steps, and the chains that make a task.

A step is a function of one value, described in words and in code by one line of `FORMS`. A chain makes a task if
the tests detect the work of every step:

* For each argument of the tests, the result changes without any stretch of steps whose types allow leaving it out,
  and no stretch alone gives the result. So no part of a team is idle.
* At most `MAX_EQUAL` arguments have the same result. So no constant answer passes many tests.
* No step with another constant gives the same results. So no wrong constant passes all tests.

A pair of kinds of steps is *held out* if no training task has these kinds next to each other, in either order.
Every test task has such a pair, and each kind of step is in both splits: the test split has new compositions of
known parts.
"""

from __future__ import annotations

import itertools
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

NUMBER, LIST, TEXT, PAIR = "number", "list", "text", "pair"

IN_WORDS = {
    NUMBER: "an integer",
    LIST: "a list of integers",
    TEXT: "a string",
    PAIR: "two integers, red and blue",
}
"""Types of values in prompts."""

TYPES = {"all": (NUMBER, LIST, TEXT), "numbers": (NUMBER,), "lists": (LIST,), "text": (TEXT,)}
"""Types of the values of a chain, by the option `types`."""

CONVENTIONS = ("none", "name", "encoding")

MAX_EQUAL = 2
"""Maximum number of arguments, of six, with the same result."""

# Bounds of every value in a chain: tests stay readable, and repeated steps cannot exhaust the memory.
MAX_NUMBER = 10**6
MAX_LENGTH = 80

INPUTS: dict[str, tuple[Any, ...]] = {
    NUMBER: (14, 27, 53, 98, 121, 206),
    LIST: (
        [3, 8, 1, 8, 12],
        [15, 2, 9, 2, 4, 7],
        [6, 11, 5, 0, 14, 5, 10],
        [-4, 13, 7, 20, -4, 21],
        [10, 1, 16, 3, 1, 18, 2, 9],
        [5, 12, -7, 21, 6, 5, 30, 17],
    ),
    TEXT: (
        "rose Garden",
        "ocean Wave",
        "tomato Red",
        "an old Apple tree",
        "bread Roll",
        "Lemonade stall",
    ),
}
"""Arguments of the tests by type. They are the same for every task, so they reveal nothing about it. Nearly every
step changes each of them."""

FORMS = """
list   list   add       | add {n} to each number                      | [v + {n} for v in {x}]         | 2-9
list   list   multiply  | multiply each number by {n}                 | [v * {n} for v in {x}]         | 2-9
list   list   modulo    | replace each number by itself modulo {n}    | [v % {n} for v in {x}]         | 2-9
list   list   subtract  | subtract each number from {n}               | [{n} - v for v in {x}]         | 2-9
list   list   above     | keep only the numbers above {n}             | [v for v in {x} if v > {n}]    | 2-9
list   list   append    | append the number {n} at the end            | {x} + [{n}]                    | 2-9
list   list   prepend   | insert the number {n} at the start          | [{n}] + {x}                    | 2-9
list   list   drop      | drop the first {n} elements                 | {x}[{n}:]                      | 1-3
list   list   take      | keep only the first {n} elements            | {x}[:{n}]                      | 2-4
list   list   repeat    | repeat the whole list {n} times             | {x} * {n}                      | 2-4
list   list   reverse   | reverse the list                            | {x}[::-1]                      |
list   list   sort      | sort in ascending order                     | sorted({x})                    |
list   list   sort_down | sort in descending order                    | sorted({x}, reverse=True)      |
list   list   square    | square each number                          | [v * v for v in {x}]           |
list   list   negate    | negate each number                          | [-v for v in {x}]              |
list   list   evens     | keep only the even numbers                  | [v for v in {x} if v % 2 == 0] |
list   list   odds      | keep only the odd numbers                   | [v for v in {x} if v % 2 == 1] |
list   list   distinct  | remove duplicates, sort in ascending order  | sorted(set({x}))               |
list   number sum       | take the sum                                | sum({x})                       |
list   number largest   | take the largest number                     | max({x})                       |
list   number smallest  | take the smallest number                    | min({x})                       |
list   number length    | take the number of elements                 | len({x})                       |
list   text   join      | join the numbers by {n}                     | {n}.join(map(str, {x}))        | "-+/:"
number number plus      | add {n}                                     | {x} + {n}                      | 2-9
number number minus     | subtract {n}                                | {x} - {n}                      | 2-9
number number from      | subtract it from {n}                        | {n} - {x}                      | 2-9
number number times     | multiply by {n}                             | {x} * {n}                      | 2-9
number number divide    | divide by {n}, rounding down                | {x} // {n}                     | 2-9
number number rest      | take the remainder modulo {n}               | {x} % {n}                      | 6-9
number number power     | square it                                   | {x} ** 2                       |
number number opposite  | negate it                                   | -{x}                           |
number list   copies    | make a list of {n} copies of it             | [{x}] * {n}                    | 2-4
number text   decimal   | write it as a decimal string                | str({x})                       |
number text   binary    | write it in binary, as `bin` does           | bin({x})                       |
text   text   end       | append the letter {n} at the end            | {x} + {n}                      | "bdgkmuxy"
text   text   begin     | insert the letter {n} at the start          | {n} + {x}                      | "bdgkmuxy"
text   text   delete    | delete every letter {n}                     | {x}.replace({n}, '')           | "aeo"
text   text   dots      | replace every letter {n} by a dot           | {x}.replace({n}, '.')          | "aeo"
text   text   behead    | drop the first {n} characters               | {x}[{n}:]                      | 1-5
text   text   head      | keep only the first {n} characters          | {x}[:{n}]                      | 3-7
text   text   echo      | repeat it {n} times                         | {x} * {n}                      | 2-4
text   text   spread    | put {n} between its characters              | {n}.join({x})                  | "-+/:"
text   text   backwards | reverse it                                  | {x}[::-1]                      |
text   text   upper     | change it to upper case                     | {x}.upper()                    |
text   text   lower     | change it to lower case                     | {x}.lower()                    |
text   text   swap      | swap upper and lower case                   | {x}.swapcase()                 |
text   text   alternate | keep every second character, from the first | {x}[::2]                       |
text   text   order     | sort its characters                         | ''.join(sorted({x}))           |
text   number size      | take its length                             | len({x})                       |
text   list   codes     | make a list of its character codes          | [ord(c) for c in {x}]          |
"""
"""One kind a line: types of argument and result, name, words, code, and the possible values of the constant
`n`."""

MEASURES = {
    "largest": ("the largest number", "max(x)"),
    "smallest": ("the smallest number", "min(x)"),
    "sum": ("the sum", "sum(x)"),
    "length": ("the number of elements", "len(x)"),
    "first": ("the first element", "x[0]"),
    "last": ("the last element", "x[-1]"),
    "second": ("the second element", "x[1]"),
    "evens": ("the number of even numbers", "sum(v % 2 == 0 for v in x)"),
}
"""Numbers that describe a list `x`, in words and in code. Two of them make a pair."""


@dataclass(frozen=True)
class Step:
    """A function of one value."""

    kind: str
    """Name of the step without its constant."""
    source: str
    """Type of the argument."""
    target: str
    """Type of the result."""
    words: str
    """Description, with `{n}` for the constant."""
    code: str
    """An expression of the argument `{x}`, which occurs once, and of `{n}`; for pairs of `red` and `blue`."""
    constant: str | None = None
    """The constant as a Python literal; `None` without one."""

    @property
    def name(self) -> str:
        """Name, with the constant."""
        return self.kind if self.constant is None else f"{self.kind} {self.constant}"

    def statement(self) -> str:
        """Return the words."""
        return self.words.replace("{n}", str(self.constant))

    def expression(self, argument: str) -> str:
        """Return the code, with an expression for the argument."""
        return self.code.replace("{n}", str(self.constant)).replace("{x}", argument)

    def apply(self, value: Any) -> Any:
        """Return the result for an argument."""
        return _function(self)(value)


@cache
def _function(step: Step) -> Callable[[Any], Any]:
    body = step.expression("x")
    if step.source == PAIR:
        body = f"(lambda red, blue: {body})(*x)"
    # Only the code of `FORMS` and `MEASURES`, never that of an agent.
    function: Callable[[Any], Any] = eval(f"lambda x: {body}", {})
    return function


@lru_cache(maxsize=1)
def steps() -> tuple[Step, ...]:
    """Return all steps between numbers, lists and texts."""
    result = []
    for line in FORMS.strip().splitlines():
        head, words, code, field = (part.strip() for part in line.split("|"))
        source, target, kind = head.split()
        constants: list[str | None] = [None]
        if field.startswith('"'):
            constants = [repr(letter) for letter in field.strip('"')]
        elif field:
            least, most = map(int, field.split("-"))
            constants = [str(number) for number in range(least, most + 1)]
        result += [Step(kind, source, target, words, code, constant) for constant in constants]
    return tuple(result)


@lru_cache(maxsize=1)
def pair_steps() -> tuple[Step, ...]:
    """Return the steps from a list to a pair, and from a pair to a number."""
    makers = [
        Step(f"{red}_{blue}", LIST, PAIR, f"red is {words}, blue is {second}", f"({code}, {more})")
        for red, blue in itertools.permutations(MEASURES, 2)
        for (words, code), (second, more) in [(MEASURES[red], MEASURES[blue])]
    ]
    formulas = [
        f"{a} * red {sign} {b} * blue"
        for sign in "+-"
        for a in range(1, 10)
        for b in range(1, 10)
        if a != b
    ]
    return (*makers, *(Step(text, PAIR, NUMBER, f"compute {text}", text) for text in formulas))


Chain = tuple[Step, ...]


class Chains:
    """All chains of a length whose types fit, each equally likely to be drawn.

    Args:
        length: Number of steps.
        types: A key of `TYPES`.
        convention: One of `CONVENTIONS`. With `encoding` the first step makes a pair, and the second takes it.
    """

    def __init__(self, length: int, types: str, convention: str) -> None:
        self.length = length
        self.sources = (LIST,) if convention == "encoding" else TYPES[types]
        self.menu: Sequence[Step] = pair_steps()
        if convention != "encoding":
            self.menu = [
                s for s in steps() if s.source in self.sources and s.target in self.sources
            ]
        self._totals: dict[tuple[str, int], list[int]] = {}

    def draw(self, rng: np.random.Generator) -> Chain:
        """Draw a chain from the uniform distribution."""
        # Uniform over chains, not over steps: each step is drawn in proportion to the chains that continue it.
        counts = list(itertools.accumulate(self._count(kind, self.length) for kind in self.sources))
        kind = self.sources[bisect(counts, int(rng.integers(counts[-1])))]
        chain: list[Step] = []
        for rest in reversed(range(self.length)):
            totals = self._cumulative_counts(kind, rest)
            chain.append(self.by_source[kind][bisect(totals, int(rng.integers(totals[-1])))])
            kind = chain[-1].target
        return tuple(chain)

    @cached_property
    def by_source(self) -> dict[str, list[Step]]:
        """The steps by the type of their argument."""
        kinds = (NUMBER, LIST, TEXT, PAIR)
        return {kind: [step for step in self.menu if step.source == kind] for kind in kinds}

    def _count(self, kind: str, length: int) -> int:
        totals = self._cumulative_counts(kind, length - 1) if length else [1]
        return totals[-1] if totals else 0

    def _cumulative_counts(self, kind: str, rest: int) -> list[int]:
        """Count for each step from a type the chains with `rest` later steps that begin with it or one before."""
        if (kind, rest) not in self._totals:
            counts = (self._count(step.target, rest) for step in self.by_source[kind])
            self._totals[kind, rest] = list(itertools.accumulate(counts))
        return self._totals[kind, rest]

    def all(self) -> Iterator[Chain]:
        """Yield every chain that makes a task. Only short lengths are feasible."""
        for chain in itertools.product(self.menu, repeat=self.length):
            pairs = itertools.pairwise(chain)
            fits = all(first.target == second.source for first, second in pairs)
            if fits and chain[0].source in self.sources and is_task(chain):
                yield chain


@lru_cache(maxsize=1)
def _kind_numbers() -> dict[str, int]:
    kinds = dict.fromkeys(step.kind for step in (*steps(), *pair_steps()))
    return {kind: number for number, kind in enumerate(kinds)}


def is_held_out(first: Step, second: Step) -> bool:
    """Check whether only test tasks have these two kinds of steps next to each other: a fifth of all pairs."""
    numbers = _kind_numbers()
    # The sum is symmetric, so both orders of a pair are held out.
    return (numbers[first.kind] + numbers[second.kind]) % 5 == 0


def find_split(chain: Chain) -> str:
    """Return the split of a chain: `train` or `test`."""
    tested = any(itertools.starmap(is_held_out, itertools.pairwise(chain)))
    return "test" if tested else "train"


def run(chain: Sequence[Step], value: Any) -> Any:
    """Return the result of steps."""
    for step in chain:
        value = step.apply(value)
    return value


def is_task(chain: Chain) -> bool:
    """Check that tests detect the work of every step, and that values stay small."""
    # Two steps of one kind often equal a single one: plus 3 and plus 4 are plus 7.
    if any(first.kind == second.kind for first, second in itertools.pairwise(chain)):
        return False
    arguments = INPUTS[chain[0].source]
    results = []
    for argument in arguments:
        values = trace(chain, argument)
        # Fewer values than steps: one was too large, or a step failed.
        if len(values) <= len(chain) or _has_idle_steps(chain, values):
            return False
        results.append(values[-1])
    # By text, because lists are not hashable.
    if max(Counter(map(repr, results)).values()) > MAX_EQUAL:
        return False
    return not any(
        all(_try_run(variant, a) == result for a, result in zip(arguments, results, strict=True))
        for variant in _other_constants(chain)
    )


def _other_constants(chain: Chain) -> Iterator[Chain]:
    for place, step in enumerate(chain):
        for variant in _steps_by_kind()[step.kind, step.source]:
            if variant != step:
                yield (*chain[:place], variant, *chain[place + 1 :])


@lru_cache(maxsize=1)
def _steps_by_kind() -> dict[tuple[str, str], list[Step]]:
    kinds: dict[tuple[str, str], list[Step]] = {}
    for step in (*steps(), *pair_steps()):
        kinds.setdefault((step.kind, step.source), []).append(step)
    return kinds


def trace(chain: Sequence[Step], argument: Any) -> list[Any]:
    """Return the argument and each step's result; the list ends early if a value is too large or a step fails."""
    values = [argument]
    for step in chain:
        try:
            value = step.apply(values[-1])
        except (ValueError, IndexError):  # such as the largest number of an empty list
            return values
        parts = [value] if isinstance(value, int) else value
        numbers = () if isinstance(value, str) else parts
        if len(parts) > MAX_LENGTH or any(abs(number) > MAX_NUMBER for number in numbers):
            return values
        values.append(value)
    return values


def _has_idle_steps(chain: Chain, values: Sequence[Any]) -> bool:
    """Check whether the result is the same without some stretch of steps, or with nothing but a stretch."""
    types = [chain[0].source, *(step.target for step in chain)]
    return any(
        (types[i] == types[j] and _try_run(chain[j:], values[i]) == values[-1])
        or (
            types[i] == types[0]
            and j - i < len(chain)
            and _try_run(chain[i:j], values[0]) == values[-1]
        )
        for i, j in itertools.combinations(range(len(types)), 2)
    )


def _try_run(part: Chain, value: Any) -> Any:
    try:
        return run(part, value)
    except (ValueError, IndexError):
        return None
