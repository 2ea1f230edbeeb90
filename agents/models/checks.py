"""Checks of models, adapters and tokenizers as they are loaded, and of the options of new adapters."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.models.control_tokens import end_ids
from llm_decpomdp.agents.models.local_models import ModelError

KEEPING_STARTS = (True, False, "gaussian", "orthogonal")
"""Initializations of LoRA that do not change the model below. PiSSA, OLoRA and others change its weights."""

NAMED = 3
"""Maximum number of weights or tokens that an error names."""

logger = logging.getLogger(__name__)


def check_weights(name_or_path: str | Path, report: Mapping[str, Any]) -> None:
    """Check that a model has all weights of its checkpoint, and the checkpoint all weights of the model.

    Args:
        name_or_path: The model.
        report: What `from_pretrained(output_loading_info=True)` returns beside the model. Weights that are tied to
            others, and those that the model's class ignores, are not in it.

    Raises:
        ModelError: If not; names the weights.
    """
    sizes = [
        f"{key} ({tuple(shape)} in the checkpoint, {tuple(target)} in the model)"
        for key, shape, target in report["mismatched_keys"]
    ]
    missing, unexpected = report["missing_keys"], report["unexpected_keys"]
    if not (missing or sizes or unexpected):
        return
    wrong = _list_names(
        {"missing weights:": missing, "other shapes:": sizes, "unexpected weights:": unexpected}
    )
    remedy = (
        "The model's weights would be random there: load a complete checkpoint of a causal language model"
        if missing or sizes
        else "If the model does not need these weights, save the checkpoint without them: "
        "AutoModelForCausalLM.from_pretrained(...).save_pretrained(folder)"
    )
    raise ModelError(f"the checkpoint does not fit the model ({name_or_path}): {wrong}. {remedy}")


def check_adapter(source: Any, name: str, result: Any) -> None:
    """Check that a model has all weights of a saved adapter, and the adapter a weight for each of its places.

    Args:
        source: The folder.
        name: The adapter's name in the model.
        result: What `load_adapter` of peft returns.

    Raises:
        ModelError: If not; names the weights.
    """
    missing = [key for key in result.missing_keys if name in key.split(".")]
    if missing or result.unexpected_keys:
        wrong = _list_names(
            {"missing weights:": missing, "unexpected weights:": result.unexpected_keys}
        )
        raise ModelError(
            f"the adapter in {source} does not fit the model: {wrong}. The policy would ignore these parts of the "
            "adapter: load it on the model on which it was trained, or rename its weights"
        )


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
            f"embeddings: {_list_names({'there is no embedding for': lacking})}. Call "
            "model.resize_token_embeddings(len(tokenizer)), train the new embeddings and save the model, or use "
            "the model's own tokenizer"
        )


def check_same_tokens(model: Any, tokenizers: Mapping[str, Any]) -> None:
    """Raise a `ValueError` unless policies that are sampled in one batch have the same tokens and ends."""
    properties: dict[str, Callable[[Any], Any]] = {
        "vocabulary": lambda tokenizer: tokenizer.get_vocab(),
        "special tokens": _special,
        "tokens that end a completion": partial(end_ids, model),
    }
    first, *rest = tokenizers
    for name in rest:
        pair = (tokenizers[first], tokenizers[name])
        if pair[0] is pair[1]:
            continue
        differing = [words for words, read in properties.items() if read(pair[0]) != read(pair[1])]
        if differing:
            raise ValueError(
                f"the policies {first!r} and {name!r} share a model, and their tokenizers differ in their "
                f"{' and '.join(differing)}: save both adapters with the same tokenizer, or load them in separate "
                "teams"
            )


def _special(tokenizer: Any) -> dict[int, bool]:
    return {index: token.special for index, token in tokenizer.added_tokens_decoder.items()}


def check_targets(model: Any, targets: Any) -> None:
    """Raise a `ValueError` unless every target module of a new adapter is there; peft is content with one."""
    if targets is None or targets == "all-linear":
        return
    names = [name for name, _ in model.named_modules()]
    if isinstance(targets, str):
        missing = [] if any(re.fullmatch(targets, name) for name in names) else [targets]
    else:
        missing = [t for t in targets if not any(f".{name}".endswith(f".{t}") for name in names)]
    if missing:
        weights = (name for name, weight in model.named_parameters() if weight.ndim == 2)
        has = ", ".join(sorted({name.split(".")[-2] for name in weights}))
        raise ValueError(
            f"lora.target_modules: the model has no module {', '.join(map(repr, sorted(missing)))}; it has {has}. "
            "Name some of these, or all-linear"
        )


def check_base_unchanged(config: Any) -> None:
    """Raise a `ValueError` if an adapter changes the model, which other adapters and the reference rely on."""
    bias, start = getattr(config, "bias", "none"), getattr(config, "init_lora_weights", True)
    if bias != "none":
        raise ValueError(
            f"lora: bias={bias!r} would change the frozen model below the adapter: remove the option, or set "
            "lora_bias=true"
        )
    if start not in KEEPING_STARTS or getattr(config, "kasa_config", None) is not None:
        option = "kasa_config" if start in KEEPING_STARTS else f"init_lora_weights={start!r}"
        raise ValueError(
            f"lora: {option} would change the frozen model below the adapter, or needs data that is not "
            f"available: remove the option, or set init_lora_weights to one of {KEEPING_STARTS}"
        )


def drop_dropout(config: Any, source: Any) -> None:
    """Refuse dropout of a new adapter; turn it off, with a warning, for a saved adapter."""
    dropout = getattr(config, "lora_dropout", 0.0)
    if not dropout:
        return
    if isinstance(source, Mapping):
        raise ValueError(
            f"lora: lora_dropout={dropout} would have no effect. Policies learn without dropout, because it would "
            "make the learner's distribution differ from the sampler's: remove the option"
        )
    logger.warning(
        "the adapter in %s was trained with lora_dropout=%s; here it is used and trained without dropout",
        source,
        dropout,
    )
    config.lora_dropout = 0.0


def _list_names(lists: Mapping[str, Collection[str]]) -> str:
    """Return the text of an error for lists of weights or tokens: each title with the first names of its list."""
    parts = []
    for words, names in lists.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        if names:
            parts.append(f"{words} {', '.join(sorted(names)[:NAMED])}{more}")
    return "; ".join(parts)
