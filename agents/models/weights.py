"""Weights of a model: number format, shards in several processes, digest of their files."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.options import COMPUTE_DTYPES
from llm_decpomdp.validation import unknown

logger = logging.getLogger(__name__)


def resolve_compute_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype of an option `compute_dtype` on `device`; raise a `ValueError` for an unknown name."""
    if name not in COMPUTE_DTYPES:
        raise ValueError(unknown("compute_dtype", name, COMPUTE_DTYPES))
    if name == "auto":
        name = "bfloat16" if _fast_with_bfloat16(device) else "float32"
        if name == "float32" and device.type == "cuda":
            _warn_of_float32(torch.cuda.get_device_name(device))
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def same_compute_dtype(one: str, other: str, device: str) -> bool:
    """Check whether two options `compute_dtype` mean the same on a device of a `PolicySpec`."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    place = torch.device(device)
    return resolve_compute_dtype(one, place) == resolve_compute_dtype(other, place)


def _fast_with_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Processors without the units take longer than in float32. Not every version of torch has the functions.
    probes = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return device.type == "cpu" and any(
        hasattr(torch.cpu, probe) and bool(getattr(torch.cpu, probe)()) for probe in probes
    )


@lru_cache
def _warn_of_float32(gpu: str) -> None:
    logger.warning(
        "the GPU %s has no units for bfloat16: models compute in float32, which takes twice the memory and is "
        "slower. float16 is not offered, because its gradients need loss scaling; use a GPU of compute "
        "capability 8.0 or later for speed",
        gpu,
    )


def round_weights(model: torch.nn.Module, dtype: torch.dtype) -> AbstractContextManager[None]:
    """Let the model compute with its weights rounded to `dtype`, and restore the originals."""
    # Quantized weights are whole numbers.
    return weights_as(model, lambda _, data: data.to(dtype) if data.is_floating_point() else data)


@contextmanager
def weights_as(model: torch.nn.Module, other: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    """Let the model compute with `other(name, weight)` in place of each weight, and restore the originals."""
    originals = [(name, weight, weight.data) for name, weight in model.named_parameters()]
    try:
        for name, weight, data in originals:
            weight.data = other(name, data)
        yield
    finally:
        for _, weight, data in originals:
            weight.data = data


def has_shards(tensors: Iterable[Tensor]) -> bool:
    """Check whether a tensor lies in shards."""
    return any(map(is_shard, tensors))


def is_shard(tensor: Tensor) -> bool:
    """Check whether this process has only a part of a tensor."""
    return hasattr(tensor, "full_tensor")  # without importing DTensor, which takes a second


@torch.no_grad()
def whole(tensor: Tensor) -> Tensor:
    """Return a tensor with all of its values.

    Shards are gathered: all processes call this for the same tensors in the same order, and each gets all values.
    """
    full: Tensor = tensor.full_tensor() if is_shard(tensor) else tensor  # type: ignore[attr-defined]
    return full


def cut_as(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this process's part of a whole tensor, sharded like another one; every process has the whole."""
    if not is_shard(like) or is_shard(tensor):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor), like
    place = tensor.to(like.device)
    return distribute_tensor(place, like.device_mesh, like.placements, src_data_rank=None)


WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Weight files in the order in which transformers prefers them. Several files have an `.index.json`."""

WHOLE = 64 * 2**20  # maximum number of bytes of a file that is read completely

PIECES, PIECE = 4096, 16 * 2**10
"""Number and size in bytes of the pieces that are read of a larger file, at equal distances."""
# The first piece has the names and shapes of all tensors, or of the first tensors.


def describe_weights(name_or_path: str) -> dict[str, str]:
    """Return `name`, a digest as `weights`, and the `revision` (commit) on the hub; empty without weight files.

    The digest is the SHA-256 of the names, sizes and contents of the weight files; 4096 pieces of 16 KiB represent
    a file above 64 MiB. It detects training, which changes whole tensors, but may miss a change of a few values.
    """
    folder, revision = _folder(name_or_path)
    files = weight_files(folder) if folder is not None else []
    if not files:
        return {}
    stats = tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    about = {"name": name_or_path, "weights": _digest(stats)}
    return about if revision is None else {**about, "revision": revision}


def _folder(name_or_path: str) -> tuple[Path | None, str | None]:
    """Return the folder of a model's files, and the revision if it is in the cache of the hub."""
    if not name_or_path:
        return None, None
    if Path(name_or_path).is_dir():
        return Path(name_or_path), None
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(name_or_path, "config.json")
    if not isinstance(config, str):
        return None, None
    folder = Path(config).parent  # snapshots/<commit>
    return folder, folder.name


def weight_files(folder: Path) -> list[Path]:
    """Return the files of a model's weights in a folder, those that transformers would read."""
    for name in WEIGHTS:
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return [folder / name]
        if index.is_file():
            names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            return [folder / part for part in sorted(set(names))]
    return []


@lru_cache
def _digest(stats: tuple[tuple[Path, int, int], ...]) -> str:
    """Hash files of those sizes, changed at those times (ns)."""
    digest = hashlib.sha256()
    for path, size, _ in stats:
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            if size <= WHOLE:
                digest.update(file.read())
                continue
            for piece in range(PIECES):
                file.seek(piece * (size - PIECE) // (PIECES - 1))
                digest.update(file.read(PIECE))
    return digest.hexdigest()


def active_adapter(model: Any) -> str | None:
    """Return the active adapter, or none if a model has no adapters."""
    return model.active_adapter if hasattr(model, "peft_config") else None


def activate_adapter(model: Any, adapter: str | None) -> None:
    """Compute with this adapter alone; `requires_grad` of all weights stays."""
    if adapter is not None and adapter != active_adapter(model):
        with requires_grad_restored(model):
            model.set_adapter(adapter)


@contextmanager
def requires_grad_restored(model: Any) -> Iterator[None]:
    """Restore `requires_grad`: peft sets that of all adapters when another one becomes active."""
    before = [(weight, weight.requires_grad) for weight in model.parameters()]
    try:
        yield
    finally:
        for weight, requires_grad in before:
            weight.requires_grad_(requires_grad)
