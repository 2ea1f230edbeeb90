"""Text space of prompts and completions, their bounds, and checks of the arguments of `step` and `reset`.

`gymnasium.spaces.Text` accepts only the characters of a given set, and the set of all of Unicode costs seconds and
megabytes to build. This subclass accepts any encodable string within its length.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Text

from llm_decpomdp.validation import unknown

MAX_ACTION_LENGTH = 100_000
"""Longest completion that is read, in code points; the rest is cut off."""

MAX_OBSERVATION_LENGTH = 1_000_000
"""Bound of a prompt in code points: a problem, a previous response and bounded feedback fit with room to spare."""

SAMPLE_CHARSET = string.ascii_letters + string.digits + string.punctuation + " \n"
"""Characters of samples. An ordered string, so that equal seeds give equal samples."""

SAMPLE_LENGTH = 64
"""Maximum length of a sample in characters. Samples are used by API tests only."""


class UnicodeText(Text):
    """Any UTF-8 encodable string of `min_length` to `max_length` code points.

    Args:
        max_length: Maximum length in code points (not bytes, not tokens).
        min_length: Minimum length in code points.
        seed: Seed or generator of `sample`.
    """

    def __init__(
        self, max_length: int, *, min_length: int = 0, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(max_length, min_length=min_length, charset=SAMPLE_CHARSET, seed=seed)

    def contains(self, x: Any) -> bool:
        """Check whether `x` is an encodable string within the bounds."""
        if not isinstance(x, str) or not self.min_length <= len(x) <= self.max_length:
            return False
        try:
            x.encode()
        except UnicodeEncodeError:  # lone surrogates
            return False
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a short random string; `mask` and `probability` as in `gymnasium.spaces.Text.sample`."""
        if mask is None and probability is None:
            # Without a length gymnasium draws one up to `max_length`, which is a million characters here.
            longest = min(self.max_length, max(self.min_length, SAMPLE_LENGTH))
            mask = (int(self.np_random.integers(self.min_length, longest + 1)), None)
        return str(super().sample(mask, probability))

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed numeric form."""
        return False

    def __repr__(self) -> str:
        return f"UnicodeText({self.min_length}, {self.max_length})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UnicodeText)
            and self.min_length == other.min_length
            and self.max_length == other.max_length
        )

    __hash__ = None  # type: ignore[assignment]  # as every gymnasium space: compared by value


def requested_task(options: object) -> object:
    """Return the `task_id` of the options of `reset`; `None` if they choose no task.

    Raises:
        TypeError: If the options are no mapping.
        KeyError: If there is another key.
    """
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise TypeError(f"options must be a mapping such as {{'task_id': ...}}, got {options!r}")
    for key in options:
        # PettingZoo's API tests pass `options={"options": 1}`.
        if key not in ("task_id", "options"):
            raise KeyError(unknown("option of reset", key, ["task_id"]))
    return options.get("task_id")


def find_space(spaces: Mapping[str, UnicodeText], agent: str) -> UnicodeText:
    """Return the space of an agent; raise a `KeyError` that names the nearest one if there is no such agent."""
    if agent not in spaces:
        raise KeyError(unknown("agent", agent, spaces))
    return spaces[agent]


def read_actions(
    actions: Mapping[str, str], agents: Sequence[str], waiting: Collection[str] = ()
) -> dict[str, str]:
    """Return the completions of the acting `agents`, cut to `MAX_ACTION_LENGTH` and without lone surrogates.

    Raises:
        KeyError: If an agent's action is missing, or an unknown agent acts.
        TypeError: If the actions are no mapping, or an action is not a string.
    """
    if not isinstance(actions, Mapping):
        raise TypeError(
            f"actions must be a mapping such as {{{agents[0] if agents else 'agent'!r}: 'text'}}, with a text for "
            f"each agent, got a {type(actions).__name__}: a list in their order is dict(zip(env.agents, actions))"
        )
    for agent in actions:
        if agent not in agents and agent not in waiting:
            raise KeyError(unknown("agent", agent, agents))
    completions = {}
    for agent in agents:
        if agent not in actions:
            raise KeyError(f"no action for agent {agent!r}; the agents {list(agents)} act now")
        text = actions[agent]
        if not isinstance(text, str):
            raise TypeError(f"the action of {agent!r} must be a str, got {type(text).__name__}")
        # Lone surrogates cannot be written to files or sent to workers: they become question marks.
        completions[agent] = text[:MAX_ACTION_LENGTH].encode("utf-8", "replace").decode()
    return completions
