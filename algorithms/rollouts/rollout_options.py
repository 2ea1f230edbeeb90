"""Options of rollouts: mode, joint samples, selection of branches."""

from __future__ import annotations

from typing import Any, ClassVar

from llm_decpomdp.branching import is_turn_based
from llm_decpomdp.options import Options, option

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
    """`chain`: G joint samples a turn, of which one goes on. `tree`: all go on, at G^turns cost. `episodes`: G
    whole episodes from one start, compared turn by turn. All turns have the same weight in the expected gradient,
    also if episodes end at different turns. With `episodes` a completion is then compared with fewer completions,
    or with 0 if all other episodes have ended."""
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


def check_partners(group_size: int, num_agents: int, num_partners: int) -> None:
    """Raise a `ValueError` unless an agent's partners have so many choices: at most G^(N-1)."""
    choices = group_size ** (num_agents - 1)
    if not 1 <= num_partners <= choices:
        raise ValueError(
            f"num_partners must be from 1 to {choices:,}, the choices of {num_agents - 1} partners' "
            f"{group_size} completions, got {num_partners}"
        )
