"""The states of an update as a critic reads them: texts, and their features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

from llm_decpomdp.algorithms.critics.inputs import critic_text, history
from llm_decpomdp.algorithms.critics.options import DEFAULT_INPUT, CriticOptions
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, View

Features = Callable[[Sequence[str]], Tensor]
"""From texts to their features, (B, d), float32."""


class StatePosition(NamedTuple):
    """A state in a batch of rollouts."""

    rollout: int
    group: int
    sample: int | None = None
    """Joint sample of the group that led to it; `None` for the state before the group."""


class States(NamedTuple):
    """The states of a batch."""

    features: dict[StatePosition, Tensor]
    """Features of each, (d,)."""
    texts: dict[StatePosition, str]
    """The text of each."""
    cut_parts: int
    """Number of parts of their texts that were too long."""


def read_states(
    rollouts: Sequence[Rollout],
    options: CriticOptions,
    features: Features,
    agents: Sequence[str] = (),
    *,
    first: bool = False,
) -> States:
    """Write the text of each state, and compute the features of all that differ at once.

    Args:
        rollouts: With views.
        options: Input of the critic.
        features: Featuriser.
        agents: The agents whose prompts and answers are read; all if none is given.
        first: Whether the first state of an episode is read too, which no return needs.
    """
    places: dict[StatePosition, str] = {}
    cut_parts = 0
    for place, view in _views(rollouts, first):
        rollout = rollouts[place.rollout]
        text, cut = critic_text(
            options.critic_input or DEFAULT_INPUT,
            view,
            history(rollout, place.group, place.sample),
            agents or list(view.prompts),
            options.critic_part_length,
        )
        places[place] = text
        cut_parts += cut
    # Equal texts are read once: the joint samples of a group share their past.
    rows = {text: row for row, text in enumerate(dict.fromkeys(places.values()))}
    values = features(list(rows)).float().cpu() if rows else ()
    found = {place: values[rows[text]] for place, text in places.items()}
    return States(found, places, cut_parts)


def _views(rollouts: Sequence[Rollout], first: bool) -> Iterator[tuple[StatePosition, View]]:
    for number, rollout in enumerate(rollouts):
        for index, group in enumerate(rollout.groups):
            if group.view is not None and (group.turn or first):
                yield StatePosition(number, index), group.view
            for sample, view in enumerate(group.views):
                if view is not None:
                    yield StatePosition(number, index, sample), view
