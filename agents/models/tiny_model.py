"""The model `tiny-random`: a folder in transformers' format that is made on first use, for runs that test the way.

It reads and writes bytes, has random weights, and can say nothing sensible. A run with it takes seconds, needs no
download, and goes through all that a run with a real model goes through.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from llm_decpomdp.agents.models.offline import cache_folder

TINY_MODEL = "tiny-random"

FORMAT = 1
"""Version of the folder's content."""

WIDTH = 16
CONTEXT = 16384
"""Bytes of a prompt with its completion."""


def tiny_model() -> Path:
    """Return the folder with the model, which is written on first use.

    Raises:
        ModuleNotFoundError: If transformers is missing.
    """
    folder = cache_folder() / f"{TINY_MODEL}-{FORMAT}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _write(folder)
    return folder


def _write(folder: Path) -> None:
    """Write the model beside `folder` and rename it: of several processes at once, all succeed."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    config = LlamaConfig(
        vocab_size=len(letters) + 1,
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=CONTEXT,
        eos_token_id=len(letters),
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = LlamaForCausalLM(config)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        result = Path(scratch, "model")
        model.save_pretrained(result)
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")  # type: ignore[no-untyped-call]
        fast.save_pretrained(result)
        try:
            result.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same result
                raise
