"""Shapes of models by name: from a folder, from a table of common ones, or from their config on the hub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.planning.shapes import Shape

TABLE = {
    "qwen2.5-0.5b": Shape(24, 896, 4864, 14, 2, 151_936, tied=True),
    "qwen2.5-1.5b": Shape(28, 1536, 8960, 12, 2, 151_936, tied=True),
    "qwen2.5-3b": Shape(36, 2048, 11_008, 16, 2, 151_936, tied=True),
    "qwen2.5-7b": Shape(28, 3584, 18_944, 28, 4, 152_064),
    "qwen2.5-14b": Shape(48, 5120, 13_824, 40, 8, 152_064),
    "qwen2.5-32b": Shape(64, 5120, 27_648, 40, 8, 152_064),
    "qwen3-0.6b": Shape(28, 1024, 3072, 16, 8, 151_936, tied=True, head_size=128),
    "qwen3-1.7b": Shape(28, 2048, 6144, 16, 8, 151_936, tied=True, head_size=128),
    "qwen3-4b": Shape(36, 2560, 9728, 32, 8, 151_936, tied=True, head_size=128),
    "qwen3-8b": Shape(36, 4096, 12_288, 32, 8, 151_936, head_size=128),
    "qwen3-14b": Shape(40, 5120, 17_408, 40, 8, 151_936, head_size=128),
    "qwen3-32b": Shape(64, 5120, 25_600, 64, 8, 151_936, head_size=128),
    "llama-3.2-1b": Shape(16, 2048, 8192, 32, 8, 128_256, tied=True),
    "llama-3.2-3b": Shape(28, 3072, 8192, 24, 8, 128_256, tied=True),
    "llama-3.1-8b": Shape(32, 4096, 14_336, 32, 8, 128_256),
}
"""From the models' `config.json`, by the beginning of their names; `qwen2.5-coder` is as `qwen2.5`."""


def shape_of(name: str, parameters: float | None = None) -> Shape:
    """Find the shape of a model; nothing is downloaded but, where nothing else tells, its config.

    Args:
        name: As in a configuration: a folder, a model that needs no hub, or a name on the hub.
        parameters: Number of weights for a model that nothing else tells of; the rest is then that of the model in
            `TABLE` with the nearest number.

    Raises:
        ConfigError: If nothing tells; says which option does.
    """
    from llm_decpomdp.agents.models.local_models import ModelError, model_source
    from llm_decpomdp.utils.hub import hub_address, hub_answers

    missing = ""
    try:
        source = model_source(name)
    except (ModelError, ModuleNotFoundError) as error:  # another machine may have it
        source, missing = name, f"{error}; "
    if isinstance(source, Path):
        return shape_in(source)
    if (listed := listed_shape(name)) is not None:
        return listed
    if parameters is not None:
        nearest = min(TABLE.values(), key=lambda shape: abs(shape.parameters - parameters))
        return replace(nearest, total=round(parameters))
    reason = f"{hub_address()} does not answer"
    if hub_answers():
        try:
            return shape_in(name)
        except OSError as error:
            reason = " ".join(str(error).split())
    raise ConfigError(
        f"the size of {name!r} isn't known: {missing}it is no folder with a model, not one of "
        f"{', '.join(TABLE)}, and {reason}; give --parameters, such as 7.6e9, or the folder of its config.json "
        "as model.name"
    )


def listed_shape(name: str) -> Shape | None:
    """Find a name in `TABLE`, whoever its owner is.

    Examples:
        >>> listed_shape("Qwen/Qwen2.5-Coder-3B-Instruct").layers
        36
    """
    plain = name.rpartition("/")[2].lower().replace("-coder", "")
    keys = [key for key in TABLE if plain == key or plain.startswith(f"{key}-")]
    return TABLE[max(keys, key=len)] if keys else None


def shape_in(source: str | Path) -> Shape:
    """Read the shape of a model from its config, and count its weights without making any.

    A folder with an adapter alone has the shape of the model below it.

    Raises:
        OSError: If there is no config.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    if (Path(source) / "adapter_config.json").is_file():
        from peft import PeftConfig

        return shape_of(str(PeftConfig.from_pretrained(str(source)).base_model_name_or_path))
    config: Any = AutoConfig.from_pretrained(source, trust_remote_code=False)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    text = config.get_text_config()
    heads = text.num_attention_heads
    return Shape(
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        intermediate=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        heads=heads,
        kv_heads=getattr(text, "num_key_value_heads", None) or heads,
        vocabulary=text.vocab_size,
        tied=bool(text.tie_word_embeddings),
        head_size=getattr(text, "head_dim", None),
        total=sum(weight.numel() for weight in model.parameters()),
    )
