"""Options of runs of several processes, and the check of what weights in shards do not work with."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from llm_decpomdp.options import Options, option

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.learning.algorithm import Algorithm
    from llm_decpomdp.algorithms.learning.learner_options import UpdateOptions


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
