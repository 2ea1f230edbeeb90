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
