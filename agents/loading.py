"""From a model's name to a policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.offline import OFFLINE_MODEL, offline_model

if TYPE_CHECKING:
    from llm_decpomdp.agents.causal_lm import CausalLM
    from llm_decpomdp.agents.sampling import Sampling


def load_policy(
    name: str | Path,
    sampling: Sampling | None = None,
    *,
    compute_dtype: str = "auto",
    lora: Mapping[str, Any] | None = None,
    device: str = "auto",
    seed: int = 0,
) -> CausalLM:
    """Load a local model as a policy.

    Args:
        name: `smollm2-135m-instruct` (comes with the extra `demo`, needs no hub), a name on the hub, or a
            folder with a transformers model or a peft adapter.
        sampling: How completions are drawn.
        compute_dtype: `auto`, `float32` or `bfloat16`.
        lora: Arguments of `peft.LoraConfig`: train an adapter, and freeze the model.
        device: `auto` (a GPU where there is one), or a torch device.
        seed: Seed of the sampler, and of a new adapter's weights.

    Raises:
        ImportError: If torch, transformers or the offline model's package is missing.
        OSError: If there is no such model, or the hub cannot be reached.
    """
    try:
        from llm_decpomdp.agents.causal_lm import CausalLM
    except ImportError as error:
        raise ImportError(
            f"a language model needs torch and transformers ({error}): "
            "pip install 'llm-decpomdp[train]'"
        ) from error
    source = offline_model() if str(name).lower() == OFFLINE_MODEL else name
    try:
        return CausalLM.from_pretrained(
            source, sampling, compute_dtype=compute_dtype, lora=lora, device=device, seed=seed
        )
    except OSError as error:
        raise OSError(
            f"cannot load the model {str(name)!r}: it is no folder with a model, and the hub does not "
            f"give it; without a hub there is {OFFLINE_MODEL!r}. {error}"
        ) from error
