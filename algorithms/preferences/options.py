"""Options of learning from preferences."""

from __future__ import annotations

from llm_decpomdp.options import Options, option

CURRENT, HISTORY = "current", "history"
KINDS = ("joint", "single")
SELECTIONS = ("largest_gap", "random")


class PreferenceOptions(Options):
    """Pairs of joint samples and their loss: the options of `PreferenceAlgorithm`.

    Raises:
        ValueError: If a value is out of its range.
    """

    pair_kind: str = option("joint", choices=KINDS)
    """Pairs of joint samples of a group, of which the one with the higher return is to become likelier: any two
    (`joint`), or two that differ in the completion of one agent alone (`single`), which alone then learns from
    them. `single` needs `joint_mode=common` or `cross`, unless there is one agent."""
    pair_selection: str = option("largest_gap", choices=SELECTIONS)
    """Pairs that are taken first: those with the largest difference of returns, or `random` ones, which the seed
    draws. No completion of an agent is in two of them with a part in the loss."""
    pair_min_gap: float = option(0.5, ge=0)
    """Least difference of the returns of a pair, in standard deviations of the group's returns. Equal returns make
    no pair, also at 0."""
    pairs_per_group: int = option(8, ge=1)
    """Most pairs of a group."""
    pairs_per_start: int | None = option(None, ge=1)
    """Most pairs of a start in an update, over all its turns; null for no limit but that of each group."""
    comparator: str = option(CURRENT, key="opponent")
    """Team whose joint samples are the other side of each pair: the team itself (`current`), the same at an
    earlier visit of the start (`history`), or another one that plays beside it, by the path of its folder, as
    `output.save_final_model` writes it. Either side may be the better one. Later turns of a start, in which states
    differ, and starts that `history` does not know yet make pairs as `current` does."""
    comparator_age: int | None = option(
        1, ge=1, key="opponent_lag", only_with=("comparator", HISTORY)
    )
    """Under `history`, number of visits back: 1 is the last one. Where there were fewer, and with null always, it
    is the first."""
    dpo_beta: float = option(0.1, gt=0)
    """Weight of the log-ratios of policy and reference in the margin of a pair: the higher, the closer the team
    stays to the reference, the weights before training or the model without its adapter."""
    nll_coefficient: float = option(0.0, ge=0)
    """Weight of the negative log-likelihood of the winners' completions, summed over tokens: keeps them from
    becoming less likely together with the losers'."""

    @property
    def named_comparator(self) -> str | None:
        """The folder of another team to compare with, if there is one."""
        return None if self.comparator in (CURRENT, HISTORY) else self.comparator
