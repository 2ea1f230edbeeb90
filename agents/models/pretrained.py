"""Loading of the weights and the tokenizer of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llm_decpomdp.agents.inference.options import ModelOptions
from llm_decpomdp.agents.models.checks import check_embeddings, check_weights
from llm_decpomdp.agents.models.local_models import ModelError
from llm_decpomdp.utils.hub import hub_answers


def load_pretrained(
    source: str | Path,
    tokenizer_source: str | Path,
    options: ModelOptions,
    hollow: bool,
    *,
    frozen: bool,
) -> tuple[Any, Any]:
    """Load a model and its tokenizer; a frozen model has the format of computing."""
    tokenizer = load_tokenizer(tokenizer_source)
    model = _load_weights(source, options, hollow, frozen=frozen)
    if frozen:
        model.requires_grad_(False)
    check_embeddings(model, tokenizer)
    return model, tokenizer


def _load_weights(source: str | Path, options: ModelOptions, hollow: bool, *, frozen: bool) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    from llm_decpomdp.agents.models.weights import resolve_compute_dtype

    name = options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device, attention = torch.device(name), options.attn_implementation
    dtype = resolve_compute_dtype(options.compute_dtype, device) if frozen else torch.float32
    quantization: dict[str, Any] = {}
    if options.quantization != "none":
        from llm_decpomdp.agents.models import quantized

        quantized.check_quantization(options.quantization, frozen, hollow, source)
        if device.type != "meta":
            quantization = quantized.quantization_arguments(options.quantization, dtype, device)
    if hollow or device.type == "meta":
        from llm_decpomdp.agents.models.hollow import load_hollow

        return load_hollow(source, dtype, device, attention, _local_only(source))
    model_class: Any = AutoModelForCausalLM
    model, report = model_class.from_pretrained(
        source,
        dtype=dtype,
        attn_implementation=attention,
        local_files_only=_local_only(source),
        trust_remote_code=False,
        ignore_mismatched_sizes=True,  # `check_weights` names them
        output_loading_info=True,
        **quantization,
    )
    check_weights(source, report)
    if quantization:
        quantized.keep_gradients(model)
        return model
    return model.to(device)


def load_tokenizer(name_or_path: str | Path) -> Any:
    """Load a tokenizer; raise a `ModelError` if a folder has none."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            name_or_path, local_files_only=_local_only(name_or_path), trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        if not Path(name_or_path).is_dir():
            raise
        raise ModelError(
            f"the folder {name_or_path} holds no tokenizer that transformers can load: copy its model's "
            "tokenizer.json and tokenizer_config.json there, or call tokenizer.save_pretrained(folder). The "
            f"error: {str(error).partition(chr(10))[0]}"
        ) from error


def _local_only(name_or_path: str | Path) -> bool:
    # Without an answer of the hub, transformers would retry each file.
    return Path(name_or_path).is_dir() or not hub_answers()
