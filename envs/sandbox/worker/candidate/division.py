"""Runs that show what the entry point and the helper add: something trivial takes the place of one of them.

A helper takes the entry point's place with what it returned when it was called with the entry point's own
arguments, or with a trivial function of that. The entry point runs all the same, so that nothing that it sets
beforehand is missing, and its result counts only where that function gives it. A constant or a trivial function of
the arguments takes the helper's place. The helper runs all the same: only its results are its part.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

from llm_decpomdp.envs.sandbox.worker.candidate.changes import change_value
from llm_decpomdp.envs.sandbox.worker.protocol import channel

MAX_CONSTANTS = 16  # constants of a code that a step may use
MAX_ITEMS = 10_000  # items of an iterator that are compared
MAX_DEPTH = 8  # nesting depth of values that are compared
MAX_CHOICES = 2  # different results between which a choice decides

NUMBERS = (int, float, complex)
PLAIN = (*NUMBERS, str, bytes)

Step = Callable[[Any, Any], Any]
"""Operation on a value and a constant, which may be None."""

ARITHMETIC: tuple[Step, ...] = (
    operator.add,
    operator.sub,
    lambda a, b: b - a,
    lambda a, b: a * (b or None),  # all numbers times 0 are equal
    operator.floordiv,
    operator.truediv,
    operator.mod,
    round,
)
OTHERS: tuple[Step, ...] = (
    operator.getitem,
    lambda a, b: a[b:],
    lambda a, b: a[:b],
    lambda a, b: b + a,
    lambda a, b: a + b,
    lambda a, b: b.join(a),
    lambda a, b: a.split(b),
    lambda a, b: a.strip(b),
    lambda a, b: a[:: b or -1],
    lambda a, b: a.lower(),
    lambda a, b: a.upper(),
)
"""Operations on texts and containers."""

Name = tuple[Any, ...]
"""Name of a trivial function."""


def constants(code: CodeType) -> list[Any]:
    """Return the numbers and texts in code, each once."""
    found: list[Any] = []
    for value in code.co_consts:
        if isinstance(value, CodeType):
            found += constants(value)
        elif isinstance(value, tuple):
            found += [item for item in value if type(item) in PLAIN]
        elif value is None or type(value) in (bool, *PLAIN):
            found.append(value)
    return list({(type(value), value): value for value in found}.values())


def plain(value: Any, depth: int = 0) -> Any:
    """Copy a value: instances of subclasses become their builtin class, tuples become lists.

    So two copies compare by their content alone.
    """
    if depth > MAX_DEPTH or value is None or type(value) in PLAIN:
        return value
    part = functools.partial(plain, depth=depth + 1)
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple):
        return [*map(part, value)]
    if isinstance(value, dict):
        return {key: part(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return set(value)
    for kind in PLAIN:
        if isinstance(value, kind):
            return kind(value)
    return value


def is_same(value: Any, other: Any) -> bool:
    """Check whether two `plain` values are equal, or the first one is after a cast to the type of the other."""
    try:
        if type(other) is bool:
            return value is other
        if value == other:
            return True
        if isinstance(other, set | dict) and isinstance(value, list | dict | set):
            return bool(type(other)(value) == other)
        if isinstance(other, list):
            if isinstance(value, set | dict | str | range):
                return [*value] == other
            return len(other) == 1 and bool(other[0] == value)
        if isinstance(other, str):
            return ("".join(value) if isinstance(value, list) else str(value)) == other
        if isinstance(value, str) and isinstance(other, int | float):
            return float(value) == other
        return type(other) is int and type(value) is float and int(value) == other
    except Exception:
        return False


def items(value: Any) -> list[Any]:
    """Return the items of a container, the values of a dict; none of other values."""
    if isinstance(value, dict):
        return [*value.values()]
    return [*value] if isinstance(value, list | set | str | range) else []


def steps(value: Any, expected: Any, values: Sequence[Any]) -> Iterator[Name]:
    """Yield the names of the operations with which a value becomes another one, after a cast if needed."""
    is_number = isinstance(value, NUMBERS)
    for constant in (None, 1, *values[:MAX_CONSTANTS]):
        if not is_number or constant is None or type(constant) in NUMBERS:
            for number, step in enumerate(ARITHMETIC if is_number else OTHERS):
                for result in attempt(step, value, constant):
                    if is_same(result, expected):
                        yield number, constant, type(expected)
    if is_number and is_same(-value, expected):
        yield "-", type(expected)


def attempt(function: Callable[..., Any], *values: Any) -> Iterator[Any]:
    """Yield the result of a function, unless it raises."""
    try:
        yield plain(function(*values))
    except Exception:
        return


class Candidates:
    """The trivial functions that explain all values so far."""

    def __init__(self) -> None:
        self.names: set[Name] | None = None

    def explain(self, names: Iterable[Name]) -> bool:
        """Drop those that are not in `names`, and tell whether any is left."""
        self.names = {*names} if self.names is None else self.names.intersection(names)
        return bool(self.names)


def copy(value: Any) -> Any:
    """Copy a value; objects other than builtin containers stay the same objects."""
    kind = type(value)
    if kind in (list, tuple, set):
        return kind(map(copy, value))
    return {key: copy(item) for key, item in value.items()} if kind is dict else value


class InPlace:
    """Replacement of the entry point's results by those of its helpers, or by a trivial function of these."""

    def __init__(self, kind: int, values: Sequence[Any]) -> None:
        self.kind = kind
        self.constants = values
        self.arguments: list[Any] | None = None
        """Values of the entry point's arguments while it runs."""
        self.results: list[Any] = []
        """Results of helpers in this call of the entry point."""
        self.candidates = Candidates()
        self.choices: tuple[dict[Any, Any], ...] = ({}, {})
        """Results of the entry point, by the truth of a helper's result, and by the result itself."""
        self.helpers: list[Callable[..., Any]] = []

    def record(self, helper: Callable[..., Any]) -> Callable[..., Any]:
        """Return a helper whose results are kept where it has the entry point's own arguments."""
        self.helpers.append(helper)

        def call(*args: Any, **kwargs: Any) -> Any:
            is_own = self._are_own([*args, *kwargs.values()])
            try:
                result = helper(*args, **kwargs)
            except Exception:
                self.results += [None] if is_own else []
                raise
            if is_own and hasattr(result, "__next__"):
                result, kept = itertools.tee(result)
                self.results.append(kept)
            elif is_own:
                self.results.append(result if callable(result) else plain(result))
            return result

        return functools.update_wrapper(call, helper)

    def replace(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return an entry point that fails where its result is not what stands in its place."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.arguments is not None:  # it calls itself
                return function(*args, **kwargs)
            before, named = copy(args), copy(kwargs)
            self.results, self.arguments = [], [*map(plain, (*before, *named.values()))]
            try:
                result = function(*args, **kwargs)
                is_iterator = hasattr(result, "__next__")
                if is_iterator:
                    result = [*itertools.islice(result, MAX_ITEMS)]
            finally:
                self.arguments = None
            if self.kind == channel.DIRECT:
                self.results = [
                    r for h in self.helpers for r in attempt(lambda h=h: h(*before, **named))
                ]
            if not self._are_enough(plain(result), before):
                raise LookupError("no helper returned this")
            return iter(result) if is_iterator else result

        return functools.update_wrapper(call, function)

    def _are_own(self, values: list[Any]) -> bool:
        """Check whether a helper gets all arguments of the entry point, or equal information, and no other."""
        if self.arguments is None:
            return False
        values = [*map(plain, values)]
        sources = self.arguments
        for value in (*values, values):
            if is_same(sources, value) or (len(sources) == 1 and items(sources[0]) == value != []):
                return True
        pairs = [
            {
                index
                for index, source in enumerate(sources)
                if is_same(source, value)
                or (isinstance(source, NUMBERS) and [*steps(source, value, self.constants)])
            }
            for value in values
        ]
        known = [any(is_same(constant, value) for constant in self.constants) for value in values]
        all_used = set().union(*pairs) == set(range(len(sources)))
        return all_used and all(map(operator.or_, map(bool, pairs), known))

    def _are_enough(self, result: Any, arguments: tuple[Any, ...]) -> bool:
        """Check whether a trivial function of one of the helpers' results is the result."""
        names: list[Name] = []
        for value in self.results:
            if hasattr(value, "__next__"):
                value = plain([*itertools.islice(value, MAX_ITEMS)])
            options = [value]
            if callable(value):
                options = [*attempt(value), *attempt(value, *arguments)]
            for option in options:
                if self._is_default(option, result):
                    return True
                names += self._explanations(option, result)
        return self.kind > channel.DIRECT and self.candidates.explain(names)

    def _is_default(self, value: Any, result: Any) -> bool:
        """Check whether a value is the result, or the result is what a caller writes for a missing value."""
        if is_same(value, result):
            return True
        others = () if value or value is False else self.constants
        if value is None:
            others = (*others, 0, "", [], False)
        return any(type(other) is type(result) and other == result for other in others)

    def _explanations(self, value: Any, result: Any) -> list[Name]:
        """Return the names of the trivial functions of this kind that give the result for a value."""
        if self.kind == channel.STEP:
            return [*steps(value, result, self.constants)]
        if self.kind == channel.CHOICE:
            return [("choice",)] if self._is_choice(value, result) else []
        place = {channel.ITEM: 0, channel.LAST_ITEM: -1}.get(self.kind)
        names: list[Name] = []
        while place is not None and len(names) < MAX_DEPTH:
            parts = items(value)
            if not parts or parts[place] == value:
                break
            value = parts[place]
            names += [("item",)] if is_same(value, result) else []
        return names

    def _is_choice(self, value: Any, result: Any) -> bool:
        """Check whether a choice between two constants by a helper's result agrees with all calls so far."""
        if type(result) is not bool and result not in self.constants:
            return False
        agrees = False
        for choice, key in zip(self.choices, (bool(value), repr(value)), strict=True):
            choice.setdefault(key, result)
            if choice[key] != result or len(choice) > MAX_CHOICES:
                choice[key] = self  # no choice any more
            agrees = agrees or self not in choice.values()
        return agrees


def replace_results(
    helper: Callable[..., Any], kind: int, values: Sequence[Any]
) -> Callable[..., Any]:
    """Return a helper whose results give way to those of a trivial function.

    It runs all the same: its other effects are not what it contributes, and an entry point may look for them.
    """
    first: list[Any] = []
    candidates = Candidates()

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = [*map(copy, (*args, *kwargs.values()))]
        try:
            result = helper(*args, **kwargs)
        except Exception:
            result = None  # an exception counts as a result
        if hasattr(result, "__next__"):
            result = [*itertools.islice(result, MAX_ITEMS)]
        first.extend([copy(result)] if not first else [])
        if kind in (channel.CONSTANT, channel.OTHER_CONSTANT):
            return copy(first[0]) if kind == channel.CONSTANT else change_value(first[0], 1)
        if kind == channel.ARGUMENTS:
            return tuple(arguments)
        if kind in (channel.ARGUMENT, channel.LAST_ARGUMENT) and arguments:
            return arguments[0 if kind == channel.ARGUMENT else -1]
        if kind == channel.STEP_OF_ARGUMENT:
            expected, names = plain(result), []
            for index, value in enumerate(map(plain, arguments)):
                if is_same(value, expected):
                    names.append((index, type(expected) if value != expected else None))
                if isinstance(value, NUMBERS):
                    names += [(index, *name) for name in steps(value, expected, values)]
            if candidates.explain(names):
                return result
        changed = change_value(result, 1 if kind == channel.EMPTY else 0)
        return _agree(changed) if kind == channel.AGREEING else changed

    call = functools.update_wrapper(call, helper)
    del call.__wrapped__  # type: ignore[attr-defined]
    return call


def _agree(value: Any) -> Any:
    """Return a value that is equal to all others, so that a comparison with what it should be holds."""
    kind = int if type(value) is bool else type(value)
    methods = {
        "__eq__": lambda self, other: True,
        "__ne__": lambda self, other: False,
        "__hash__": lambda self: 0,
    }
    try:
        return type(kind.__name__, (kind,), methods)(value)
    except TypeError:
        return value
