"""Options of a training run: its rollouts, evaluations, checkpoints, warm start and shards."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.options import Options, option, refuse_changes


class RewardScoreOptions(Options):
    """A reward model whose scores the learner sees instead of the task's reward."""

    switch = "path"
    former_names: ClassVar = {"reward_model": "path", "reward_model_every": "update_interval"}
    path: str | None = None
    """File of a reward model, as `reward-model` writes it, whose scores the learner is given in place of the
    task's reward; evaluations are on the task's. It must have been trained with the model of a policy here."""
    update_interval: int = option(0, ge=0, unless=("path", None))
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
    """Number of the newest checkpoints that are kept, in addition to the best."""
    record_tokens: bool = False
    """Write the token ids and log-probabilities of every completion to `episodes.jsonl` too."""


class TrainerOptions(RolloutOptions, StorageOptions):
    """All options of a training run.

    Raises:
        ValueError: If a value is out of its range, or two do not fit together.
    """

    group_size: int = option(4, ge=1)
    """Completions of each agent in a group (G); at least 2 where the algorithm compares them."""
    eval_every: int = option(0, ge=0)
    """Updates between evaluations; 0 leaves those before the first and after the last update."""
    reward_model: RewardScoreOptions = field(default_factory=RewardScoreOptions)
    seed: int = option(0, ge=0)
    """Seed of all that is drawn at random: the order of problems, new adapters' weights, and every sample."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scores(self.reward_model, self)

    def evaluates(self, update: int, total: int) -> bool:
        """Check whether an evaluation follows `update`, of `total`; 0 stands for before the first."""
        return update in (0, total) or bool(self.eval_every and update % self.eval_every == 0)

    def evaluations(self, total: int) -> int:
        """Return the number of evaluations of a run of `total` updates."""
        return sum(self.evaluates(update, total) for update in range(total + 1))


def check_scores(scores: RewardScoreOptions, rollouts: RolloutOptions) -> None:
    """Raise a `ValueError` if rollouts go by the task's reward, and a reward model stands in its place."""
    if scores.path is None:
        return
    if rollouts.branch_selection == "best":
        raise ValueError(
            "branch_selection=best goes by the task's reward, and reward_model stands in its place: set "
            "branch_selection=random, or drop reward_model"
        )
    if rollouts.early_termination_threshold is not None:
        raise ValueError(
            "early_termination_threshold goes by the task's reward, and reward_model stands in its place: drop "
            "one of them"
        )


def check_credit(rollouts: RolloutOptions, updates: UpdateOptions) -> None:
    """Raise a `ValueError` if updates want joint samples that the rollouts do not have."""
    single = rollouts.joint_mode != "cross" and rollouts.num_partners == 1
    if single:
        remedy = (
            "set joint_mode=cross, or joint_mode=common with num_partners of 2 or more, or drop it"
        )
        single_choice = f"joint_mode={rollouts.joint_mode} and one choice of partners"
        refuse_changes(updates, ["joint_aggregation.name"], single_choice, remedy)
    if rollouts.mode != "episodes":
        remedy = "set rollout.mode=episodes, or drop it"
        refuse_changes(updates, ["step_advantage_weight"], f"rollout.mode={rollouts.mode}", remedy)
    if updates.critic.exists:
        # Imported here, because critics are optional.
        from llm_decpomdp.algorithms.critics.options import check_critic_rollouts

        check_critic_rollouts(updates, rollouts)


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


class ShardOptions(Options):
    """How the processes of a run, which a launcher such as torchrun starts, hold what learns."""

    former_names: ClassVar = {"shards": "fsdp_size"}
    fsdp_size: int = option(1, ge=1)
    """Processes that hold a part of each weight that learns, of its gradient and of its optimizer's state, by
    torch's FSDP2: as many as the run has; 1 keeps all of it in every process. Nothing but the last digits of
    weights depends on it. Not with madpo, critics, reward models or a warm start."""
    reduce_once: bool | None = option(None, unless=("fsdp_size", 1))
    """With `fsdp_size`, sum gradients over the processes once per update. Each process then keeps the whole
    gradient, 4 bytes for each trained weight. False sums them after each pass: less memory, more traffic. null:
    once for adapters, whose gradients are small, and after each pass for all weights."""
    gather_for_generation: bool = option(True, unless=("fsdp_size", 1))
    """With `fsdp_size`, sample with a copy of all weights in each process. False samples with the shards: each
    layer is gathered for each token, which takes less memory and more time. The texts are the same. Not with
    rollout workers or `static_cache`."""
    deterministic: bool = False
    """Use deterministic kernels alone, so that equal seeds give equal bytes on a GPU; on a CPU they always do.
    Attention with a mask takes more memory then. torch ends the run at a kernel that it cannot replace. Not with
    servers, which batch requests as they arrive."""
    process_timeout: float = option(120.0, gt=0)
    """Minutes that a process waits for the others before torch ends the run. A run that waits for an evaluation
    or a long batch of another process may need more; a process that hangs is found sooner with less."""


def check_sharded(
    algorithm: Algorithm, options: UpdateOptions, reward_model: str | None, warm: bool
) -> None:
    """Check that processes make equally many passes of models in shards: only the passes of a `Learner` do.

    Args:
        algorithm: Which algorithm learns.
        options: Say whether there is a critic, completed by the algorithm.
        reward_model: The option.
        warm: Whether supervised learning comes first.

    Raises:
        ValueError: If something else makes as many passes in each process as it has texts.
    """
    wrong = {
        f"algorithm {algorithm.name}": not algorithm.supports_sharding,
        "a critic": options.critic.exists,
        f"reward_model={reward_model}": reward_model is not None,
        "a warm start": warm,
    }
    for what, is_set in wrong.items():
        if is_set:
            raise ValueError(
                f"{what} does not work with learner.fsdp_size: all processes make the passes of a model in shards "
                "together, and there each makes as many as it has texts. Drop it, or set learner.fsdp_size=1"
            )
