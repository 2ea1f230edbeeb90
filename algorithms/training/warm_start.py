"""Warm start: supervised learning before the first update; its options, and the callback that it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llm_decpomdp.algorithms.rollouts.rollout import Start, TextEnv
from llm_decpomdp.options import Options, option
from llm_decpomdp.policy import Team

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.sft import SupervisedTraining
    from llm_decpomdp.algorithms.training.sft_data import Demonstration


GOLD = "gold"  # source of demonstrations: the references of the environment

PASSES = "passes"
"""Source of demonstrations: passing episodes of the team itself (`expert_iteration.py`)."""


class WarmStartOptions(Options):
    """Supervised learning before reinforcement, on training problems or on a file."""

    switch = "source"
    source: str | None = None
    """Completions to be imitated: `gold`, the references of the environment; `passes`, what the team itself solves
    its training problems with; or the path of a JSONL file with `agent`, `prompt` and `completion` in each line,
    as `export --to jsonl` writes them. Null for no warm start."""
    samples: int = option(8, ge=1, only_with=("source", PASSES))
    """With `passes`, episodes of each problem in a round."""
    rounds: int = option(1, ge=1, only_with=("source", PASSES))
    """With `passes`, rounds of sampling and imitating, each by the team that the one before has left."""
    min_reward: float | None = option(None, only_with=("source", PASSES))
    """With `passes`, the least reward of an episode's last turn that counts as a pass; null asks the environment
    whether the problem is `solved`."""
    epochs: int = option(1, ge=1, unless=("source", None))
    """Number of times that all demonstrations are learned, each time in another order."""
    learning_rate: float = option(1e-5, gt=0, unless=("source", None))
    """Learning rate of AdamW, constant; reinforcement learning begins with a new optimizer."""
    share: float = option(1.0, gt=0, le=1, unless=("source", None))
    """Part of the problems, or of the lines of a file, that are learned from; the seed draws it, and a larger part
    contains a smaller one."""
    batch_size: int = option(8, ge=1, unless=("source", None))
    """Problems, passes, or lines of a file, of a step."""
    disjoint: bool = option(False, unless=("source", None))
    """Leave the problems of this part out of reinforcement, which then learns from others alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.disjoint and self.share == 1:
            raise ValueError(
                "disjoint=True would leave no problem for reinforcement with share=1: set share below 1"
            )
        if self.disjoint and self.source not in (None, GOLD, PASSES):
            raise ValueError(
                f"disjoint=True does not know which problems the lines of source={self.source} are of: take "
                f"{GOLD} or {PASSES}, or drop it"
            )


def make_warm_start(
    env: TextEnv,
    team: Team,
    options: WarmStartOptions,
    demonstrations: Sequence[Demonstration],
    *,
    problems: Sequence[Start] = (),
    max_grad_norm: float | None = None,
    seed: int = 0,
) -> SupervisedTraining:
    """Build the supervised phase before the first update.

    Args:
        env: The environment of training.
        team: The team that learns.
        options: The source of the demonstrations, and how to learn from them.
        demonstrations: The demonstrations, if the team does not sample its own.
        problems: Starts of the problems that the team samples with `source=passes`.
        max_grad_norm: Largest norm of a policy's gradient; `None` for no limit.
        seed: Decides the order of demonstrations, and all samples.

    Raises:
        ValueError: If there is nothing to learn from, or the episodes of a problem would be absurdly many.
        TypeError: If a policy cannot encode a text that it did not sample.
    """
    if options.source == PASSES:
        from llm_decpomdp.algorithms.training.expert_iteration import ExpertIteration

        return ExpertIteration(env, team, problems, options, max_grad_norm=max_grad_norm, seed=seed)
    from llm_decpomdp.algorithms.training.sft import SupervisedTraining

    return SupervisedTraining(team, demonstrations, options, max_grad_norm=max_grad_norm, seed=seed)
