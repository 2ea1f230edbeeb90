"""Models, adapters and tokenizers on disk, in the formats of transformers and peft, and checks of their files."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from llm_decpomdp.agents.inference.options import Caching, ModelOptions, Prompting, Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.models.local_models import ModelError, model_source
from llm_decpomdp.agents.models.prompting import end_ids
from llm_decpomdp.agents.models.weights import resolve_compute_dtype
from llm_decpomdp.options import pick
from llm_decpomdp.utils.hub import hub_answers

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
"""A folder with a tokenizer has one of these files."""

KEEPING_STARTS = (True, False, "gaussian", "orthogonal")
"""Initializations of LoRA that do not change the model below. PiSSA, OLoRA and others change its weights."""

NAMED = 3  # maximum number of weights or tokens that an error names

logger = logging.getLogger(__name__)


def load_causal_lm(
    source: str | Path, options: ModelOptions, seed: int, hollow: bool = False
) -> CausalLM:
    """Load a model that is trained itself, or through an adapter, as a policy; see `load_policy`.

    The trainable weights, all weights or those of an adapter, are float32. The weights below an adapter have the
    format of computing.
    """
    adapted = (Path(source) / "adapter_config.json").is_file()
    if adapted and options.lora is not None:
        raise ValueError(f"{str(source)!r} holds an adapter already; leave out lora")
    if adapted or options.lora is not None:
        base, tokenizer = load_base(source, options, hollow)
        adapters = {"default": source if options.lora is None else options.lora}
        model = add_adapters(base, adapters, {"default": seed})
    else:
        tokenizer = _load_tokenizer(source)
        model = _load_weights(source, options, hollow, frozen=False)
        check_embeddings(model, tokenizer)
    engine = _engine(model, tokenizer, options)
    return CausalLM(engine, pick(Sampling, options), seed=seed, prompting=pick(Prompting, options))


def load_base(source: str | Path, options: ModelOptions, hollow: bool = False) -> tuple[Any, Any]:
    """Load a frozen model in the format of computing, and its tokenizer.

    For an adapter's folder: the model below it, with the tokenizer next to the adapter, if there is one.
    """
    model_name = tokens = source
    if (Path(source) / "adapter_config.json").is_file():
        from peft import PeftConfig

        model_name = model_source(PeftConfig.from_pretrained(str(source)).base_model_name_or_path)
        tokens = source if _has_tokenizer(source) else model_name
    tokenizer = _load_tokenizer(tokens)
    model = _load_weights(model_name, options, hollow, frozen=True)
    model.requires_grad_(False)
    check_embeddings(model, tokenizer)
    return model, tokenizer


def _engine(model: Any, tokenizer: Any, options: ModelOptions) -> ModelEngine:
    return ModelEngine(
        model,
        tokenizer,
        compute_dtype=options.compute_dtype,
        gradient_checkpointing=options.gradient_checkpointing,
        caching=pick(Caching, options),
        fused_kernels=options.fused_kernels,
    )


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
        else _load_tokenizer(source)
        for name, source in adapters.items()
    }
    check_same_tokens(base, tokenizers)
    adapted = add_adapters(
        base,
        {names[name]: source for name, source in adapters.items()},
        {names[name]: seeds[name] for name in adapters},
    )
    engine = _engine(adapted, next(iter(tokenizers.values())), first)
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
            config.inference_mode = False
        else:
            config = LoraConfig(task_type="CAUSAL_LM", **source)
            check_targets(model, config.target_modules)
        check_base_unchanged(config)
        drop_dropout(config, source)
        config.base_model_name_or_path = model.name_or_path
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
        wrong = _list_names(
            {"missing weights:": missing, "unexpected weights:": result.unexpected_keys}
        )
        raise ModelError(
            f"the adapter in {source} does not fit the model: {wrong}. The policy would ignore these parts of the "
            "adapter: load it on the model on which it was trained, or rename its weights"
        )


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _load_weights(
    name_or_path: str | Path, options: ModelOptions, hollow: bool, *, frozen: bool
) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    kinds: Any = AutoModelForCausalLM
    device, attention = _device(options.device), options.attn_implementation
    dtype = resolve_compute_dtype(options.compute_dtype, device) if frozen else torch.float32
    local, further = _local_only(name_or_path), {}
    if options.quantization != "none":
        from llm_decpomdp.agents.models import quantized

        quantized.check_quantization(options.quantization, frozen, hollow, name_or_path)
        if device.type != "meta":
            further = quantized.quantization_arguments(options.quantization, dtype, device)
    if device.type != "meta" and not hollow:
        model, report = kinds.from_pretrained(
            name_or_path,
            dtype=dtype,
            attn_implementation=attention,
            local_files_only=local,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # `check_weights` names them
            output_loading_info=True,
            **further,
        )
        check_weights(name_or_path, report)
        if further:
            quantized.keep_gradients(model)
            return model
        return model.to(device)
    # Shapes and settings only; no file of weights is needed.
    config = AutoConfig.from_pretrained(
        name_or_path, local_files_only=local, trust_remote_code=False
    )
    # A model without weights computes nothing, and its machine may lack the package of the attention.
    computing = {} if device.type == "meta" else {"attn_implementation": attention}
    with torch.device("meta"):
        model = kinds.from_config(config, dtype=dtype, **computing)
    with suppress(OSError):  # many models have none
        model.generation_config = GenerationConfig.from_pretrained(
            name_or_path, local_files_only=local
        )
    if device.type != "meta":
        from llm_decpomdp.agents.models.hollow import find_stored, make_hollow

        places, report = find_stored(model, name_or_path, local)
        check_weights(name_or_path, report)
        make_hollow(model, places, device)
    return model


def _has_tokenizer(folder: str | Path) -> bool:
    return any((Path(folder) / file).is_file() for file in TOKENIZER_FILES)


def _load_tokenizer(name_or_path: str | Path) -> Any:
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


# Checks


def check_weights(name_or_path: str | Path, report: Mapping[str, Any]) -> None:
    """Raise a `ModelError` unless a model and its checkpoint have the same weights, by the report of loading."""
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


def _list_names(lists: Mapping[str, Collection[str]]) -> str:
    """Return the text of an error for lists of weights or tokens: each title with the first names of its list."""
    parts = []
    for words, names in lists.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        if names:
            parts.append(f"{words} {', '.join(sorted(names)[:NAMED])}{more}")
    return "; ".join(parts)
