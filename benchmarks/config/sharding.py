"""Checks of `learner.fsdp_size` against the other sections."""

from __future__ import annotations

from collections.abc import Mapping

from llm_decpomdp.agents.loading import PolicySpec
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.training.trainer_options import check_sharded
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config


def check_shards(
    config: Config,
    policies: Mapping[str, PolicySpec],
    algorithm: Algorithm,
    learner: LearnerOptions,
) -> None:
    """Check that a run can have its weights in shards, whether it wants to or not.

    Args:
        config: The configuration.
        policies: Declarations of the team's policies.
        algorithm: Which algorithm learns.
        learner: Its options.

    Raises:
        ConfigError: If it cannot; names the key.
    """
    scores = config.algorithm.reward_model
    completed, warm = algorithm.complete_options(learner), config.warm_start.source is not None
    try:
        check_sharded(algorithm, completed, None if scores is None else scores.reward_model, warm)
    except ValueError as error:
        raise ConfigError(f"section algorithm: {error}") from None
    if config.sampler.served:
        raise ConfigError(
            "learner.fsdp_size has as many processes, and inference.engine=vllm works with one: set "
            "learner.fsdp_size=1, or inference.engine=transformers"
        )
    for name, spec in policies.items():
        if spec.can_be_trained and ":" in spec.device:
            raise ConfigError(
                f"policy {name!r} has device={spec.device}, and with learner.fsdp_size each process has its own "
                "GPU: drop device"
            )
    if not config.output.checkpoint_every:
        raise ConfigError(
            "a run with learner.fsdp_size saves nothing on the way out, as that takes all processes at the same "
            "time: set output.checkpoint_every to 1 or more"
        )
