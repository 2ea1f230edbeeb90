"""The passes of an update: which agent's policy computes log-probabilities of which completions, in which order.

A pass of a model in shards gathers its weights, so that all processes take part: every one makes as many as any
other, in the same order. Where one has a lesson and another has none, the other learns one with weight 0. Where
no weights lie in shards, one pass serves several groups with the same prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from llm_decpomdp.agents.models.shards import in_shards
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.advantages import GroupAdvantages
from llm_decpomdp.policy import Completion, TrainablePolicy


class Turn(NamedTuple):
    """What one agent learns from one group."""

    place: int
    """Position of the group among those that this process learns from."""
    agent: str
    credit: GroupAdvantages
    counts: bool = True
    """False where only other processes have something to learn; the credit's weight is 0."""

    @property
    def prompt(self) -> str:
        """The agent's prompt."""
        return self.credit.group.prompts[self.agent]

    @property
    def completions(self) -> tuple[Completion, ...]:
        """The agent's completions."""
        return self.credit.group.completions[self.agent]


def turns(
    credits: Sequence[GroupAdvantages],
    agents: Mapping[str, TrainablePolicy],
    every: bool = False,
) -> list[Turn]:
    """Return the turns of this process, in order; with weights in shards, as many as any process has.

    Args:
        credits: The groups that this process learns from.
        agents: The agents that learn, and their policies, in the same order in all processes.
        every: Whether agents learn also where their advantages are 0.
    """
    own = [
        Turn(place, agent, credit)
        for place, credit in enumerate(credits)
        for agent, advantages in credit.advantages.items()
        if every or advantages.any()
    ]
    cut = {agent for agent, policy in agents.items() if in_shards(policy.parameters())}
    return _beside_others(own, list(agents), cut) if cut else own


def with_equal_prompts(lessons: Sequence[Turn]) -> list[list[Turn]]:
    """Return the turns that one pass can compute, each list with one agent and one prompt.

    In whole episodes, groups of one completion often have the prompt of others. A pass of an agent's policy has at
    most as many characters as that of its largest group, with the prompt before each completion.
    """
    most: dict[str, int] = {}
    for turn in lessons:
        most[turn.agent] = max(most.get(turn.agent, 0), _characters([turn]))
    passes: list[list[Turn]] = []
    open_ones: dict[tuple[str, str], list[Turn]] = {}
    for turn in lessons:
        key = turn.agent, turn.prompt
        together = open_ones.get(key)
        if together is None or _characters([*together, turn]) > most[turn.agent]:
            together = open_ones[key] = []
            passes.append(together)
        together.append(turn)
    return passes


def _characters(together: Sequence[Turn]) -> int:
    """Return the characters of some turns with one prompt, as a padded batch has them."""
    texts = [completion.text for turn in together for completion in turn.completions]
    return len(texts) * (len(together[0].prompt) + max(map(len, texts)))


def _beside_others(own: Sequence[Turn], agents: Sequence[str], cut: set[str]) -> list[Turn]:
    """Add what the others learn by a policy in shards and this process does not, with weight 0."""
    mine = {(turn.place, turn.agent): turn for turn in own}
    examples = {turn.agent: _without_weight(turn) for turn in reversed(own) if turn.agent in cut}
    shared = processes.gather([(list(mine), examples)])
    anywhere = {key for keys, _ in shared for key in keys if key[1] in cut} | mine.keys()
    standins = {agent: turn for _, of_one in shared for agent, turn in of_one.items()}
    order = sorted(anywhere, key=lambda key: (key[0], agents.index(key[1])))
    return [mine[key] if key in mine else standins[key[1]] for key in order]


def _without_weight(turn: Turn) -> Turn:
    """Return a turn that teaches nothing, with one completion: something for any process to compute."""
    agent, credit = turn.agent, turn.credit
    group = replace(
        credit.group,
        prompts={agent: credit.group.prompts[agent]},
        completions={agent: credit.group.completions[agent][:1]},
        drafts=(),
        view=None,
    )
    advantages = {agent: credit.advantages[agent][:1]}
    credit = replace(credit, group=group, weight=0.0, advantages=advantages, values={})
    return Turn(turn.place, agent, credit, counts=False)
