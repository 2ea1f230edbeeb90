"""The steps that tasks are composed of: functions of one value, a line of Python each.

A step is stated in words and in code by one line of `FORMS`, with a constant perhaps; nothing else says what it
does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import permutations
from typing import Any

NUMBER, LIST, TEXT, PAIR = "number", "list", "text", "pair"

IN_WORDS = {
    NUMBER: "an integer",
    LIST: "a list of integers",
    TEXT: "a string",
    PAIR: "two integers, red and blue",
}
"""Types of values."""

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
"""The arguments of the tests, by the type of the task's first step: the same for every task, so that they tell
nothing about it. Nearly every step changes each of them."""

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
"""A line for each kind: types of argument and result, name, words, code, and the constants that `n` can be."""

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
"""Numbers about a list, of which a step makes a pair: words and code."""


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
    """An expression of the argument `{x}`, which occurs once, and of `{n}`; of a pair, red and blue."""
    constant: str | None = None
    """The constant as Python's literal; `None` without one."""

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
    function: Callable[[Any], Any] = eval(f"lambda x: {body}", {})
    return function


@lru_cache(maxsize=1)
def steps() -> tuple[Step, ...]:
    """Return all steps between numbers, lists and texts."""
    return tuple(step for line in FORMS.strip().splitlines() for step in _parse_steps(line))


def _parse_steps(line: str) -> Iterator[Step]:
    head, words, code, constants = (field.strip() for field in line.split("|"))
    source, target, kind = head.split()
    for constant in _constants(constants):
        yield Step(kind, source, target, words, code, constant)


def _constants(field: str) -> list[str | None]:
    if not field:
        return [None]
    if field.startswith('"'):
        return [repr(letter) for letter in field.strip('"')]
    least, most = map(int, field.split("-"))
    return [str(number) for number in range(least, most + 1)]


@lru_cache(maxsize=1)
def pair_steps() -> tuple[Step, ...]:
    """Return the steps from a list to a pair, and from a pair to a number."""
    makers = [
        Step(f"{red}_{blue}", LIST, PAIR, f"red is {words}, blue is {second}", f"({code}, {more})")
        for red, blue in permutations(MEASURES, 2)
        for (words, code), (second, more) in [(MEASURES[red], MEASURES[blue])]
    ]
    takers = [
        Step(f"combine {a} {b}", PAIR, NUMBER, f"{a} * red {sign} {b} * blue", "")
        for sign in "+-"
        for a in range(1, 10)
        for b in range(1, 10)
        if a != b
    ]
    takers = [
        Step(step.words, PAIR, NUMBER, f"compute {step.words}", step.words) for step in takers
    ]
    return (*makers, *takers)
