"""The agents that are in an episode and that act next, as a mode with `present` or `acting` names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_decpomdp.interfaces import Mode, PartError, Turn


def present_agents(
    mode: Mode, task: Any, turns: Sequence[Turn], possible_agents: Sequence[str]
) -> list[str]:
    """Return the live agents before the next turn: those that the mode names in `present`, or else all.

    Raises:
        PartError: If the mode names an unknown agent, or nobody, or one that left before.
    """
    if not hasattr(mode, "present"):
        return list(possible_agents)
    present = _named(mode, "present", task, turns, possible_agents)
    if turns and set(present) - set(_named(mode, "present", task, turns[:-1], possible_agents)):
        # A set of all earlier turns, since an agent may join, but not join again.
        earlier = [set(mode.present(task, turns[:n])) for n in range(len(turns))]
        back = [
            a for a in present if a not in earlier[-1] and any(a in agents for agents in earlier)
        ]
        if back:
            raise PartError(
                f"the mode {type(mode).__name__} lets {back} return on the task {task.task_id!r}: an agent that "
                "left an episode is over; let it wait by `acting` instead"
            )
    return present


def agents_to_act(mode: Mode, task: Any, turns: Sequence[Turn], agents: Sequence[str]) -> list[str]:
    """Return the agents that act next: those that the mode names in `acting`, or else all live ones.

    Raises:
        PartError: If the mode names an agent that is not live, or nobody.
    """
    if not agents or not hasattr(mode, "acting"):
        return list(agents)
    return _named(mode, "acting", task, turns, agents)


def _named(
    mode: Any, method: str, task: Any, turns: Sequence[Turn], agents: Sequence[str]
) -> list[str]:
    """Return the agents that a method of the mode names, in the order of `agents`."""
    names = list(getattr(mode, method)(task, tuple(turns)))
    if not names or not set(names) <= set(agents):
        raise PartError(
            f"{method} of the mode {type(mode).__name__} must name one or more of the agents {list(agents)}, got "
            f"{names} on the task {task.task_id!r}"
        )
    return [agent for agent in agents if agent in names]
