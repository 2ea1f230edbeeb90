"""Several policies on one model in memory, each with an adapter of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.inference.sampling import Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.models.pretrained import load_base, with_adapters
from llm_decpomdp.agents.models.prompting import Prompting


def adapter_policies(
    name_or_path: str | Path,
    adapters: Mapping[str, Mapping[str, Any] | str | Path],
    samplings: Mapping[str, Sampling] | None = None,
    *,
    compute_dtype: str = "auto",
    device: str = "auto",
    attn_implementation: str | None = None,
    gradient_checkpointing: bool = False,
    seeds: Mapping[str, int] | None = None,
    promptings: Mapping[str, Prompting] | None = None,
) -> dict[str, CausalLM]:
    """Load policies that share a frozen model and differ by their LoRA adapters.

    The model is loaded once, in the format of computing. All policies are sampled in one batch, each row
    with its own adapter; each learns its own adapter alone. The reference of each is the model without
    adapters, which needs no second copy.

    Args:
        name_or_path: The model: its name on the hub, or folder.
        adapters: For each policy the arguments of `peft.LoraConfig`, or the folder of a saved adapter.
        samplings: Options of the sampler, by policy.
        compute_dtype: `auto`, `float32` or `bfloat16`.
        device: `auto` (a GPU where there is one), or a torch device.
        attn_implementation: Attention of transformers, such as `sdpa`; `None` leaves it the choice.
        gradient_checkpointing: Compute activations twice instead of keeping them: less memory, more time.
        seeds: Seeds of the samplers and of new adapters' weights, by policy; 0, 1, 2, ... if left out.
        promptings: Chat template variables, and the handling of long prompts, by policy.

    Raises:
        OSError: If there is no such model or adapter.
        ValueError: If there are no adapters, or a name cannot be that of a module.
    """
    if not adapters:
        raise ValueError("adapter_policies needs at least one adapter")
    for name in adapters:
        if not name or "." in name:
            raise ValueError(f"a policy's name must have a letter, and no '.', got {name!r}")
    seeds = seeds or {name: number for number, name in enumerate(adapters)}
    model, tokenizer = load_base(name_or_path, compute_dtype, device, attn_implementation)
    sources = {_in_model(name): source for name, source in adapters.items()}
    model = with_adapters(model, sources, {_in_model(name): seed for name, seed in seeds.items()})
    engine = ModelEngine(
        model,
        tokenizer,
        compute_dtype=compute_dtype,
        gradient_checkpointing=gradient_checkpointing,
    )
    return {
        name: CausalLM.on(
            engine,
            _in_model(name),
            (samplings or {}).get(name),
            seed=seeds[name],
            prompting=(promptings or {}).get(name),
        )
        for name in adapters
    }


def _in_model(name: str) -> str:
    """Prefix the adapter's name: peft would mistake a bare `a` or `lora` for a part of its own names."""
    return f"policy_{name}"
