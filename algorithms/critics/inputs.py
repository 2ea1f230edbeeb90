"""The text that a critic reads: parts with a title each, and each part cut by itself if it is too long.

A text cut as a whole would lose the last agent's part without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

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
