"""Explanation of an entry point's results by a helper's: which trivial functions of these give those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from llm_decpomdp.envs.sandbox.worker.candidate.derived import MAX_PARTS, Derivation, unpack
from llm_decpomdp.envs.sandbox.worker.candidate.trivial import (
    Explanation,
    Name,
    attempt,
    is_same,
    plain,
    steps,
)
from llm_decpomdp.envs.sandbox.worker.protocol import channel

MAX_CHOICES = 2  # different results between which a choice decides
MAX_PATH = 3  # containers in each other from which an entry point takes an item


class Call(NamedTuple):
    """A call of a helper: the arguments before it, as `plain` values, and the result."""

    arguments: list[Any]
    result: Any


class ResultExplanation:
    """The trivial functions of a helper's results that explain all results of the entry point so far.

    Args:
        kinds: Kinds of mutant runs, of `channel.DERIVED` to `channel.CHOICE`.
        constants: Constants of the entry point's code.
    """

    def __init__(self, kinds: Sequence[int], constants: Sequence[Any]) -> None:
        self.constants = constants
        self.explanations = {kind: Explanation() for kind in kinds}
        self.choices: tuple[dict[Any, Any], ...] = ({}, {})
        """Results of the entry point, by the truth of a helper's result, and by the result itself."""

    def explain(self, values: Sequence[Any], result: Any) -> bool:
        """Drop the functions that give this result for none of the helper's, and tell whether one is left."""
        explained = False
        for kind, explanation in self.explanations.items():
            if explanation.names == set():
                continue
            names = [name for value in values for name in self._find_names(kind, value, result)]
            explained = explanation.explain(names) or explained
        return explained

    def _find_names(self, kind: int, value: Any, result: Any) -> Iterator[Name]:
        """Yield the names of the trivial functions of this kind that give the result for a value."""
        if kind == channel.DERIVED and is_same(value, result):
            yield ("as it is",)
        elif kind == channel.ITEM:
            yield from _find_paths(value, result, ())
        elif kind == channel.STEP:
            yield from steps(value, result, self.constants)
        elif kind == channel.CHOICE and self._is_choice(value, result):
            yield ("choice",)

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


class DerivedCall:
    """The explanation by the only call that the entry point makes of a helper.

    Its arguments are derived from the entry point's own, always in the same way, and so is the result. One call of
    several may agree by accident, as the last one of a loop.
    """

    def __init__(self, kinds: Sequence[int], constants: Sequence[Any]) -> None:
        self.constants = constants
        self.derivation = Derivation(of_arguments=True)
        self.results = ResultExplanation(kinds, constants)

    def explain(self, call: Call, sources: Sequence[Any], result: Any) -> bool:
        """Drop what does not explain this result of the entry point, and tell whether anything is left."""
        if not self.results.explain(options(call.result), result):
            return False
        return self.derivation.explain(call.arguments, sources, self.constants)


def options(value: Any, *arguments: Any) -> list[Any]:
    """Return what a caller gets from a helper's result: the value, or the results of a function."""
    value = plain(value)
    return [*attempt(value), *attempt(value, *arguments)] if callable(value) else [value]


def _find_paths(value: Any, result: Any, path: Name) -> Iterator[Name]:
    """Yield the positions and keys with which a result is taken from a value.

    Of a large container, or one with several truth values, these are the first and the last position.
    """
    parts: Any = dict(enumerate(value)) if isinstance(value, str | set) else unpack(value)
    if not parts or isinstance(value, range) or len(path) >= MAX_PATH:
        return
    alike = sum(isinstance(part, bool) for part in parts.values()) > 1
    few = len(parts) <= MAX_PARTS and not (alike and isinstance(result, bool))
    keys = [*parts]
    places = keys if few else {keys[0]: 0, keys[-1]: 0}
    for key in places:
        part = plain(parts[key])
        names = {(*path, key)}
        if not isinstance(value, dict):
            names |= {(*path, keys.index(key) - len(keys))}
        if is_same(part, result):
            yield from names
        if part is not value and not isinstance(part, str):
            yield from _find_paths(part, result, (*path, key))
