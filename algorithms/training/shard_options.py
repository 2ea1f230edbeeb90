"""Options of learners in several processes, and what does not work with them."""

from __future__ import annotations

from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions
from llm_decpomdp.options import Options, option


class ShardOptions(Options):
    """How the processes of a run, which a launcher such as torchrun starts, hold what learns."""

    shards: int = option(1, ge=1, key="fsdp_size")
    """Processes that hold a part of each weight that learns, of its gradient and of its optimizer's state, by
    torch's FSDP2: as many as the run has; 1 keeps all of it in every process. Nothing but the last digits of
    weights depends on it. Not with madpo, critics, reward models or a warm start."""


def check_sharded(
    algorithm: Algorithm, options: UpdateOptions, reward_model: str | None, warm: bool
) -> None:
    """Check that processes make equally many passes of models in shards: only a `Learner`'s own lessons do.

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
        "a critic": options.has_critic,
        f"reward_model={reward_model}": reward_model is not None,
        "a warm start": warm,
    }
    for what, is_set in wrong.items():
        if is_set:
            raise ValueError(
                f"{what} does not work with learner.fsdp_size: all processes make the passes of a model in shards "
                "together, and there each makes as many as it has texts. Drop it, or set learner.fsdp_size=1"
            )
