"""Options of a training run: its rollouts, evaluations and checkpoints."""

from __future__ import annotations

from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.options import Options, option


class RewardScoreOptions(Options):
    """A reward model whose scores the learner sees instead of the task's reward."""

    switch = "reward_model"
    reward_model: str | None = option(None, key="path")
    """File of a reward model, as `reward-model` writes it, whose scores the learner is given in place of the
    task's reward; evaluations are on the task's. It must have been trained with the model of a policy here."""
    reward_model_every: int = option(0, ge=0, key="update_interval", unless=("reward_model", None))
    """Updates after which the reward model is fitted anew, to pairs of what the team has said, by the task's
    reward; 0 keeps it as it is."""


class StorageOptions(Options):
    """Files of a run besides its metrics and episodes."""

    keep_best: bool = False
    """Keep the team of the evaluation with the highest mean reward, the first of equal ones, and make it the final
    one. That reward is the highest of several noisy ones, and so promises a little too much."""
    checkpoint_every: int = option(0, ge=0)
    """Updates between checkpoints; there is one after the last update, too. With 0 `checkpoint_minutes` alone
    decides. A run that is stopped or fails always saves a checkpoint."""
    checkpoint_minutes: float = option(10.0, ge=0)
    """Minutes between checkpoints by time, each after a complete update; a run that has written one writes another
    after the last update. 0 writes none by time. They take at most 5 % of the time: if writing is slow, the pauses
    are longer."""
    keep_checkpoints: int = option(2, ge=1)
    """Number of the newest checkpoints that are kept, beside the best."""
    record_tokens: bool = False
    """Write the token ids and log-probabilities of every completion to `episodes.jsonl` too."""


class TrainerOptions(RewardScoreOptions, RolloutOptions, StorageOptions):
    """All options of a training run.

    Raises:
        ValueError: If a value is out of its range, or two do not fit together.
    """

    group_size: int = option(4, ge=1)
    """Completions of each agent in a group (G); at least 2 where the algorithm compares them."""
    eval_every: int = option(0, ge=0)
    """Updates between evaluations; 0 leaves those before the first and after the last update."""
    seed: int = option(0, ge=0)
    """Seed of all that is drawn at random: the order of problems, new adapters' weights, and every sample."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scores(self, self)

    def evaluates(self, update: int, total: int) -> bool:
        """Check whether an evaluation follows `update`, of `total`; 0 stands for before the first."""
        return update in (0, total) or bool(self.eval_every and update % self.eval_every == 0)

    def evaluations(self, total: int) -> int:
        """Return the number of evaluations of a run of `total` updates."""
        return sum(self.evaluates(update, total) for update in range(total + 1))


def check_scores(scores: RewardScoreOptions, rollouts: RolloutOptions) -> None:
    """Raise a `ValueError` if rollouts go by the task's reward, and a reward model stands in its place."""
    if scores.reward_model is None:
        return
    if rollouts.handoff == "best":
        raise ValueError(
            "handoff=best goes by the task's reward, and reward_model stands in its place: set handoff=random, or "
            "drop reward_model"
        )
    if rollouts.early_termination_threshold is not None:
        raise ValueError(
            "early_termination_threshold goes by the task's reward, and reward_model stands in its place: drop "
            "one of them"
        )


def check_credit(rollouts: RolloutOptions, updates: UpdateOptions) -> None:
    """Raise a `ValueError` if updates want joint samples that the rollouts do not have."""
    single = rollouts.joint_mode != "cross" and rollouts.num_partners == 1
    if updates.joint_aggregation != "mean" and single:
        raise ValueError(
            f"joint_aggregation={updates.joint_aggregation} means nothing where a completion meets one choice of "
            "partners: set joint_mode=cross, or joint_mode=common with num_partners of 2 or more, or drop it"
        )
    if updates.step_advantage_weight and rollouts.plan != "episodes":
        raise ValueError(
            f"step_advantage_weight={updates.step_advantage_weight} means nothing with plan={rollouts.plan}: set "
            "plan=episodes, or drop it"
        )
    updates.check_rollouts(rollouts)
