"""Options of a local model."""

from __future__ import annotations

from typing import Any

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.prompting import Prompting
from llm_decpomdp.options import option

COMPUTE_DTYPES = ("auto", "float32", "bfloat16")


class ModelOptions(Prompting, Sampling):
    """Sampling, prompts, numbers and adapter of a local model.

    Raises:
        ValueError: If a value is out of its range.
    """

    compute_dtype: str = option("auto", choices=COMPUTE_DTYPES)
    """Number format of the computation; `auto` is bfloat16 where the device is fast with it. Weights that are
    trained are float32 in any case."""
    device: str = "auto"
    """`auto` (a GPU where there is one), or a torch device such as `cpu` or `cuda:1`."""
    attn_implementation: str | None = None
    """Attention of transformers, such as `sdpa`; `None` leaves it the choice."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: less memory, more time."""
    lora: dict[str, Any] | None = None
    """Arguments of `peft.LoraConfig`, as in `{r: 16, lora_alpha: 32}`; `None` trains all weights. Agents
    with adapters of their own share one frozen base."""
