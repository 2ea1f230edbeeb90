"""Passes of one new token for each row, in memory of fixed size for keys and values.

A pass launches some hundred kernels, and a GPU computes most of them faster than Python launches them. With fixed
shapes and addresses all launches are recorded once, and repeated as one:
<https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs>.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from llm_decpomdp.agents.inference.decoding import takes_prepared_masks
from llm_decpomdp.agents.inference.log_probs import unwrap_peft
from llm_decpomdp.agents.inference.options import Caching
from llm_decpomdp.agents.inference.prefill import forward_with
from llm_decpomdp.agents.inference.sampler import Prefilled, sample


def uses_static_cache(model: Any, caching: Caching) -> bool:
    """Return the option `static_cache`; by default true on a GPU, where the model and other options allow it."""
    if caching.static_cache is not None:
        return caching.static_cache
    grows = caching.prefix_cache or caching.continuous_batching
    return model.device.type == "cuda" and not grows and takes_prepared_masks(model)


class StaticSteps:
    """Passes in memory of fixed size, which CUDA repeats as one graph.

    Lines that leave the batch are computed on until half of them have left. The others are then moved together,
    and recorded anew.

    Raises:
        ValueError: If the model's attention takes no mask that is made here.
    """

    def __init__(self, begin: Prefilled) -> None:
        model, cache, mask = begin.model, begin.cache, begin.mask
        if not takes_prepared_masks(model):
            raise ValueError(
                f"model.static_cache needs a model whose layers all see all tokens, with attention `sdpa`; "
                f"{unwrap_peft(model).config.model_type!r} has "
                f"{unwrap_peft(model).config._attn_implementation!r}, or windows: set model.static_cache=false"
            )
        rows, prompt = mask.shape
        room = prompt + begin.limit
        self._place = torch.tensor([prompt], device=mask.device)
        self._layers = [StaticLayer(layer, prompt, room, self._place) for layer in cache.layers]
        self._forward = forward_with(model, Cache(layers=[*self._layers]))
        self._mask = torch.zeros(rows, 1, 1, room, dtype=torch.bool, device=mask.device)
        self._mask[:, 0, 0, :prompt] = mask.bool()
        self._positions = begin.positions + 1
        self._tokens = torch.zeros_like(begin.positions)
        self._rows = torch.arange(rows, device=mask.device)  # of the lines
        self._set_adapters = begin.set_adapters
        # Only for all lines of the memory: later lines leave, and the kernels keep the adapters of all.
        self._set_adapters()
        self._begins = True
        self._graph: torch.cuda.CUDAGraph | None = None

    def select(self, lines: Sequence[int]) -> None:
        """Keep these lines of the batch, in this order."""
        self._rows = self._rows[lines]
        if 2 * len(lines) > len(self._tokens):
            return
        kept, self._graph, self._begins = self._rows, None, True
        for layer in self._layers:
            layer.keys, layer.values = layer.keys[kept], layer.values[kept]
        self._mask, self._positions = self._mask[kept], self._positions[kept]
        self._tokens, self._rows = self._tokens[kept], torch.arange(len(lines), device=kept.device)
        self._set_adapters()

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the logits (N, V) behind one more token of each line (N,)."""
        self._tokens[self._rows] = tokens.unsqueeze(1)
        if self._graph is not None:
            self._graph.replay()
            logits = self._logits
        elif self._begins:
            self._begins = False
            logits = self._step()
            if logits.is_cuda:
                self._record()
        else:
            logits = self._step()
        return logits[self._rows]

    def _step(self) -> Tensor:
        """Compute one pass; all that changes from pass to pass changes in its place, by kernels alone."""
        self._mask.index_fill_(3, self._place, True)
        out = self._forward(
            input_ids=self._tokens, attention_mask=self._mask, position_ids=self._positions
        )
        self._place += 1
        self._positions += 1
        logits: Tensor = out.logits[:, -1]
        return logits

    def _record(self) -> None:
        """Record a pass without computing it; the one before has prepared libraries and masks of adapters."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._logits = self._step()
        self._graph = graph


class StaticLayer(CacheLayerMixin):
    """Keys and values of one layer in memory of fixed size, (N, heads, tokens, size).

    Args:
        source: A layer with the keys and values of prompts.
        prompt: Number of its tokens.
        room: Number of tokens of the memory.
        place: Where the next token goes, (1,). Its owner moves it.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, source: Any, prompt: int, room: int, place: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._place, self._room = place, room
        self.keys, self.values = (
            torch.nn.functional.pad(states[:, :, :prompt], (0, 0, 0, room - prompt))
            for states in (source.keys, source.values)
        )
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: the memory is there."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write a token of each row in its place; return all memory."""
        self.keys.index_copy_(2, self._place, key_states)
        self.values.index_copy_(2, self._place, value_states)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of tokens that a mask covers, and the index of the first."""
        return self._room, 0

    def get_seq_length(self) -> int:
        """Return the number of tokens of the memory: masks and positions are given to the model."""
        return self._room

    def get_max_length(self) -> int:
        """Return the number of tokens of the memory."""
        return self._room


sample_static = partial(sample, steps=StaticSteps)
"""`sample` with keys and values in memory of fixed size."""
