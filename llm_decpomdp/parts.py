"""Calls of reward and mode, the parts of an environment, with checks of what they return; their description."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from llm_decpomdp.interfaces import Component, Info, Mode, Reward, Turn, Verdict


class PartError(TypeError):
    """A part returned something of another kind than it must: its author's mistake, whatever the agents wrote."""


def evaluate_reward(
    reward: Any, task: Any, completions: Mapping[str, str], turns: Sequence[Turn] = ()
) -> Verdict:
    """Return the verdict of a reward.

    An error that the reward raises gets a note with its class and the task.

    Args:
        reward: A `Reward`.
        task: The problem.
        completions: The completion of each agent that acted.
        turns: The turns before, for rewards with `history`.

    Raises:
        PartError: If it returns something else, other components than it declares, or points that are no finite
            numbers; names its class and the task.
    """
    name = type(reward).__name__
    history = {"turns": tuple(turns)} if getattr(reward, "history", False) else {}
    try:
        verdict = reward(task, completions, **history)
    except Exception as error:
        # A note, not another exception: its class and traceback stay those of the author's mistake.
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(f"raised by the reward {name} on the task {task.task_id!r}")
        raise
    if not isinstance(verdict, Verdict):
        raise PartError(
            f"the reward {name} must return a Verdict, got {reprlib.repr(verdict)} ({type(verdict).__name__}) on "
            f"the task {task.task_id!r}: return Verdict({{name: points}}, solved), with a name for each of its "
            "components"
        )
    declared, points = reward.components, verdict.components
    # Undeclared components would be missing from the infos, and the reward would not be their sum.
    if len(points) != len(declared) or any(component not in points for component in declared):
        raise PartError(
            f"the reward {name} declares the components {list(declared)}, and its verdict on the task "
            f"{task.task_id!r} has {list(points)}: give points to each declared component, 0.0 where it earns none"
        )
    for component, value in points.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise PartError(
                f"the reward {name} gives {value!r} for the component {component!r} on the task {task.task_id!r}: "
                "points are finite numbers"
            )
    if verdict.own:
        _check_own(reward, task, verdict.own)
    return verdict


def _check_own(reward: Any, task: Any, own: Mapping[str, Mapping[str, float]]) -> None:
    """Raise a `PartError` unless the own points of agents are finite numbers of declared components."""
    declared = list(getattr(reward, "own_components", ()))
    for agent, points in own.items():
        for component, value in points.items():
            number = isinstance(value, int | float) and math.isfinite(value)
            if component not in declared or not number:
                raise PartError(
                    f"the reward {type(reward).__name__} gives {agent!r} {value!r} for its own component "
                    f"{component!r} on the task {task.task_id!r}: give finite numbers for its "
                    f"own_components {declared}"
                )


def check_prompts(
    mode: Mode, prompts: object, agents: Sequence[str], task: Any
) -> Mapping[str, str]:
    """Return the prompts; raise a `PartError` unless a mode wrote a text for each agent, and for no other."""
    if isinstance(prompts, Mapping) and len(prompts) == len(agents):
        if all(isinstance(prompts.get(agent), str) for agent in agents):
            return prompts
    prompt_keys = list(prompts) if isinstance(prompts, Mapping) else prompts
    raise PartError(
        f"the mode {type(mode).__name__} must return a prompt (str) for each of the agents {list(agents)}, got "
        f"{reprlib.repr(prompt_keys)} on the task {task.task_id!r}"
    )


def next_prompts(
    mode: Any, task: Any, turn: Turn, turns: Sequence[Turn]
) -> tuple[dict[str, str], Info]:
    """Return the prompts after a turn, and the numbers of `info_keys`.

    Args:
        mode: A `Mode`.
        task: The problem.
        turn: The newest turn, with the analysis of its verdict.
        turns: All turns, for modes with `history`.
    """
    history = {"turns": tuple(turns)} if getattr(mode, "history", False) else {}
    prompts: dict[str, str]
    prompts, infos = mode(task, turn, **history)
    return prompts, infos


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


def describe_reward(reward: Reward) -> dict[str, Any]:
    """Describe a reward by JSON-able data.

    Returns:
        `maximum`, the most that a turn can earn, or `None` where that is not known, and `components`: for each
        name the fields of its `Component`, with an empty text where the reward has none. `cumulative` is true
        where the points of an episode sum to its score, and else missing.
    """
    texts = reward.components if isinstance(reward.components, Mapping) else {}
    return {
        "maximum": getattr(reward, "maximum", None),
        "components": {name: asdict(texts.get(name, Component())) for name in reward.components},
        **({"cumulative": True} if getattr(reward, "cumulative", False) else {}),
    }
