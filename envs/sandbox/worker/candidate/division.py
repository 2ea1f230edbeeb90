"""Runs that show what the entry point and the helper add: something trivial takes the place of one of them.

A helper takes the entry point's place with what it returned when it was called with the entry point's own
arguments, or with a trivial function of that. The entry point runs all the same, so that nothing that it sets
beforehand is missing, and its result counts only where that function gives it. A constant or a trivial function of
the arguments takes the helper's place. The helper runs all the same: only its results are its part.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from llm_decpomdp.envs.sandbox.worker.candidate.derived import Derivation
from llm_decpomdp.envs.sandbox.worker.candidate.explained_results import (
    Call,
    DerivedCall,
    ResultExplanation,
    options,
)
from llm_decpomdp.envs.sandbox.worker.candidate.result_mutation import mutate_value
from llm_decpomdp.envs.sandbox.worker.candidate.trivial import (
    MAX_ITEMS,
    NUMBERS,
    attempt,
    copy,
    count,
    is_same,
    items,
    plain,
    steps,
)
from llm_decpomdp.envs.sandbox.worker.protocol import channel

FEW_CALLS = 2
"""Most calls of helpers of which one may decide alone, as one call of a loop may agree by accident."""

MAX_EXAMINED = 50
"""Calls of helpers that are examined in each call of the entry point: more would outlast a mutant run."""


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
        self.num_calls = 0
        """Number of calls of helpers in this call of the entry point."""
        self.first: list[Call] = []
        """The first of them."""
        kinds = range(channel.DERIVED, channel.ANY) if kind == channel.ANY else [kind]
        self.explanation = ResultExplanation(kinds, values)
        self.derived = DerivedCall(kinds, values)
        self.helpers: list[Callable[..., Any]] = []

    def record(self, helper: Callable[..., Any]) -> Callable[..., Any]:
        """Return a helper whose results are kept where it has the entry point's own arguments."""
        self.helpers.append(helper)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.num_calls += 1
            if self.num_calls > MAX_EXAMINED:
                return helper(*args, **kwargs)
            values: list[Any] = []
            args, copies = _share_iterators(args)
            try:
                values = [*map(plain, (*args, *kwargs.values()))]
                foreign = self._find_foreign(values)
            except Exception:
                foreign = []
            is_own = foreign == []
            if foreign and self.kind == channel.DIRECT and self.num_calls <= FEW_CALLS:
                self._repeat(helper, args, kwargs, foreign)
            try:
                result = helper(*args, **kwargs)
            except Exception:
                self.results += [None] if is_own else []
                raise
            is_kept = self.kind > channel.DIRECT and self.num_calls == 1
            if not (is_own or is_kept or callable(result)):
                return result
            if hasattr(result, "__next__"):
                # One for the entry point, and two to compare its result with.
                result, *copies_of_result = itertools.tee(result, 3)
            else:
                # As it is now: the entry point may change it.
                copies_of_result = [*attempt(copy, result)]
            if is_own or callable(result):
                self.results += copies_of_result[:1]
            if is_kept and copies_of_result:
                for position, copied in copies.items():
                    values[position] = [*itertools.islice(copied, MAX_ITEMS)]
                self.first = [Call(values, copies_of_result[-1])]
            return result

        return functools.update_wrapper(call, helper)

    def replace(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return an entry point that fails where its result is not what stands in its place."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.arguments is not None:  # it calls itself
                return function(*args, **kwargs)
            before, named = copy(args), copy(kwargs)
            self.results, self.calls, self.first, self.num_calls = [], [], [], 0
            self.arguments = [*map(plain, (*before, *named.values()))]
            try:
                result = function(*args, **kwargs)
                is_iterator = hasattr(result, "__next__")
                if is_iterator:
                    result = [*itertools.islice(result, MAX_ITEMS)]
            finally:
                self.arguments = None
            if self.kind == channel.DIRECT:
                self.calls = [] if self.num_calls > FEW_CALLS else self.calls
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
        sources = self.arguments
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
            if not origins and not any(is_same(constant, value) for constant in self.constants)
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
        values: list[Any] = []
        for value in self.results:
            values += options(_as_list(value), *arguments)
        if any(self._is_default(value, result) for value in values):
            return True
        if self.kind <= channel.DIRECT:
            return False
        sources = [*map(plain, arguments)]
        if self.num_calls > FEW_CALLS:
            self.explanation.explanations.pop(channel.CHOICE, None)
        explained = bool(values) and self.explanation.explain(values, result)
        if self.num_calls == 1:
            for call in self.first:
                call = call._replace(result=_as_list(call.result))
                explained = self.derived.explain(call, sources, result) or explained
        return explained

    def _is_default(self, value: Any, result: Any) -> bool:
        """Check whether a value is the result, or the result is what a caller writes for a missing value."""
        if is_same(value, result):
            return True
        others = () if value or value is False else self.constants
        if value is None:
            others = (*others, 0, "", [], False)
        return any(type(other) is type(result) and other == result for other in others)


def _as_list(value: Any) -> Any:
    """Return the first items of an iterator, and any other value as it is."""
    return [*itertools.islice(value, MAX_ITEMS)] if hasattr(value, "__next__") else value


def _share_iterators(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[int, Any]]:
    """Return arguments, and a copy of each iterator among them by its position."""
    pairs = [itertools.tee(value) if hasattr(value, "__next__") else (value,) for value in args]
    copies = {position: pair[1] for position, pair in enumerate(pairs) if len(pair) > 1}
    return tuple(pair[0] for pair in pairs), copies


def replace_results(
    helper: Callable[..., Any], kind: int, values: Sequence[Any]
) -> Callable[..., Any]:
    """Return a helper whose results give way to those of a trivial function.

    It runs all the same: its other effects are not what it contributes, and an entry point may look for them.
    """
    first: list[Any] = []
    derivation = Derivation(of_arguments=False)

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
            if derivation.explain([plain(result)], [*map(plain, arguments)], values):
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
