"""Copies of environments in which learners play on, wrapped environments included.

What an environment can do beyond PettingZoo's API is decided by its class, on every version of Python. A wrapper
hands on the attributes of what it holds, so it seems to have a `fork`; but that one would be without the wrapper.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from pettingzoo import AECEnv, ParallelEnv
from typing_extensions import Protocol, runtime_checkable

Env = TypeVar("Env")

PLACES = ("env", "aec_env")
"""The attributes in which PettingZoo's wrappers, and its conversions between its two APIs, hold an environment."""


@runtime_checkable
class Forkable(Protocol):
    """An environment that makes independent copies of itself, safe to step in different threads."""

    def fork(self) -> Any:
        """An independent environment in the same state."""
        ...


@runtime_checkable
class Recorded(Protocol):
    """An environment whose state is a JSON-able value."""

    def snapshot(self) -> Mapping[str, Any]:
        """The state; the record of the episode is its item `episode`."""
        ...


@runtime_checkable
class Restorable(Recorded, Protocol):
    """An environment that continues from a snapshot."""

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue from a value of `snapshot`."""
        ...


def branch(env: Env) -> Env:
    """An independent environment of the same class in the same state.

    It is what the environment's own `fork` makes. Without one, a wrapper that keeps nothing that changes is put
    around a branch of what it holds, and anything else is deep-copied.

    Raises:
        TypeError: If it cannot be deep-copied; says what to do.
    """
    if isinstance(env, Forkable):
        twin: Env = env.fork()
        return twin
    place = _place(env)
    if place is not None and _keeps_nothing(env, place):
        twin = object.__new__(type(env))
        vars(twin).update({**vars(env), place: branch(vars(env)[place])})
        return twin
    try:
        return copy.deepcopy(env)
    except Exception as error:
        raise TypeError(
            f"{type(env).__name__} cannot be branched, as copy.deepcopy fails with "
            f"{type(error).__name__}: {error}. Give its class a method fork() that returns an "
            "independent environment in the same state"
        ) from error


def branches_in_threads(env: object) -> bool:
    """Whether branches of an environment may step in different threads: forks, and wrappers around them."""
    place = _place(env)
    return isinstance(env, Forkable) or (
        place is not None and _keeps_nothing(env, place) and branches_in_threads(vars(env)[place])
    )


def held(env: object) -> Any:
    """The environment in a wrapper; `None` for what is no wrapper."""
    place = _place(env)
    return None if place is None else vars(env)[place]


def record(env: object) -> Any:
    """The record of the episode that an environment keeps, as a JSON-able value; `None` if it keeps none.

    That of a wrapper is the one of the environment in it: its prompts are those before the wrapper changed them,
    and its completions and verdicts those after that.
    """
    if isinstance(env, Recorded):
        return env.snapshot().get("episode")
    inner = held(env)
    return None if inner is None else record(inner)


def _place(env: object) -> str | None:
    """The attribute in which a wrapper holds an environment; `None` for what is no wrapper."""
    own = getattr(env, "__dict__", {})
    return next((name for name in PLACES if isinstance(own.get(name), (AECEnv, ParallelEnv))), None)


def _keeps_nothing(wrapper: object, place: str) -> bool:
    """Whether nothing else in a wrapper can change: a deep copy of what cannot change is the thing itself."""
    others = (value for name, value in vars(wrapper).items() if name != place)
    try:
        return all(copy.deepcopy(value) is value for value in others)
    except Exception:  # what cannot be copied may change
        return False
