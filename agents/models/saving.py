"""Weights on disk and in checkpoints: folders of models and adapters, what a server reads, and states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.models.weights import cut_as


def save_model(model: Any, tokenizer: Any, adapter: str | None, folder: Path) -> None:
    """Write a model, or one of its adapters, and a tokenizer in the formats of transformers and peft."""
    if adapter is None:
        model.save_pretrained(folder)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as scratch:
            model.save_pretrained(scratch, selected_adapters=[adapter])
            # peft writes into a folder below, unless the name is the default.
            below = Path(scratch, adapter)
            for path in (below if below.is_dir() else Path(scratch)).iterdir():
                path.replace(folder / path.name)
    tokenizer.save_pretrained(folder)


def save_rounded(model: Any, tokenizer: Any, dtype: torch.dtype, folder: Path) -> None:
    """Write all weights of a model, rounded to `dtype`, and a tokenizer."""
    rounded: dict[int, Tensor] = {}  # by place in memory: tied weights have several names
    state = {
        name: rounded.setdefault(weight.data_ptr(), weight.to(dtype))
        for name, weight in model.state_dict().items()
    }
    model.save_pretrained(folder, state_dict=state)
    tokenizer.save_pretrained(folder)


@torch.no_grad()
def copy_weights(stored: Mapping[str, Tensor], weights: Mapping[str, torch.nn.Parameter]) -> None:
    """Copy stored weights into those of a model; raise a `ValueError` unless names and shapes are equal."""
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    stored_shapes = {name: tuple(weight.shape) for name, weight in stored.items()}
    if stored_shapes != shapes:
        differing = sorted(name for name, _ in stored_shapes.items() ^ shapes.items())
        raise ValueError(
            f"the state is of another model: it differs from this one in {differing[:3]}, "
            f"{len(set(differing))} weights in all"
        )
    for name, weight in weights.items():
        weight.copy_(cut_as(stored[name], weight))
