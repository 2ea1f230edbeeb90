"""Identity of a model's weights: a digest of its files, and the revision of a model from the hub."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Weight files in the order in which transformers prefers them. Several files have an `.index.json`."""

WHOLE = 64 * 2**20
"""Maximum number of bytes of a file that is read completely."""

PIECES, PIECE = 4096, 16 * 2**10
"""Number and size in bytes of the pieces that are read of a larger file, at equal distances. The first piece has
the
names and shapes of all tensors, or of the first tensors."""


def origin_of(name_or_path: str) -> dict[str, str]:
    """Describe the weights of a model.

    The digest is the SHA-256 of the names, sizes and contents of the weight files. Of files above 64 MiB it reads
    4096 pieces of 16 KiB. It detects training, which changes whole tensors. It may miss a change of a few values.

    Args:
        name_or_path: A folder, or a name on the hub whose files are in its cache.

    Returns:
        `name`, the digest as `weights`, and for a model on the hub its `revision` (commit). Empty if there are no
        weight files, as for a model that was made in memory.
    """
    folder, revision = _folder(name_or_path)
    files = _weight_files(folder) if folder is not None else []
    if not files:
        return {}
    stats = tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    about = {"name": name_or_path, "weights": _digest(stats)}
    return about if revision is None else {**about, "revision": revision}


def _folder(name_or_path: str) -> tuple[Path | None, str | None]:
    """Return the folder of a model's files, and the revision if that is in the cache of the hub."""
    if not name_or_path or Path(name_or_path).is_dir():
        return (Path(name_or_path), None) if name_or_path else (None, None)
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(name_or_path, "config.json")
    if not isinstance(config, str):
        return None, None
    folder = Path(config).parent  # snapshots/<commit>
    return folder, folder.name


def _weight_files(folder: Path) -> list[Path]:
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
