"""Options of learning from preferences."""

from __future__ import annotations

from dataclasses import dataclass, fields

from llm_decpomdp.options import Options, option

KINDS = ("joint", "single")
SELECTIONS = ("largest_gap", "random")


@dataclass(frozen=True)
class PreferenceOptions(Options):
    """Pairs of joint samples and their loss; for algorithms that learn from pairs alone, such as `madpo`.

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
    dpo_beta: float = option(0.1, gt=0)
    """Weight of the log-ratios of policy and reference in the margin of a pair: the higher, the closer the team
    stays to the reference, the weights before training or the model without its adapter."""
    nll_coefficient: float = option(0.0, ge=0)
    """Weight of the negative log-likelihood of the winners' completions, summed over tokens: keeps them from
    becoming less likely together with the losers'."""


def refuse_preferences(name: str, options: PreferenceOptions) -> None:
    """Raise a `ValueError` if an option of pairs is set for an algorithm that makes none."""
    for declared in fields(PreferenceOptions):
        if (value := getattr(options, declared.name)) != declared.default:
            raise ValueError(
                f"{declared.name}={value} means nothing with {name}, which makes no pairs: use madpo, or drop it"
            )
