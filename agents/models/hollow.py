"""Models whose weights stay in their files until they are read, part by part.

A hollow model has the shapes, buffers and device of a loaded one. Each weight is one number that is shown in
its whole shape, so it takes no memory. `read_weights` replaces the weights of a part by those of the safetensors
files. A process that shards its model part by part so never holds all of it (`sharded.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import snapshot_download
from safetensors import safe_open
from torch import Tensor
from torch.nn import Parameter

from llm_decpomdp.agents.models.pretrained import ModelError, check_weights
from llm_decpomdp.agents.models.weights import weight_files

REMEDY = (
    "Load and save it once, by AutoModelForCausalLM.from_pretrained(...).save_pretrained(folder), and name "
    "the folder, or set learner.fsdp_size=1"
)


class StoredWeight(NamedTuple):
    """The place of a weight that is not in memory."""

    file: Path
    key: str


def load_hollow(
    name_or_path: str | Path,
    dtype: torch.dtype,
    device: torch.device,
    attention: str | None,
    local: bool,
) -> Any:
    """Load the shapes and settings of a model, and leave its weights in their files.

    On the device `meta` no file of weights is needed.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    config = AutoConfig.from_pretrained(
        name_or_path, local_files_only=local, trust_remote_code=False
    )
    # A model without weights computes nothing, and its machine may lack the package of the attention.
    computing = {} if device.type == "meta" else {"attn_implementation": attention}
    model_class: Any = AutoModelForCausalLM
    with torch.device("meta"):
        model = model_class.from_config(config, dtype=dtype, **computing)
    with suppress(OSError):  # many models have none
        model.generation_config = GenerationConfig.from_pretrained(
            name_or_path, local_files_only=local
        )
    if device.type != "meta":
        places, report = find_stored(model, name_or_path, local)
        check_weights(name_or_path, report)
        make_hollow(model, places, device)
    return model


def find_stored(
    model: Any, name_or_path: str | Path, local: bool
) -> tuple[dict[str, StoredWeight], dict[str, Any]]:
    """Find the places of a model's weights, by name, in its safetensors files.

    Returns:
        The places, and a report as of `from_pretrained(output_loading_info=True)`.

    Raises:
        ModelError: If there are no safetensors files.
    """
    folder = Path(name_or_path)
    if not folder.is_dir():
        patterns = ["*.safetensors", "*.safetensors.index.json"]
        name = str(name_or_path)
        folder = Path(snapshot_download(name, allow_patterns=patterns, local_files_only=local))
    files = weight_files(folder)
    if not files or any(file.suffix != ".safetensors" for file in files):
        raise ModelError(
            f"weights in shards are read from safetensors files, and {name_or_path} has none. {REMEDY}"
        )
    shapes: dict[str, tuple[StoredWeight, list[int]]] = {}
    for path in files:
        with safe_open(path, "pt") as file:
            for key in file.keys():
                shapes[key] = StoredWeight(path, key), file.get_slice(key).get_shape()
    prefix = f"{model.base_model_prefix}."
    places: dict[str, StoredWeight] = {}
    aliases: dict[int, list[str]] = {}  # tied weights have several names, and files any of them
    for name, weight in model.named_parameters(remove_duplicate=False):
        aliases.setdefault(id(weight), []).append(name)
    report: dict[str, list[Any]] = {"missing_keys": [], "mismatched_keys": []}
    names: set[str] = set()
    for same, weight in zip(aliases.values(), model.parameters(), strict=True):
        name = same[0]
        keys = [key for alias in same for key in (alias, alias.removeprefix(prefix))]
        names.update(keys)
        place = next((shapes[key] for key in keys if key in shapes), None)
        if place is None:
            report["missing_keys"].append(name)
        elif tuple(place[1]) != tuple(weight.shape):
            report["mismatched_keys"].append((name, place[1], weight.shape))
        else:
            places[name] = place[0]
    patterns = [*(model._keys_to_ignore_on_load_unexpected or ()), r"rotary_emb\.inv_freq"]
    report["unexpected_keys"] = [
        key for key in shapes if key not in names and not any(re.search(p, key) for p in patterns)
    ]
    return places, report


def make_hollow(model: Any, places: Mapping[str, StoredWeight], device: torch.device) -> None:
    """Give a model on the device `meta` hollow weights and computed buffers on another device.

    Raises:
        ModelError: If its class does not compute a buffer.
    """
    for module in model.modules():
        buffers = {name: buffer for name, buffer in module._buffers.items() if buffer is not None}
        for name, buffer in buffers.items():
            value = torch.nan if buffer.is_floating_point() else 0
            module._buffers[name] = torch.full_like(buffer, value, device=device)
        if buffers:  # the weights are on `meta`, where initialization does nothing
            model._init_weights(module)
    absent = [
        name
        for name, buffer in model.named_buffers()
        if not buffer.is_floating_point() or bool(buffer.isnan().any())
    ]
    if absent:
        raise ModelError(
            f"a {type(model).__name__} cannot be loaded in shards: its class does not compute {absent[0]!r} "
            "outside of its constructor. Set learner.fsdp_size=1"
        )
    hollow: dict[int, Parameter] = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is None:
                continue
            if id(weight) not in hollow:
                # Not a number, so that a copy that is made of it cannot be taken for weights.
                number = torch.full((), torch.nan, dtype=weight.dtype, device=device)
                hollow[id(weight)] = Parameter(number.expand(weight.shape))
            module._parameters[name] = hollow[id(weight)]
    for name, weight in model.named_parameters():
        weight.stored = places[name]


def is_hollow(weight: Tensor) -> bool:
    """Check whether a weight is still in its file."""
    return hasattr(weight, "stored")


def read_weights(weights: Iterable[Parameter]) -> None:
    """Read hollow weights from their files."""
    by_file: dict[Path, list[Parameter]] = {}
    for weight in weights:
        if is_hollow(weight):
            by_file.setdefault(weight.stored.file, []).append(weight)  # type: ignore[attr-defined]
    for path, group in by_file.items():
        # The pages of a file count as memory of the process as long as it is open.
        with safe_open(path, "pt") as file:
            for weight in group:
                tensor = file.get_tensor(weight.stored.key)  # type: ignore[attr-defined]
                weight.data = tensor.to(weight.device, weight.dtype, copy=True)
                del weight.stored  # type: ignore[attr-defined]
