"""Checks of arguments and actions, with errors that name the value and the nearest valid one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import inf

MAX_ACTION_LENGTH = 100_000
"""Longest completion that is read, in code points; the rest is cut off."""

LISTED = 12
"""Most valid names that an error lists in full."""

NEAREST = 5
"""Number of names that an error lists of more than `LISTED`."""


def unknown(kind: str, name: object, valid: Iterable[str], listing: str = "") -> str:
    """Return the text of an error about a name that does not exist.

    Args:
        kind: The kind of thing that has the name.
        name: The name.
        valid: All valid names. Of more than `LISTED` the text has the `NEAREST` nearest.
        listing: Where all valid names are listed, as in "`llm-decpomdp list` shows all".

    Examples:
        >>> unknown("mode", "pasesd", ["passed", "plain"])
        "unknown mode 'pasesd'; did you mean 'passed'? Valid: passed, plain"
    """
    names = sorted(valid)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(names)
    if len(names) > LISTED:
        nearest = get_close_matches(str(name), names, NEAREST, cutoff=0.3) or names[:NEAREST]
        listed = f"{', '.join(nearest)} and {len(names) - len(nearest)} more"
        listed += f" ({listing})" if listing else ""
    return f"unknown {kind} {name!r}; {hint}Valid: {listed}"


def check_arguments(num_turns: object, stop_when_solved: object, discount: object) -> None:
    """Check a number of turns, a flag and a discount.

    Raises:
        ValueError: If an argument is out of its range.
    """
    check_whole("num_turns", num_turns, 1)
    check_flags(stop_when_solved=stop_when_solved)
    if not isinstance(discount, int | float) or not 0.0 <= discount <= 1.0:
        raise ValueError(f"discount must lie in [0, 1], got {discount!r}")


def check_whole(name: str, value: object, least: int, most: float = inf) -> None:
    """Refuse anything but a whole number of at least `least`, and at most `most`.

    Raises:
        ValueError: If `value` is none; names it and the range.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bounds = f"of at least {least}" if most == inf else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number {bounds}, got {value!r}")


def check_flags(**flags: object) -> None:
    """Refuse anything but True and False, so that a text such as "no" never counts as yes.

    Raises:
        ValueError: If a flag is neither; names it and its value.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")


def requested_task(options: object) -> object:
    """Return the `task_id` of the options of `reset`; `None` if they choose no task.

    The key `options` is ignored, because PettingZoo's API tests pass `options={"options": 1}`.

    Raises:
        TypeError: If the options are no mapping.
        KeyError: If there is another key.
    """
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise TypeError(f"options must be a mapping such as {{'task_id': ...}}, got {options!r}")
    for key in options:
        if key not in ("task_id", "options"):
            raise KeyError(unknown("option of reset", key, ["task_id"]))
    return options.get("task_id")


def read_actions(actions: Mapping[str, str], agents: Sequence[str]) -> dict[str, str]:
    """Return the completions of all live agents, cut to `MAX_ACTION_LENGTH` and without lone surrogates.

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
        if agent not in agents:
            raise KeyError(unknown("agent", agent, agents))
    completions = {}
    for agent in agents:
        if agent not in actions:
            raise KeyError(f"no action for agent {agent!r}; live agents: {list(agents)}")
        text = actions[agent]
        if not isinstance(text, str):
            raise TypeError(f"the action of {agent!r} must be a str, got {type(text).__name__}")
        completions[agent] = text[:MAX_ACTION_LENGTH].encode("utf-8", "replace").decode()
    return completions
