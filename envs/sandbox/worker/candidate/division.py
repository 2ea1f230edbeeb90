"""Runs that show what the entry point and the helper add: something trivial takes the place of one of them.

A helper takes the entry point's place with what it returned when it was called with the entry point's own
arguments, or with a trivial function of that. The entry point runs all the same, so that nothing that it sets
beforehand is missing, and its result counts only where that function gives it. A constant or a trivial function of
the arguments takes the helper's place. The helper runs all the same: only its results are its part.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence, Sized
from typing import Any

from llm_decpomdp.envs.sandbox.worker.candidate.result_mutation import mutate_value
from llm_decpomdp.envs.sandbox.worker.candidate.trivial import (
    MAX_DEPTH,
    MAX_ITEMS,
    NUMBERS,
    Explanation,
    Name,
    attempt,
    cast,
    copy,
    count,
    is_same,
    items,
    plain,
    steps,
)
from llm_decpomdp.envs.sandbox.worker.protocol import channel

MAX_CHOICES = 2  # different results between which a choice decides
EMPTY: tuple[Any, ...] = ([], "")  # `[]` is also the same as an empty set or dictionary


class EntryPointReplacement:
    """Replacement of the entry point's results by those of its helpers, or by a trivial function of these."""

    def __init__(self, kind: int, values: Sequence[Any]) -> None:
        self.kind = kind
        self.constants = values
        self.arguments: list[Any] | None = None
        """Values of the entry point's arguments while it runs."""
        self.results: list[Any] = []
        """Results of helpers in this call of the entry point."""
        self.calls: list[Callable[[], Any]] = []
        """Calls of helpers that are made after it."""
        kinds = range(channel.ITEM, channel.ANY) if kind == channel.ANY else [kind]
        self.explanations = {kind: Explanation() for kind in kinds}
        self.choices: tuple[dict[Any, Any], ...] = ({}, {})
        """Results of the entry point, by the truth of a helper's result, and by the result itself."""
        self.helpers: list[Callable[..., Any]] = []

    def record(self, helper: Callable[..., Any]) -> Callable[..., Any]:
        """Return a helper whose results are kept where it has the entry point's own arguments."""
        self.helpers.append(helper)

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                foreign = self._find_foreign([*args, *kwargs.values()])
            except Exception:
                foreign = []
            is_own = foreign == []
            if foreign and self.kind == channel.DIRECT:
                self._repeat(helper, args, kwargs, foreign)
            try:
                result = helper(*args, **kwargs)
            except Exception:
                self.results += [None] if is_own else []
                raise
            if is_own and hasattr(result, "__next__"):
                result, kept = itertools.tee(result)
                self.results.append(kept)
            elif is_own or callable(result):
                # As it is now: the entry point may change it.
                self.results += attempt(copy, result)
            return result

        return functools.update_wrapper(call, helper)

    def replace(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return an entry point that fails where its result is not what stands in its place."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.arguments is not None:  # it calls itself
                return function(*args, **kwargs)
            before, named = copy(args), copy(kwargs)
            self.results, self.calls = [], []
            self.arguments = [*map(plain, (*before, *named.values()))]
            try:
                result = function(*args, **kwargs)
                is_iterator = hasattr(result, "__next__")
                if is_iterator:
                    result = [*itertools.islice(result, MAX_ITEMS)]
            finally:
                self.arguments = None
            if self.kind == channel.DIRECT:
                self.calls += [functools.partial(h, *before, **named) for h in self.helpers]
                self.results = [result for again in self.calls for result in attempt(again)]
            if not self._are_enough(result, before):
                raise LookupError("no helper returned this")
            return iter(result) if is_iterator else result

        return functools.update_wrapper(call, function)

    def _find_foreign(self, values: list[Any]) -> list[int] | None:
        """Return the positions of a helper's arguments that are not the entry point's own, and no constants.

        None if those do not have all the information that the entry point got.
        """
        if self.arguments is None:
            return None
        sources, values = self.arguments, [*map(plain, values)]
        if len(sources) == 1 and is_same(items(sources[0]), values) and values:
            return []  # an unpacked pair
        pairs = [self._find_sources(value) for value in values]
        if is_same(sources, values):
            return []
        if set().union(*pairs) != set(range(len(sources))):
            return None
        return [
            position
            for position, (value, origins) in enumerate(zip(values, pairs, strict=True))
            if not origins
            and not any(is_same(constant, value) for constant in (*self.constants, *EMPTY))
        ]

    def _find_sources(self, value: Any) -> set[int]:
        """Return the positions of the entry point's arguments of which a value is a trivial function."""
        assert self.arguments is not None
        packed = items(value) if isinstance(value, dict) else value
        if is_same(self.arguments, packed):
            return set(range(len(self.arguments)))
        return {
            position
            for position, source in enumerate(self.arguments)
            if is_same(source, value)
            or (isinstance(source, Sized) and is_same(len(source), value))
            or (isinstance(source, NUMBERS) and any(steps(source, value, self.constants)))
        }

    def _repeat(
        self, helper: Callable[..., Any], args: Any, kwargs: Any, foreign: list[int]
    ) -> None:
        """Keep calls of a helper with other values of the arguments that are not the entry point's own."""
        for kind in (0, 1):
            values = [*map(copy, (*args, *kwargs.values()))]
            for position in foreign:
                values[position] = mutate_value(values[position], kind)
            named = dict(zip(kwargs, values[len(args) :], strict=True))
            self.calls.append(functools.partial(helper, *values[: len(args)], **named))

    def _are_enough(self, result: Any, arguments: tuple[Any, ...]) -> bool:
        """Check whether a trivial function of one of the helpers' results is the result."""
        try:
            return self._explains(plain(result), arguments)
        except Exception:
            return True

    def _explains(self, result: Any, arguments: tuple[Any, ...]) -> bool:
        names: dict[int, list[Name]] = {kind: [] for kind in self.explanations}
        for value in self.results:
            if hasattr(value, "__next__"):
                value = [*itertools.islice(value, MAX_ITEMS)]
            value = plain(value)
            options = [value]
            if callable(value):
                options = [*attempt(value), *attempt(value, *arguments)]
            for option in options:
                if self._is_default(option, result):
                    return True
                for kind, matches in names.items():
                    matches += self._find_names(kind, option, result)
        # All of them, as each drops the functions that do not explain this call.
        explained = [self.explanations[kind].explain(matches) for kind, matches in names.items()]
        return self.kind > channel.DIRECT and any(explained)

    def _is_default(self, value: Any, result: Any) -> bool:
        """Check whether a value is the result, or the result is what a caller writes for a missing value."""
        if is_same(value, result):
            return True
        others = () if value or value is False else self.constants
        if value is None:
            others = (*others, 0, "", [], False)
        return any(type(other) is type(result) and other == result for other in others)

    def _find_names(self, kind: int, value: Any, result: Any) -> list[Name]:
        """Return the names of the trivial functions of this kind that give the result for a value."""
        if kind == channel.STEP:
            return [*steps(value, result, self.constants)]
        if kind == channel.CHOICE:
            return [("choice",)] if self._is_choice(value, result) else []
        place = {channel.ITEM: 0, channel.LAST_ITEM: -1}.get(kind)
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
        if result not in (0, 1, *self.constants):
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
    explanation = Explanation()

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = [*map(copy, (*args, *kwargs.values()))]
        try:
            result = helper(*args, **kwargs)
        except Exception:
            result = None  # an exception counts as a result
        try:
            return replace(result, arguments)
        except Exception:
            return None

    def replace(result: Any, arguments: list[Any]) -> Any:
        if count(result) >= MAX_ITEMS:
            return mutate_value(result, 1)
        if hasattr(result, "__next__"):
            result = [*itertools.islice(result, MAX_ITEMS)]
        first.extend([copy(result)] if not first else [])
        if kind in (channel.CONSTANT, channel.OTHER_CONSTANT):
            return copy(first[0]) if kind == channel.CONSTANT else mutate_value(first[0], 1)
        if kind == channel.ARGUMENTS:
            return tuple(arguments)
        if kind in (channel.ARGUMENT, channel.LAST_ARGUMENT) and arguments:
            return arguments[0 if kind == channel.ARGUMENT else -1]
        if kind == channel.STEP_OF_ARGUMENT:
            expected, names = plain(result), []
            for index, value in enumerate(map(plain, arguments)):
                if is_same(value, expected):
                    names.append((index, cast(value, expected)))
                if isinstance(value, NUMBERS):
                    names += [(index, *name) for name in steps(value, expected, values)]
            if explanation.explain(names):
                return result
        changed = mutate_value(result, 1 if kind == channel.EMPTY else 0)
        return _agree(changed) if kind == channel.AGREEING else changed

    call = functools.update_wrapper(call, helper)
    del call.__wrapped__
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
