"""From a configuration to the options of learner and trainer, and to the starts of every update."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.algorithms.learning.options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.cost import Cost, cost
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.options import TrainerOptions
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.options import pick
from llm_decpomdp.seeding import stream


def learner_options(
    config: Config, total_updates: int, policies: Iterable[PolicySpec]
) -> LearnerOptions:
    """Build the options of the learner.

    Args:
        config: The configuration.
        total_updates: Number of updates of the run.
        policies: Declarations of the team's policies.

    Raises:
        ValueError: If values do not fit together.
    """
    lengths = [spec.max_new_tokens for spec in policies if spec.can_be_trained]
    weights = config.algorithm.turn_gradient_weights
    return pick(
        LearnerOptions,
        config.algorithm,
        discount=config.env.discount,
        total_updates=total_updates,
        fixed_length=max(lengths, default=1),
        turn_gradient_weights=weights if weights and config.env.num_turns > 1 else None,
    )


def trainer_options(config: Config) -> TrainerOptions:
    """Build the options of the trainer."""
    return pick(
        TrainerOptions,
        config.algorithm,
        config.output,
        group_size=config.algorithm.num_generations,
        eval_every=config.evaluation.every,
        seed=config.seed,
    )


def start_cost(config: Config) -> Cost:
    """Return the largest cost of the rollout from one start.

    Raises:
        ValueError: If it is absurd.
    """
    algorithm, env = config.algorithm, config.env
    return cost(
        algorithm.plan,
        algorithm.joint_mode,
        algorithm.num_generations,
        env.num_agents,
        env.num_turns,
    )


def schedule(
    config: Config, tasks: Sequence[str], left_out: Collection[str] = ()
) -> list[list[Start]]:
    """Return the starts of each update: every task once an epoch, in an order that the seed decides.

    The last update of an epoch takes what is left. The order of the others is the same if some tasks are left out.
    """
    size, batches = config.algorithm.prompts_per_update, []
    for epoch in range(config.algorithm.num_train_epochs):
        order = stream(config.seed, "schedule", epoch).permutation(len(tasks))
        shuffled = (tasks[position] for position in order)
        starts = [Start(task_id=task) for task in shuffled if task not in left_out]
        batches += [starts[first : first + size] for first in range(0, len(starts), size)]
    return batches[: config.algorithm.max_updates]
