"""Values that are made of others without work: passed on, packed, counted, or taken from a fixed place.

These are the arguments that an entry point gives to a helper that does all the work, and the results of a helper
that does none. A value is *derived* if it is a trivial function of one of its sources, or a small container, an
object or a function without parameters whose parts are derived or constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

from llm_decpomdp.envs.sandbox.worker.candidate.trivial import (
    MAX_DEPTH,
    NUMBERS,
    PLAIN,
    Name,
    attempt,
    is_same,
    items,
    plain,
    steps,
)

MAX_PARTS = 8  # parts of a container, and places of a source, that have names

TEXT_METHODS: tuple[Callable[[str], Any], ...] = (
    str.lower,
    str.upper,
    str.strip,
    str.split,
    str.title,
    str.capitalize,
)

Place = tuple[Any, ...]
"""Where a part is in a value: the position or key in each container around it."""


class Derivation:
    """The trivial functions that explain each part of all values so far.

    A value without an explanation ends it. The values are results, or with `of_arguments` the arguments of a call.
    An argument that is 0 or empty needs no explanation: it may be the start of a search.
    """

    def __init__(self, of_arguments: bool) -> None:
        self.of_arguments = of_arguments
        self.names: dict[Place, set[Name]] = {}
        self.has_failed = False

    def explain(
        self, values: Sequence[Any], sources: Sequence[Any], constants: Sequence[Any]
    ) -> bool:
        """Drop the functions that do not explain these values, and tell whether each part has one left.

        Values and sources are `plain`.
        """
        for index, value in enumerate(values):
            if self.has_failed:
                break
            try:
                parts = self._find_parts(value, sources, constants, (index,))
            except Exception:
                parts = None
            has_names = any(place[0] == index for place in self.names)
            is_whole = parts is not None and (index,) in parts
            self.has_failed = parts is None or bool(
                has_names and parts and is_whole != ((index,) in self.names)
            )
            for place, names in (parts or {}).items():
                self.names[place] = self.names.get(place, names) & names
                self.has_failed |= not self.names[place]
        return not self.has_failed

    def _find_parts(
        self, value: Any, sources: Sequence[Any], constants: Sequence[Any], place: Place
    ) -> dict[Place, set[Name]] | None:
        """Return the names of the functions that give each part of a value; None if a part has none."""
        if self.of_arguments and _is_blank(value, constants):
            return {}
        is_part = len(place) > 1
        names = {*find_names(value, sources, constants, is_part)}
        if value is None or type(value) in (bool, *PLAIN):
            # A result that is a constant in all calls has a mutant run of its own.
            if (is_part or self.of_arguments) and _is_constant(value, constants):
                names.add(("constant", type(value), value))
            if is_part and type(value) is int and value == place[-1]:
                names.add(("place",))
        if names:
            return {place: names}
        if isinstance(value, list) and len(value) > 1 and value == [*range(len(value))]:
            value = range(len(value))
        parts = unpack(value) if len(place) < MAX_DEPTH else None
        if parts is None or len(parts) > MAX_PARTS:
            return None
        # A selection of items has other sizes in other calls.
        names_by_place: dict[Place, set[Name]] = {(*place, "size"): {(len(parts),)}}
        for key, part in parts.items():
            inner = self._find_parts(plain(part), sources, constants, (*place, key))
            if inner is None:
                return None
            names_by_place |= inner
        return names_by_place


def find_names(
    value: Any, sources: Sequence[Any], constants: Sequence[Any], is_part: bool
) -> Iterator[Name]:
    """Yield the names of the trivial functions that give a value for one of its sources, or for all.

    A part of a value is only passed on or counted: an operation for each part would be work.
    """
    if is_same(sources, value):
        yield ("all",)
    for index, source in enumerate(sources):
        names = itertools.chain(
            _sizes(value, source), () if is_part else _results(value, source, constants)
        )
        for name in names:
            yield index, *name
        if callable(source) and not is_part:
            arguments = [*sources[:index], *sources[index + 1 :]]
            results = [*attempt(source), *attempt(source, *arguments)]
            for argument in arguments:
                results += attempt(lambda apply, values: [*map(apply, values)], source, argument)
            if any(is_same(result, value) for result in results):
                yield index, "applied"


def _sizes(value: Any, source: Any) -> Iterator[Name]:
    """Yield the names of the source itself, its truth and its length, where they are the value."""
    if is_same(source, value):
        yield ("same",)
    if isinstance(value, bool):
        yield ("truth", value is bool(source))
    if isinstance(source, Sized) and is_same(len(source), value):
        yield ("length",)


def _results(value: Any, source: Any, constants: Sequence[Any]) -> Iterator[Name]:
    """Yield the names of the operations on the source, or on its length, that give the value."""
    if isinstance(source, NUMBERS):
        yield from steps(source, value, constants)
    if not isinstance(source, Sized):
        return
    if isinstance(value, NUMBERS):
        yield from (("length", *name) for name in steps(len(source), value, constants))
    parts = items(source)
    for place in (*range(min(len(parts), MAX_PARTS)), -1):
        if parts and type(parts[place]) is type(value) and parts[place] == value:
            yield "item", place
    if isinstance(source, str):
        for number, method in enumerate(TEXT_METHODS):
            if method(source) == value:
                yield "text", number
    if isinstance(value, list | str) and type(source) is type(value):
        yield from _slices(value, source)


def _slices(value: Any, source: Any) -> Iterator[Name]:
    """Yield the names of the slices of a source that are the value."""
    if value == source[::-1]:
        yield ("reversed",)
    if not value or not source:
        return
    size, whole = len(value), len(source)
    if source[:size] == value:
        yield from (("head", size), ("head", size - whole))
    if source[-size:] == value:
        yield from (("tail", size), ("tail", size - whole))


def _is_constant(value: Any, constants: Sequence[Any]) -> bool:
    """Check whether a value is one of the constants, and of the same type, or is None, 0 or 1."""
    return value is None or any(type(c) is type(value) and c == value for c in (0, 1, *constants))


def _is_blank(value: Any, constants: Sequence[Any]) -> bool:
    """Check whether a value is None, 0 or empty, or a table of one constant."""
    if isinstance(value, bool):
        return False
    if not value:
        return True
    leaf = value
    while isinstance(leaf, list) and leaf and all(item == leaf[0] for item in leaf):
        leaf = leaf[0]
    if not isinstance(value, list) or isinstance(leaf, list | dict | set):
        return False
    return not leaf or (len(value) > 1 and _is_constant(leaf, constants))


def unpack(value: Any) -> dict[Any, Any] | None:
    """Return the parts of a container, an object or a function without parameters; None if it has none."""
    if isinstance(value, range):
        return {"start": value.start, "stop": value.stop} if value.step in (1, -1) else None
    if isinstance(value, list):
        return dict(enumerate(value))
    if isinstance(value, dict):
        return value
    if isinstance(value, type) or type(value) is type(len):
        return {}
    code = getattr(value, "__code__", None)
    if code is None:
        return None if isinstance(value, (str, *NUMBERS)) else getattr(value, "__dict__", None)
    if not code.co_argcount:
        return dict(enumerate(attempt(value)))
    probe = object()
    takes_out = [*attempt(value, probe), *attempt(value, [probe])]
    return {} if code.co_argcount == 1 and probe in takes_out else None
