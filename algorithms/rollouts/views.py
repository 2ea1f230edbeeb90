"""States as a critic reads them, and no agent: recorded by `collect_rollouts(..., views=True)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from llm_decpomdp.algorithms.rollouts.rollout import Group, StepOutcome, TextEnv


class View(NamedTuple):
    """A state as a critic reads it, and no agent."""

    state: str
    """The environment's `state()`; empty if it has none."""
    prompts: Mapping[str, str]
    """The prompt of each agent."""


def add_views(
    group: Group,
    env: TextEnv,
    prompts: Mapping[str, str],
    outcomes: Sequence[StepOutcome],
) -> Group:
    """Return a group with the states before and after it.

    Args:
        group: The group.
        env: The environment before its joint samples.
        prompts: The prompt of each agent there.
        outcomes: What each joint sample led to; empty if no group follows them.
    """
    after = tuple(_view_after(outcome) for outcome in outcomes) or (None,) * len(group.joint)
    return replace(group, view=_view(env, prompts), views=after)


def _view_after(outcome: StepOutcome) -> View | None:
    """Return the state that a joint sample led to, or in which a time limit cut the episode off."""
    prompts = outcome.prompts or outcome.cut
    return _view(outcome.env, prompts) if prompts else None


def _view(env: TextEnv, prompts: Mapping[str, str]) -> View:
    """Return a state as a critic reads it; raise a `TypeError` if the environment's `state()` isn't a text."""
    try:
        state = env.state() if hasattr(env, "state") else ""
    except NotImplementedError:  # PettingZoo's own
        state = ""
    if not isinstance(state, str):
        raise TypeError(
            f"a critic reads texts, and state() of {type(env).__name__} returned a {type(state).__name__}: let it "
            "return a str, or set critic.input=history"
        )
    return View(state, dict(prompts))
