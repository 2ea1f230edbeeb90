"""Options of a critic. Nothing here runs in an update without one."""

from __future__ import annotations

from typing import ClassVar

from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.options import Options, option, refuse_changes

INPUTS = ("history+state", "history", "state", "prompts")
DEFAULT_INPUT = "history+state"


class CriticOptions(Options):
    """The critic of a learner."""

    switch = "scope"
    former_names: ClassVar = {
        "critic": "scope",
        "critic_input": "input",
        "critic_trunk": "trunk",
        "critic_part_length": "part_length",
        "critic_lambda": "td_lambda",
        "critic_learning_rate": "learning_rate",
        "critic_epochs": "epochs",
        "critic_gate": "gate",
    }
    scope: str | None = option(None, choices=("none", "joint", "own"), neutral=("none",))
    """One critic of the team (`joint`), one for each agent (`own`), or `none`; null uses the algorithm's own
    critic (`iac`, `maac`, `coma`). For other algorithms a critic extends the return beyond the current turn.
    Critics exist in training only, and no agent sees what they read."""
    input: str | None = option(
        None, choices=INPUTS, unless=("scope", "none"), neutral=(DEFAULT_INPUT,)
    )
    """Text that a critic reads: `history` is all prompts and answers so far, `state` the environment's `state()`,
    `prompts` the current prompts only; null means `history` with `iac`, else `history+state`. An agent's own
    critic reads only the prompts and answers of its agent. Long ones that the state contains are read once."""
    trunk: str = option("frozen", choices=("frozen", "lora"), unless=("scope", "none"))
    """Model that reads the text: a policy's model before training, without its adapter (`frozen`), or the same
    with a separate adapter that learns with the critic and has the shape of the policy's (`lora`). `lora` needs
    policies with `lora`, and takes passes with gradients over the newest states."""
    part_length: int = option(4000, ge=16, unless=("scope", "none"))
    """Maximum number of characters of a prompt, an answer or a state in the text; longer ones lose the middle."""
    td_lambda: float = option(0.95, ge=0, le=1, unless=("scope", "none"))
    """Lambda of the TD(lambda) targets: 1 uses observed returns only, 0 the critic's one-step estimate only."""
    learning_rate: float = option(1e-3, gt=0, unless=("scope", "none"))
    """Learning rate of the critic's AdamW."""
    epochs: int = option(2, ge=1, unless=("scope", "none"))
    """Passes of an update over the newest states."""
    gate: bool = option(True, unless=("scope", "none"))
    """Use the critic of a turn only while it explains variance of returns that it was not trained on. Otherwise
    the turn is learned as without a critic; `iac` and `maac` then compare with its running mean return."""

    @property
    def exists(self) -> bool:
        """Whether there is a critic."""
        return self.scope not in (None, "none")


def check_critic_rollouts(updates: Options, rollouts: RolloutOptions) -> None:
    """Raise a `ValueError` if a critic cannot learn from such rollouts."""
    if rollouts.mode != "chain":
        whole = f"rollout.mode={rollouts.mode}, whose returns are those of whole episodes"
        refuse_changes(updates, ["critic.scope"], whole, "set rollout.mode=chain, or drop it")
    if rollouts.max_resample_rounds:
        raise ValueError(
            f"max_resample_rounds={rollouts.max_resample_rounds} looks for starts without a learning signal, "
            "which the critic has not read: set max_resample_rounds=0, or use an algorithm without a critic"
        )
