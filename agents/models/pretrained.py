"""Loading of a model and its tokenizer, with checks of its weights and of its embeddings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.inference.options import ModelOptions
from llm_decpomdp.agents.models.local_models import ModelError, hide_progress
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
    hide_progress()
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


NAMED = 3  # maximum number of weights or tokens that an error names


def check_weights(name_or_path: str | Path, report: Mapping[str, Any]) -> None:
    """Raise a `ModelError` unless a model and its checkpoint have the same weights, by the report of loading."""
    sizes = [
        f"{key} ({tuple(shape)} in the checkpoint, {tuple(target)} in the model)"
        for key, shape, target in report["mismatched_keys"]
    ]
    missing, unexpected = report["missing_keys"], report["unexpected_keys"]
    if not (missing or sizes or unexpected):
        return
    wrong = list_names(
        {"missing weights:": missing, "other shapes:": sizes, "unexpected weights:": unexpected}
    )
    remedy = (
        "The model's weights would be random there: load a complete checkpoint of a causal language model"
        if missing or sizes
        else "If the model does not need these weights, save the checkpoint without them: "
        "AutoModelForCausalLM.from_pretrained(...).save_pretrained(folder)"
    )
    raise ModelError(f"the checkpoint does not fit the model ({name_or_path}): {wrong}. {remedy}")


def check_embeddings(model: Any, tokenizer: Any) -> None:
    """Raise a `ValueError` if texts, the chat template, or the begin and end tokens need a missing embedding.

    Other special tokens may lack an embedding, as the image token of Gemma 3 1B does: prompts never contain them.
    """
    rows, template = model.get_input_embeddings().weight.shape[0], str(tokenizer.chat_template)
    special = {t.content for t in tokenizer.added_tokens_decoder.values() if t.special}
    begin_and_end = {tokenizer.bos_token, tokenizer.eos_token}
    lacking = [
        token
        for token, index in tokenizer.get_vocab().items()
        if index >= rows and (token not in special or token in template or token in begin_and_end)
    ]
    if lacking:
        raise ValueError(
            f"the tokenizer has {len(tokenizer):,} tokens and the model {model.config.name_or_path!r} {rows:,} "
            f"embeddings: {list_names({'there is no embedding for': lacking})}. Call "
            "model.resize_token_embeddings(len(tokenizer)), train the new embeddings and save the model, or use "
            "the model's own tokenizer"
        )


def list_names(lists: Mapping[str, Collection[str]]) -> str:
    """Return the text of an error for lists of weights or tokens: each title with the first names of its list."""
    parts = []
    for words, names in lists.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        if names:
            parts.append(f"{words} {', '.join(sorted(names)[:NAMED])}{more}")
    return "; ".join(parts)
