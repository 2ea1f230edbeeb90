"""The states of an update as a critic reads them: texts, and their features.

A text consists of parts, each with a title. Every part is shortened separately: shortening the text as a whole
would drop the part of the last agent without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from llm_decpomdp.algorithms.critics.options import DEFAULT_INPUT, CriticOptions
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.rollouts.views import View
from llm_decpomdp.utils.text import shorten

Features = Callable[[Sequence[str]], Tensor]
"""From texts to their features, (B, d), float32."""

# Prompts and answers of so many characters are left out if the state contains them; shorter ones may by chance.
REPEATED = 80
# Part of the text of an agent's own critic while the agent waits, which may have seen nothing so far.
WAITS = ("waits", "-")


class Exchange(NamedTuple):
    """An earlier turn: prompts and played answers by agent."""

    prompts: Mapping[str, str]
    answers: Mapping[str, str]


class StatePosition(NamedTuple):
    """A state in a batch of rollouts: before a group, or after one of its joint samples."""

    rollout: int
    group: int
    sample: int | None = None


class States(NamedTuple):
    """The states of a batch: features (d,) and texts by position, and the number of shortened parts."""

    features: dict[StatePosition, Tensor]
    texts: dict[StatePosition, str]
    cut_parts: int


def history(rollout: Rollout, group: int, sample: int | None = None) -> list[Exchange]:
    """Return the turns before a group or, with a joint sample of it, before the state after that sample."""
    exchanges = []
    index: int | None = group
    while index is not None:
        present = rollout.groups[index]
        if sample is not None:
            pairs = zip(present.completions.items(), present.joint[sample], strict=True)
            answers = {agent: completions[g].text for (agent, completions), g in pairs}
            exchanges.append(Exchange(present.prompts, answers))
        index, sample = present.parent or (None, None)
    return exchanges[::-1]


def critic_text(
    kind: str,
    view: View,
    past: Collection[Exchange],
    agents: Collection[str] | None,
    limit: int,
    answers: Mapping[str, str] | None = None,
) -> tuple[str, int]:
    """Write the text of a state; return it and the number of its parts that were shortened.

    Args:
        kind: One of `INPUTS` (`options.py`).
        view: The state.
        past: The turns before.
        agents: The agents whose prompts and answers the text contains; `None` for all. Agents that wait in a turn
            have none in it.
        limit: Maximum number of characters of a part, of which beginning and end are kept. The input `state` may
            have as many characters as all parts of `history+state`.
        answers: The answer of each agent in this state, for a critic of answers.
    """
    parts: list[tuple[str, str]] = []

    def own(texts: Mapping[str, str], what: str) -> list[tuple[str, str]]:
        return [(f"{a} {what}", t) for a, t in texts.items() if agents is None or a in agents]

    if "history" in kind:
        for turn, (prompts, played_answers) in enumerate(past, 1):
            parts += own(prompts, f"saw in turn {turn}")
            parts += own(played_answers, f"answered in turn {turn}")
    if kind == "state":
        number = len(own(view.prompts, "sees"))
        # The parts of `history+state`: the state, a prompt and an answer of each agent a turn, and those prompts
        # that are seen now.
        limit *= 1 + 2 * number * len(past) + number
    else:
        parts += own(view.prompts, "sees") or [WAITS]
    if "state" in kind:
        # The state of a coding task contains all earlier prompts and answers: reading them twice costs tokens.
        state = shorten(view.state, limit)
        news = [part for part in parts if len(part[1]) < REPEATED or part[1] not in state]
        parts = [("state", view.state), *news]
    parts += [(f"{agent} answers", text) for agent, text in (answers or {}).items()]
    texts = (f"[{title}]\n{shorten(text, limit)}" for title, text in parts if text)
    return "\n\n".join(texts), sum(len(text) > limit for _, text in parts)


def read_states(
    rollouts: Sequence[Rollout],
    options: CriticOptions,
    features: Features,
    agents: Sequence[str] = (),
    *,
    first: bool = False,
) -> States:
    """Write the text of each state, and compute the features of all distinct texts in one call.

    Read are the prompts and answers of `agents`, by default all, and with `first` the first state of an episode
    too, which no return needs.
    """
    texts: dict[StatePosition, str] = {}
    cut_parts = 0
    for place, view in _views(rollouts, first):
        text, num_cut = critic_text(
            options.input or DEFAULT_INPUT,
            view,
            history(rollouts[place.rollout], place.group, place.sample),
            agents or None,
            options.part_length,
        )
        texts[place] = text
        cut_parts += num_cut
    # Equal texts are read once: the joint samples of a group share their past.
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts.values()))}
    values = features(list(rows)).float().cpu() if rows else ()
    return States({place: values[rows[t]] for place, t in texts.items()}, texts, cut_parts)


def _views(rollouts: Sequence[Rollout], first: bool) -> Iterator[tuple[StatePosition, View]]:
    for number, rollout in enumerate(rollouts):
        for index, group in enumerate(rollout.groups):
            if group.view is not None and (group.turn or first):
                yield StatePosition(number, index), group.view
            for sample, view in enumerate(group.views):
                if view is not None:
                    yield StatePosition(number, index, sample), view
