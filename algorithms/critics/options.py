"""Options of a critic. Nothing here runs in an update without one."""

from __future__ import annotations

from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.options import Options, option, refuse_changes

SCOPES = ("none", "joint", "own")
TRUNKS = ("frozen", "lora")
INPUTS = ("history+state", "history", "state", "prompts")
DEFAULT_INPUT = "history+state"


class CriticOptions(Options):
    """The critic of a learner.

    Raises:
        ValueError: If a value is out of its range, or does nothing without a critic.
    """

    switch = "critic"
    critic: str | None = option(None, choices=SCOPES, key="scope", neutral=("none",))
    """Values of states, learned beside the policies: by one critic of the team (`joint`), one of each agent
    (`own`), or `none`; null for what the algorithm has, as `iac`, `maac` and `coma` do. Others learn with one what
    pays only later. Critics exist in training alone, and no agent sees what they read."""
    critic_input: str | None = option(
        None, choices=INPUTS, key="input", unless=("critic", "none"), neutral=(DEFAULT_INPUT,)
    )
    """Text that a critic reads: all prompts and answers so far and the environment's `state()`, the same without
    that state, that state alone, or the present `prompts` alone; null for `history` with `iac`, else
    `history+state`. Of prompts and answers an agent's own critic reads its own, and long ones that the state has
    word for word are not read twice."""
    critic_trunk: str = option("frozen", choices=TRUNKS, key="trunk", unless=("critic", "none"))
    """What reads that text: a policy's model as it was before training, without its adapter (`frozen`), or the
    same with an adapter of the critic's own, which has the shape of the policy's and learns with the critic
    (`lora`). That needs policies with `lora`, and takes passes with gradients over the newest states."""
    critic_part_length: int = option(4000, ge=16, key="part_length", unless=("critic", "none"))
    """Largest number of characters of a prompt, an answer or a state in that text; the middle of a longer one is
    left out."""
    critic_lambda: float = option(0.95, ge=0, le=1, key="td_lambda", unless=("critic", "none"))
    """Weight of what really followed against what the critic expected, in the critic's targets: TD(lambda)."""
    critic_learning_rate: float = option(1e-3, gt=0, key="learning_rate", unless=("critic", "none"))
    """Learning rate of its AdamW."""
    critic_epochs: int = option(2, ge=1, key="epochs", unless=("critic", "none"))
    """Passes of an update over the newest states."""
    critic_gate: bool = option(True, key="gate", unless=("critic", "none"))
    """Use the critic of a turn only while it explains some of the variance of returns that it was not yet trained
    on. Otherwise that turn is learned as without one; `iac` and `maac` compare with its running mean return."""


def check_critic_rollouts(options: CriticOptions, rollouts: RolloutOptions) -> None:
    """Raise a `ValueError` if a critic cannot learn from such rollouts."""
    if rollouts.plan != "chain":
        whole = f"plan={rollouts.plan}, whose returns are those of whole episodes"
        refuse_changes(options, ["critic"], whole, "set plan=chain, or drop it")
    if rollouts.refill:
        raise ValueError(
            f"refill={rollouts.refill} looks for starts without a learning signal, which the critic has not read: "
            "set refill=0, or use an algorithm without a critic"
        )
