"""Branches of environments, in which learners continue an episode, wrapped environments included.

The class of an environment decides which methods beyond PettingZoo's API it has, on every version of Python. A
wrapper forwards the attributes of its inner environment, so it seems to have a `fork`; but that one would return
an environment without the wrapper.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pettingzoo import AECEnv, ParallelEnv
from typing_extensions import Protocol, runtime_checkable

from llm_decpomdp.seeding import stream

Env = TypeVar("Env")

ATTRIBUTES = ("env", "aec_env")
"""Attributes of PettingZoo's wrappers, and of its conversions between its two APIs, with the inner environment."""


# Protocols of `typing` ask `hasattr` before Python 3.12, which is true for names that a wrapper forwards.
@runtime_checkable
class Forkable(Protocol):
    """An environment that makes independent copies of itself, safe to step in different threads."""

    def fork(self) -> Any:
        """Return an independent environment in the same state."""
        ...


@runtime_checkable
class Recorded(Protocol):
    """An environment whose state is a JSON-able value."""

    def snapshot(self) -> Mapping[str, Any]:
        """Return the state; the record of the episode is its item `episode`."""
        ...


@runtime_checkable
class Restorable(Recorded, Protocol):
    """An environment that continues from a snapshot."""

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue from a value of `snapshot`."""
        ...


@runtime_checkable
class MessageTurns(Protocol):
    """A wrapper with turns in which actions are messages to teammates, between those of the environment."""

    speaking: bool
    """True while the next actions are messages."""

    def listeners(self, sender: str) -> Sequence[str]:
        """Return the agents that a message of `sender` is for."""
        ...

    def seed_noise(self, seed: int) -> None:
        """Restart the stream that loss and noise of the next episodes are drawn from."""
        ...


def branch(env: Env) -> Env:
    """Return an independent environment of the same class in the same state.

    It comes from the environment's `fork`. Without one, a wrapper without mutable state is put around a branch of
    its inner environment, and anything else is deep-copied.

    Raises:
        TypeError: If it cannot be deep-copied; says the remedy.
    """
    # A fork shares loaded tasks and spaces; a deep copy would copy megabytes for every branch.
    if isinstance(env, Forkable):
        twin: Env = env.fork()
        return twin
    name = _stateless_attribute(env)
    if name is not None:
        # Without `__init__`, which may build another environment or open a connection.
        twin = object.__new__(type(env))
        vars(twin).update({**vars(env), name: branch(vars(env)[name])})
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
    """Check whether branches of an environment may step in different threads: forks, and wrappers around them."""
    if isinstance(env, Forkable):
        return True
    name = _stateless_attribute(env)
    return name is not None and branches_in_threads(vars(env)[name])


def inner_env(env: object) -> Any:
    """Return the environment in a wrapper; `None` for any other object."""
    name = _attribute(env)
    return None if name is None else vars(env)[name]


def record(env: object) -> Any:
    """Return an environment's record of the episode, as a JSON-able value; `None` if it has none.

    For a wrapper it is that of the inner environment: its prompts are those before the wrapper changed them, and
    its completions and verdicts those after that.
    """
    if isinstance(env, Recorded):
        return env.snapshot().get("episode")
    inner = inner_env(env)
    return None if inner is None else record(inner)


def acting_agents(env: Any) -> Sequence[str]:
    """Return the agents of a parallel environment that act next: `env.acting`, or else all live ones."""
    acting: Sequence[str] | None = getattr(env, "acting", None)
    return env.agents if acting is None else acting


def is_turn_based(env: Any) -> bool:
    """Check whether agents may have to wait for others: `turn_based` of the environment or its metadata."""
    known = getattr(env, "turn_based", None)  # the metadata of our environments need the data
    return bool(getattr(env, "metadata", {}).get("turn_based") if known is None else known)


def is_simultaneous(env: Any) -> bool:
    """Check whether all agents act in every turn: none of them waits, leaves early or joins late."""
    return not (is_turn_based(env) or hasattr(getattr(env.unwrapped, "mode", None), "present"))


def require_simultaneous(env: Any, feature: str) -> None:
    """Raise a `ValueError` if agents of an environment take turns, which a feature does not support."""
    if is_turn_based(env):
        raise ValueError(
            f"{feature} needs agents that all act in every turn, and those of {env} take turns: leave out "
            f"{feature}, or make the environment without `order`"
        )


def message_turns(env: Any) -> MessageTurns | None:
    """Return the wrapper with message turns among an environment and its wrappers; `None` without one."""
    while env is not None:
        if isinstance(env, MessageTurns):
            return env
        env = inner_env(env)
    return None


def seed_noise(env: object, seed: int, *names: str | int) -> None:
    """Give the message turns of an environment, if it has any, a stream of their own for what is lost.

    Args:
        env: Any environment, wrapped or not.
        seed: The run's seed.
        *names: Purpose of the stream.
    """
    if (wrapper := message_turns(env)) is not None:
        # The stream is called "channel" in all runs so far: another name would change their messages.
        wrapper.seed_noise(int(stream(seed, "channel", *names).integers(2**32)))


def _attribute(env: object) -> str | None:
    """Return the attribute of a wrapper with its inner environment; `None` for any other object."""
    # Its own attributes: PettingZoo's wrappers forward all others to the inner environment.
    state = getattr(env, "__dict__", {})
    envs = (name for name in ATTRIBUTES if isinstance(state.get(name), (AECEnv, ParallelEnv)))
    return next(envs, None)


def _stateless_attribute(env: object) -> str | None:
    """Return the attribute as `_attribute` does, if all else in the wrapper is immutable."""
    inner = _attribute(env)
    try:
        # A deep copy of an immutable object is the object itself.
        values = (value for name, value in vars(env).items() if name != inner) if inner else ()
        return inner if all(copy.deepcopy(value) is value for value in values) else None
    except Exception:  # what cannot be copied may change
        return None
