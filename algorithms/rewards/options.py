"""Options of a reward model: its training, and its use in a run."""

from __future__ import annotations

from llm_decpomdp.options import Options, option


class RewardModelOptions(Options):
    """The training of a reward model on comparisons.

    Raises:
        ValueError: If a value is out of its range.
    """

    held_out: float = option(0.2, gt=0, lt=1)
    """Share of the tasks whose pairs are held out, and judge the model; of the pairs where there is one task."""
    penalty: float = option(0.01, gt=0)
    """Weight of half the squared norm of the model's weights in the loss."""
    part_length: int = option(4000, ge=16)
    """Largest number of characters of a prompt or an answer in the text that the model reads; the middle of a
    longer one is left out."""
    seed: int = option(0, ge=0)
    """Draws what is held out."""


class RewardScoreOptions(Options):
    """A reward model whose scores the learner sees instead of the task's reward."""

    switch = "reward_model"
    reward_model: str | None = option(None, key="path")
    """File of a reward model, as `reward-model` writes it, whose scores the learner is given in place of the
    task's reward; evaluations are on the task's. It must have been trained with the model of a policy here."""
    reward_model_every: int = option(0, ge=0, key="update_interval", unless=("reward_model", None))
    """Updates after which the reward model is fitted anew, to pairs of what the team has said, by the task's
    reward; 0 keeps it as it is."""
