"""Checks of the starts of a run before anything is sampled."""

from __future__ import annotations

from collections.abc import Sequence

from llm_decpomdp.algorithms.rollout_workers.rollout_worker import LocalRolloutWorker, RolloutWorker
from llm_decpomdp.algorithms.rollouts.long_prompts import require_short
from llm_decpomdp.algorithms.rollouts.rollout import Start, TextEnv
from llm_decpomdp.algorithms.rollouts.sampling import distinct_policies
from llm_decpomdp.policy import Seedable, Stateful, Team


def check_starts(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    rollout_worker: RolloutWorker | None,
    size: int | None,
) -> None:
    """Check that rollout batches can be sampled in any order, and that first prompts are short enough.

    Args:
        env: The environment.
        team: A policy for each agent.
        starts: All starts of the run.
        rollout_worker: Samples the rollout batches; `None` for this process.
        size: The option `rollout_batch_size`.

    Raises:
        ValueError: If other processes would sample a whole update each, if a policy continues from its earlier
            completions, if a start leaves the choice to the environment's running generator, or if a first prompt
            is too long for its policy.
    """
    _check_order(team, starts, rollout_worker, size)
    require_short(env, team, starts)


def _check_order(
    team: Team, starts: Sequence[Start], rollout_worker: RolloutWorker | None, size: int | None
) -> None:
    if size is None:
        if not isinstance(rollout_worker, LocalRolloutWorker | None):
            raise ValueError(
                "rollout workers share the batches of an update, and without rollout_batch_size an update is one "
                "batch: set it, such as to a fraction of an update's starts"
            )
        return
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, Stateful) and not isinstance(policy, Seedable):
            raise ValueError(
                f"rollout_batch_size={size} samples batches in any order, and the policy of {name}, a "
                f"{type(policy).__name__}, continues from its earlier completions: drop rollout_batch_size, or "
                "give the policy a method `seed` that restarts it"
            )
    if Start() in starts:
        raise ValueError(
            f"rollout_batch_size={size} samples batches in any order, and a start with neither seed nor task_id "
            "is the environment's next random choice: give it a seed or a task_id, or drop rollout_batch_size"
        )
