"""LoRA adapters on frozen models: loading, policies that share one model, and checks of their files."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from llm_decpomdp.agents.inference.options import ModelOptions, Prompting, Sampling
from llm_decpomdp.agents.loading import PolicySpec, make_engine
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.pretrained import (
    ModelError,
    is_adapter,
    list_names,
    load_pretrained,
    load_tokenizer,
    model_source,
)
from llm_decpomdp.agents.models.prompting import end_ids
from llm_decpomdp.options import pick

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
"""A folder with a tokenizer has one of these files."""

KEEPING_STARTS = (True, False, "gaussian", "orthogonal")
"""Initializations of LoRA that do not change the model below. PiSSA, OLoRA and others change its weights."""

logger = logging.getLogger(__name__)


def load_shared(
    base: str, specs: Mapping[str, PolicySpec], seeds: Mapping[str, int], hollow: bool = False
) -> dict[str, CausalLM]:
    """Load declared policies with adapters on one base (`shared_bases`); errors as of `adapter_policies`."""
    trained = any(spec.can_be_trained for spec in specs.values())
    sources = {name: spec.lora or str(spec.name) for name, spec in specs.items()}
    return adapter_policies(base, sources, specs, seeds, hollow and trained)


def load_adapted(
    source: str | Path, options: ModelOptions, seed: int, hollow: bool = False
) -> tuple[Any, Any]:
    """Load a frozen model with a trainable adapter, a saved or a new one, and its tokenizer."""
    if is_adapter(source) and options.lora is not None:
        raise ValueError(f"{str(source)!r} holds an adapter already; leave out lora")
    base, tokenizer = load_base(source, options, hollow)
    adapters = {"default": source if options.lora is None else options.lora}
    return add_adapters(base, adapters, {"default": seed}), tokenizer


def load_base(source: str | Path, options: ModelOptions, hollow: bool = False) -> tuple[Any, Any]:
    """Load a frozen model in the format of computing, and its tokenizer.

    For an adapter's folder: the model below it, with the tokenizer next to the adapter, if there is one.
    """
    model_name = tokens = source
    if is_adapter(source):
        from peft import PeftConfig

        model_name = model_source(PeftConfig.from_pretrained(str(source)).base_model_name_or_path)
        tokens = source if _has_tokenizer(source) else model_name
    return load_pretrained(model_name, tokens, options, hollow, frozen=True)


def adapter_policies(
    name_or_path: str | Path,
    adapters: Mapping[str, Mapping[str, Any] | str | Path],
    options: Mapping[str, ModelOptions],
    seeds: Mapping[str, int],
    hollow: bool = False,
) -> dict[str, CausalLM]:
    """Load policies that share a frozen model and differ by their LoRA adapters.

    The model is loaded once. All policies are sampled in one batch, and each learns its own adapter alone. The
    reference of each is the model without adapters. A saved adapter keeps the tokenizer in its folder.

    Args:
        name_or_path: The model: its name on the hub, or folder.
        adapters: For each policy the arguments of `peft.LoraConfig`, or the folder of a saved adapter.
        options: Sampling and prompts of each policy; those of computing are taken from the first.
        seeds: Seeds of the samplers and of new adapters' weights, by policy.
        hollow: Leave the weights of the frozen model in their files, for `shard_team`.

    Raises:
        OSError: If there is no such model or adapter.
        ValueError: If there are no adapters, a name cannot be that of a module, or tokenizers have other tokens.
    """
    if not adapters:
        raise ValueError("adapter_policies needs at least one adapter")
    for name in adapters:
        if not name or "." in name:
            raise ValueError(f"a policy's name must have a letter, and no '.', got {name!r}")
    first = next(iter(options.values()))
    base, tokenizer = load_base(name_or_path, first, hollow)
    # With a prefix, since peft would mistake a bare `a` or `lora` for a part of its own names.
    names = {name: f"policy_{name}" for name in adapters}
    tokenizers = {
        name: tokenizer
        if isinstance(source, Mapping) or not _has_tokenizer(source)
        else load_tokenizer(source)
        for name, source in adapters.items()
    }
    check_same_tokens(base, tokenizers)
    adapted = add_adapters(
        base,
        {names[name]: source for name, source in adapters.items()},
        {names[name]: seeds[name] for name in adapters},
    )
    engine = make_engine(adapted, next(iter(tokenizers.values())), first)
    return {
        name: CausalLM(
            engine,
            pick(Sampling, options[name]),
            adapter=names[name],
            seed=seeds[name],
            prompting=pick(Prompting, options[name]),
            tokenizer=tokenizers[name],
        )
        for name in adapters
    }


def add_adapters(
    model: Any, adapters: Mapping[str, Mapping[str, Any] | str | Path], seeds: Mapping[str, int]
) -> Any:
    """Add trainable float32 adapters to a frozen model; return the peft model, with the first adapter active.

    Raises:
        ModelError: If a saved adapter is not one of this model.
        ValueError: If an adapter would change the model below it, or a new one has dropout.
    """
    from peft import LoraConfig, PeftConfig, get_peft_model

    adapted: Any = None
    for name, source in adapters.items():
        if isinstance(source, str | Path):
            config = PeftConfig.from_pretrained(str(source))
            config.inference_mode = False  # peft saves True, which would freeze the adapter
        else:
            config = LoraConfig(task_type="CAUSAL_LM", **source)
            check_targets(model, config.target_modules)
        check_base_unchanged(config)
        drop_dropout(config, source)
        config.base_model_name_or_path = model.name_or_path
        # peft draws new weights from torch's global generator, whose stream must not change.
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # peft reads an attribute by a name that transformers has deprecated.
            warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
            torch.default_generator.manual_seed(seeds[name])
            if adapted is None:
                adapted = get_peft_model(model, config, adapter_name=name)
            else:
                adapted.add_adapter(name, config)
        if isinstance(source, str | Path) and model.device.type != "meta":
            _load_adapter(adapted, source, name)
    adapted.set_requires_grad(list(adapters))
    return adapted


def _load_adapter(adapted: Any, source: str | Path, name: str) -> None:
    """Read the weights of a saved adapter; raise a `ModelError` unless they are those of the model's modules."""
    try:
        result = adapted.load_adapter(source, name, is_trainable=True)
    except torch.OutOfMemoryError:
        raise
    except (KeyError, RuntimeError) as error:  # a whole module is missing, or shapes differ
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelError(
            f"the adapter in {source} does not fit the model below it ({reason:.500}): load it on the model "
            "that it was trained on"
        ) from error
    missing = [key for key in result.missing_keys if name in key.split(".")]
    if missing or result.unexpected_keys:
        wrong = list_names(
            {"missing weights:": missing, "unexpected weights:": result.unexpected_keys}
        )
        raise ModelError(
            f"the adapter in {source} does not fit the model: {wrong}. The policy would ignore these parts of the "
            "adapter: load it on the model on which it was trained, or rename its weights"
        )


def _has_tokenizer(folder: str | Path) -> bool:
    return any((Path(folder) / file).is_file() for file in TOKENIZER_FILES)


def check_same_tokens(model: Any, tokenizers: Mapping[str, Any]) -> None:
    """Raise a `ValueError` unless policies that are sampled in one batch have the same tokens and ends."""
    properties: dict[str, Callable[[Any], Any]] = {
        "vocabulary": lambda tokenizer: tokenizer.get_vocab(),
        "special tokens": lambda tokenizer: {
            index: token.special for index, token in tokenizer.added_tokens_decoder.items()
        },
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


def check_targets(model: Any, targets: Any) -> None:
    """Raise a `ValueError` unless the model has all target modules of a new adapter; peft accepts one."""
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
    """Raise a `ValueError` if an adapter changes the base model, which other adapters and the reference need."""
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
