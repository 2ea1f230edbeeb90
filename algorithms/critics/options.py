"""Options of a critic, and the critic that an algorithm cannot do without."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

from llm_decpomdp.options import Options, option

SCOPES = ("none", "joint", "own")
TRUNKS = ("frozen", "lora")
INPUTS = ("history+state", "history", "state", "prompts")
DEFAULT_INPUT = "history+state"


class OwnCritic(NamedTuple):
    """The critic that belongs to an algorithm."""

    role: str
    """`baseline` or `counterfactual`: what its values are for, besides the future (`building.py`)."""
    scope: str
    """`joint` or `own`."""
    input: str
    """Text that it reads unless `critic_input` says otherwise."""


class CriticOptions(Options):
    """The critic of a learner.

    Raises:
        ValueError: If a value is out of its range, or means nothing without a critic.
    """

    critic: str | None = option(None, choices=SCOPES)
    """Values of states, learned beside the policies: by one critic of the team (`joint`), one of each agent
    (`own`), or `none`; null for what the algorithm has, as `iac`, `maac` and `coma` do. Others learn with one what
    pays only later. Critics exist in training alone, and no agent sees what they read."""
    critic_input: str | None = option(None, choices=INPUTS)
    """Text that a critic reads: all prompts and answers so far and the environment's `state()`, the same without
    that state, that state alone, or the present `prompts` alone; null for `history` with `iac`, else
    `history+state`. Of prompts and answers an agent's own critic reads its own, and long ones that the state has
    word for word are not read twice."""
    critic_trunk: str = option("frozen", choices=TRUNKS)
    """What reads that text: a policy's model as it was before training, without its adapter (`frozen`), or the
    same with an adapter of the critic's own, which has the shape of the policy's and learns with the critic
    (`lora`). That needs policies with `lora`, and takes passes with gradients over the newest states."""
    critic_part_length: int = option(4000, ge=16)
    """Largest number of characters of a prompt, an answer or a state in that text; the middle of a longer one is
    left out."""
    critic_lambda: float = option(0.95, ge=0, le=1)
    """Weight of what really followed against what the critic expected, in the critic's targets: TD(lambda)."""
    critic_learning_rate: float = option(1e-3, gt=0)
    """Learning rate of its AdamW."""
    critic_epochs: int = option(2, ge=1)
    """Passes of an update over the newest states."""
    critic_gate: bool = True
    """Use the critic of a turn only while it explains some of the variance of returns that it was not yet trained
    on. Otherwise that turn is learned as without one; `iac` and `maac` compare with its running mean return."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.critic != "none":
            return
        for declared in fields(CriticOptions)[1:]:
            if (value := getattr(self, declared.name)) not in (declared.default, DEFAULT_INPUT):
                raise ValueError(
                    f"{declared.name}={value} means nothing without a critic: set critic=joint or critic=own, or "
                    "drop it"
                )
