"""Checks of loaded models: their weights are those of the checkpoint, and every token has an embedding."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.models.local_models import ModelError

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
