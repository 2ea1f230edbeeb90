"""The states of an update as a critic reads them: texts, and their features."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from llm_decpomdp.algorithms.critics.options import DEFAULT_INPUT, CriticOptions
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, View
from llm_decpomdp.utils.text import shorten

REPEATED = 80
"""Fewest characters of a prompt or an answer that are not said again if they stand in the state, word for word:
shorter ones may stand in it by chance."""


class Exchange(NamedTuple):
    """A turn of the past."""

    prompts: Mapping[str, str]
    """The prompt of each agent."""
    answers: Mapping[str, str]
    """The answer of each agent that was played."""


class Text(NamedTuple):
    """A text for a critic."""

    text: str
    cut_parts: int
    """Number of parts that were too long."""


def history(rollout: Rollout, group: int, sample: int | None = None) -> list[Exchange]:
    """Return the turns that led to a group or, with a joint sample of it, to the state after that."""
    exchanges = []
    index: int | None = group
    while index is not None:
        present = rollout.groups[index]
        if sample is not None:
            exchanges.append(_exchange(present, sample))
        index, sample = present.parent or (None, None)
    return exchanges[::-1]


def _exchange(group: Group, sample: int) -> Exchange:
    pairs = zip(group.completions.items(), group.joint[sample], strict=True)
    return Exchange(group.prompts, {agent: answers[g].text for (agent, answers), g in pairs})


def critic_text(
    kind: str,
    view: View,
    past: Collection[Exchange],
    agents: Collection[str],
    limit: int,
    answers: Mapping[str, str] | None = None,
) -> Text:
    """Write the text of a state.

    Args:
        kind: One of `INPUTS` (`options.py`). Long parts of the past that stand in a state too (see `REPEATED`) are
            not said again: the state of a coding task has all of them.
        view: The state.
        past: The turns before.
        agents: The agents whose prompts and answers stand in it.
        limit: Largest number of characters of a part; of a longer one beginning and end are kept. A state that is
            read alone may have as many as all parts of `history+state`.
        answers: What each agent answers in the state, if that is read too.
    """
    parts = []
    if "history" in kind:
        for turn, (prompts, given) in enumerate(past, 1):
            parts += [(f"{agent} saw in turn {turn}", prompts[agent]) for agent in agents]
            parts += [(f"{agent} answered in turn {turn}", given[agent]) for agent in agents]
    if kind == "state":  # one part that holds all others
        limit *= 1 + 2 * len(agents) * len(past) + len(agents)
    else:
        parts += [(f"{agent} sees", view.prompts[agent]) for agent in agents]
    if "state" in kind:
        state = shorten(view.state, limit)
        news = [part for part in parts if len(part[1]) < REPEATED or part[1] not in state]
        parts = [("state", view.state), *news]
    parts += [(f"{agent} answers", text) for agent, text in (answers or {}).items()]
    texts = (f"[{title}]\n{shorten(text, limit)}" for title, text in parts if text)
    return Text("\n\n".join(texts), sum(len(text) > limit for _, text in parts))


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
