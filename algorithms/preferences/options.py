"""Options of learning from preferences."""

from __future__ import annotations

from typing import ClassVar

from llm_decpomdp.options import Options, option, refuse_changes

CURRENT, HISTORY = "current", "history"


class PreferenceOptions(Options):
    """Pairs of joint samples and their loss: the options of `PreferenceAlgorithm`."""

    former_names: ClassVar = {"comparator": "opponent", "comparator_age": "opponent_lag"}
    pair_kind: str = option("joint", choices=("joint", "single"))
    """Pairs of joint samples of a group, of which the one with the higher return becomes more likely: any two
    (`joint`), or two that differ in the completion of one agent (`single`). Only this agent then learns from the
    pair. `single` needs `joint_mode=common` or `cross`, unless there is one agent."""
    pair_selection: str = option("largest_gap", choices=("largest_gap", "random"))
    """Order of the pairs: by the largest difference of returns, or `random`, drawn from the seed. No completion
    enters the loss twice."""
    pair_min_gap: float = option(0.5, ge=0)
    """Minimum difference of the returns of a pair, in standard deviations of the group's returns. Equal returns
    make no pair, even with 0."""
    pairs_per_group: int = option(8, ge=1)
    """Maximum number of pairs of a group."""
    pairs_per_start: int | None = option(None, ge=1)
    """Maximum number of pairs of a start in an update, over all its turns; null means no limit."""
    opponent: str = option(CURRENT)
    """Team on the other side of each pair: the team itself (`current`), the team at an earlier visit of the start
    (`history`), or another team, by the path of its folder from `output.save_final_model`. Either side may be
    better. Later turns, in which states differ, and starts that are new to `history` make pairs as `current`."""
    opponent_lag: int | None = option(1, ge=1, only_with=("opponent", HISTORY))
    """With `history`, number of visits to go back: 1 is the last one; null is the first one, as are numbers above
    the number of visits."""
    dpo_beta: float = option(0.1, gt=0)
    """Weight of the log-ratios of policy and reference in the margin of a pair. Higher values keep the team closer
    to the reference: the weights before training, or the model without its adapter."""
    nll_coefficient: float = option(0.0, ge=0)
    """Weight of the negative log-likelihood of the winners, summed over tokens: it keeps winners from becoming
    less likely together with losers."""

    @property
    def named_opponent(self) -> str | None:
        """The folder of another team to compare with, if there is one."""
        return None if self.opponent in (CURRENT, HISTORY) else self.opponent


CHOOSING = ("pair_selection", "pair_min_gap", "pairs_per_group", "opponent")
"""Options by which pairs are chosen among those of a group; stored pairs were chosen before."""

STORED = ("preferences.source, as nothing is sampled", "drop one of them")
"""What options of samples do nothing with, and the remedy."""


class PreferenceConfig(PreferenceOptions):
    """Preference pairs of `madpo`, and their loss."""

    switch = "source"
    former_names: ClassVar = {"pairs_source": "source"}
    source: str | None = None
    """Pairs to learn from in place of samples of the run's own: the path of a JSONL file that
    `export --pairs --to jsonl` has written; null samples. The problems of an epoch are then its pairs, and
    `pairs_per_start` is the most pairs of a task in it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source is not None:
            refuse_changes(self, CHOOSING, *STORED)
