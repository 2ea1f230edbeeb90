"""Options of a critic."""

from __future__ import annotations

from dataclasses import dataclass, fields

from llm_decpomdp.options import Options, option

SCOPES = ("none", "joint", "own")
INPUTS = ("history+state", "history", "prompts")


@dataclass(frozen=True)
class CriticOptions(Options):
    """The critic of a learner.

    Raises:
        ValueError: If a value is out of its range, or means nothing without a critic.
    """

    critic: str = option("none", choices=SCOPES)
    """Values of later states, learned beside the policies, so that a chain learns what pays only later: by one
    critic of the team (`joint`), one of each agent (`own`), or `none`. They exist in training alone, and no agent
    sees what they read."""
    critic_input: str = option("history+state", choices=INPUTS)
    """Text that a critic reads: all prompts and answers so far and the environment's `state()`, the same without
    that state, or the present `prompts` alone. Of prompts and answers an agent's own critic reads its own."""
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
    on. Otherwise that turn is learned as without one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.critic != "none":
            return
        for declared in fields(CriticOptions):
            if (value := getattr(self, declared.name)) != declared.default:
                raise ValueError(
                    f"{declared.name}={value} means nothing without a critic: set critic=joint or critic=own, or "
                    "drop it"
                )
