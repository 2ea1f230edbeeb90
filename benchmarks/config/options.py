"""From a configuration to what learner and trainer are told, and to the starts of every update."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.algorithms.learning.options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.cost import Cost, cost
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.options import TrainerOptions
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.seeding import stream


def learner_options(
    config: Config, total_updates: int, policies: Iterable[PolicySpec]
) -> LearnerOptions:
    """How the policies step.

    Args:
        config: The configuration.
        total_updates: All updates of the run.
        policies: Those of the team, as declared.

    Raises:
        ValueError: If values are out of range, or do not fit together.
    """
    algorithm = config.algorithm
    weights = algorithm.turn_gradient_weights
    return LearnerOptions(
        learning_rate=algorithm.learning_rate,
        weight_decay=algorithm.weight_decay,
        max_grad_norm=algorithm.max_grad_norm,
        lr_schedule=algorithm.lr_schedule,
        warmup_updates=algorithm.warmup_updates,
        total_updates=total_updates,
        discount=config.env.discount,
        normalize_advantages=algorithm.normalize_advantages,
        turn_gradient_weights=tuple(weights) if weights and config.env.num_turns > 1 else None,
        early_termination_weight=algorithm.early_termination_weight,
        loss=algorithm.loss,
        fixed_length=max(
            (spec.max_new_tokens for spec in policies if spec.can_be_trained), default=1
        ),
        updates_per_batch=algorithm.updates_per_batch,
        clip_range=algorithm.clip_range,
        kl_coefficient=algorithm.kl_coefficient,
        truncated=algorithm.truncated,
        truncation_penalty=algorithm.truncation_penalty,
    )


def trainer_options(config: Config) -> TrainerOptions:
    """How the run samples, evaluates and saves."""
    return TrainerOptions(
        group_size=config.algorithm.num_generations,
        plan=config.algorithm.plan,
        joint_mode=config.algorithm.joint_mode,
        handoff=config.algorithm.handoff,
        early_termination_threshold=config.algorithm.early_termination_threshold,
        eval_every=config.evaluation.every,
        keep_best=config.output.keep_best,
        checkpoint_every=config.output.checkpoint_every,
        keep_checkpoints=config.output.keep_checkpoints,
        record_tokens=config.output.record_tokens,
        seed=config.seed,
    )


def start_cost(config: Config) -> Cost:
    """What the rollout from one start costs at most.

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
    """The starts of each update: every task once an epoch, in an order that the seed decides.

    The last update of an epoch takes what is left. The order of the others is the same if some tasks are left out.
    """
    size, batches = config.algorithm.prompts_per_update, []
    for epoch in range(config.algorithm.num_train_epochs):
        order = stream(config.seed, "schedule", epoch).permutation(len(tasks))
        chosen = (tasks[position] for position in order)
        starts = [Start(task_id=task) for task in chosen if task not in left_out]
        batches += [starts[first : first + size] for first in range(0, len(starts), size)]
    return batches[: config.algorithm.max_updates]
