"""How a run samples, evaluates and saves."""

from __future__ import annotations

from dataclasses import dataclass

from llm_decpomdp.algorithms.rollouts.chain import HANDOFFS
from llm_decpomdp.algorithms.rollouts.joint import JOINT_MODES
from llm_decpomdp.validation import unknown

PLANS = ("chain", "tree")


@dataclass(frozen=True)
class TrainerOptions:
    """How a run samples, evaluates and saves.

    Raises:
        ValueError: If a value is out of its range, or two do not fit together.
    """

    group_size: int = 4
    """Completions of each agent in a group (G), at least 2."""
    plan: str = "chain"
    """`chain`: one joint sample of a group goes on to the next turn. `tree`: all of them do."""
    joint_mode: str = "aligned"
    """In a tree, `aligned` plays the g-th completions of all agents together, `cross` each with each."""
    handoff: str = "random"
    """In a chain, which joint sample goes on to the next turn: `random` or `best`."""
    early_termination_threshold: float | None = None
    """Mean reward of a group at which nothing follows it; `None` stops nothing."""
    eval_every: int = 0
    """Updates between evaluations; 0 leaves those before the first and after the last update."""
    keep_best: bool = False
    """Keep the policies of the evaluation with the highest mean reward, the first of equal ones.

    That reward is the highest of several noisy ones, and so promises a little too much."""
    checkpoint_every: int = 0
    """Updates between checkpoints, and one after the last; 0 saves only when the run is stopped or fails."""
    keep_checkpoints: int = 2
    """How many of the newest checkpoints to keep, beside the best."""
    record_tokens: bool = False
    """Write the token ids and log-probabilities of every completion to `episodes.jsonl`."""
    seed: int = 0
    """Decides all that is drawn at random, beside the starts."""

    def __post_init__(self) -> None:
        if self.group_size < 2:
            raise ValueError(
                f"group_size must be at least 2, as samples are compared, got {self.group_size}"
            )
        choices = {"plan": PLANS, "joint_mode": JOINT_MODES, "handoff": HANDOFFS}
        for name, names in choices.items():
            if getattr(self, name) not in names:
                raise ValueError(unknown(name, getattr(self, name), names))
        bounds = {"eval_every": 0, "checkpoint_every": 0, "keep_checkpoints": 1, "seed": 0}
        for name, least in bounds.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.plan == "chain" and self.joint_mode != "aligned":
            raise ValueError(f"joint_mode={self.joint_mode!r} needs plan='tree'")
        if self.plan == "tree" and self.handoff != "random":
            raise ValueError(
                f"handoff={self.handoff!r} needs plan='chain': in a tree all joint samples go on"
            )

    def evaluates(self, update: int, total: int) -> bool:
        """Whether an evaluation follows `update`, of `total`; 0 stands for before the first."""
        return update in (0, total) or bool(self.eval_every and update % self.eval_every == 0)

    def evaluations(self, total: int) -> int:
        """How many evaluations a run of `total` updates makes."""
        return sum(self.evaluates(update, total) for update in range(total + 1))
