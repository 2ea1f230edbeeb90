"""Options of a training run: rollouts (mode, joint samples, selection of branches), evaluations, checkpoints."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from llm_decpomdp.branching import is_turn_based
from llm_decpomdp.options import Options, flatten, option

JOINT_MODES = ("aligned", "common", "cross")


class RolloutOptions(Options):
    """Rollouts from a start.

    Raises:
        ValueError: If a value is out of its range, or two do not fit together.
    """

    switch = "mode"
    former_names: ClassVar = {
        "plan": "mode",
        "handoff": "branch_selection",
        "refill": "max_resample_rounds",
        "lag": "max_async_level",
    }
    mode: str = option("chain", choices=("chain", "tree", "episodes"))
    """Joint samples that go on to the next turn. `chain`: one of the G joint samples of a turn. `tree`: all, at
    G^turns cost. `episodes`: G whole episodes from one start, compared turn by turn. All turns have the same
    weight in the expected gradient, also if episodes end at different turns. With `episodes` a completion is then
    compared with fewer completions, or with 0 if all other episodes have ended."""
    joint_mode: str = option("aligned", choices=JOINT_MODES, unless=("mode", "episodes"))
    """Completions that are played together: the g-th of all agents (`aligned`), each beside the same
    `num_partners` choices of its partners' (`common`), or each with each (`cross`)."""
    num_partners: int = option(1, ge=1, unless=("joint_mode", "aligned", "cross"))
    """With `joint_mode=common`, choices of an agent's partners that all its completions meet (K), for at most
    K (1 + agents (G - 1)) joint samples."""
    branch_selection: str = option(
        "random", choices=("random", "best"), unless=("mode", "tree", "episodes")
    )
    """In a chain, the joint sample that goes on to the next turn: `random` or `best`."""
    early_termination_threshold: float | None = option(None, unless=("mode", "episodes"))
    """Mean reward of a group from which on nothing follows it; `None` stops nothing."""
    max_resample_rounds: int = option(0, ge=0)
    """Most rounds in which starts of an update whose rollouts teach nothing are replaced by others of the run's
    problems, at up to 1 + `max_resample_rounds` times the cost (DAPO, arXiv 2503.14476)."""
    curriculum: str | None = option(None, choices=("pass_rate",))
    """Choice of each update's problems: `pass_rate` draws them by p (1 - p), where p is how often the team has
    solved a problem, among those with p from 0.1 to 0.9. Null takes each once an epoch; a curriculum keeps the
    number of updates, and takes some problems often and others never."""
    max_async_level: int = option(0, ge=0)
    """Number of updates by which rollouts are delayed (d). The weights after update u - 1 - d sample the rollouts
    of update u; the first weights sample those of the first d + 1 updates. With `cluster.rollout_workers`, workers
    sample while the learner learns. `algorithm.importance_sampling` corrects for the older weights."""
    in_flight: bool = option(False, unless=("max_async_level", 0))
    """Let answers that are being written continue under new weights (partial rollouts). The tokens of an update
    then come from up to d + 1 versions of the weights, and the learner waits for no rollouts of later updates. It
    needs `cluster.rollout_workers` on this machine. Equal seeds give no equal bytes, and a resumed run samples
    unfinished rollouts again."""
    rollout_batch_size: int | None = option(None, ge=1)
    """Starts that are played together, as one batch with random streams of their own: an update's starts are cut
    into rollout batches of so many. Equal runs then sample the same, however many processes and workers share
    them; their number may change when a run goes on. `None` takes all starts of an update, or of a process's
    share."""

    def check_turn_order(self, env: Any, group_size: int, *, has_critic: bool) -> None:
        """Raise a `ValueError` for groups of a chain without a critic where agents take turns."""
        # An agent that acts before others is paid in their turn, and a chain's returns end with its own turn. A
        # critic adds the value of the state after it.
        if self.mode == "chain" and group_size > 1 and not has_critic and is_turn_based(env):
            raise ValueError(
                "a chain credits each answer with the reward of its own turn alone, which agents that act before "
                "others earn later: set algorithm.rollout.mode to episodes or tree, or take an algorithm with a "
                "critic, such as maac"
            )


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

    @property
    def wrapper_options(self) -> dict[str, Any]:
        """The options that are set and need a wrapper of the source of rollouts (`algorithms/sources.py`)."""
        values = flatten(self)
        wrapped = ("max_resample_rounds", "curriculum", "max_async_level", "reward_model.path")
        return {name: values[name] for name in wrapped if values[name]}

    @property
    def wraps_source(self) -> bool:
        """Whether an option needs a wrapper of the source of rollouts."""
        return bool(self.wrapper_options)

    def evaluates(self, update: int, total: int) -> bool:
        """Check whether an evaluation follows `update`, of `total`; 0 stands for before the first."""
        return update in (0, total) or bool(self.eval_every and update % self.eval_every == 0)

    def evaluations(self, total: int, first: int = 0) -> int:
        """Return the number of evaluations of a run of `total` updates, from that after update `first` on."""
        return sum(self.evaluates(update, total) for update in range(first, total + 1))


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
