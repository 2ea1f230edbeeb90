"""Attention of packed rows without the scores that no token needs.

A packed row has one or several prompts, each with its completions (log_probs.py):

```
row        p p p  a a  b b b  q q  c c c
```

A token sees its prompt and the tokens before it in its own completion. A dense mask hides most scores after all of
them are computed. Here the row is cut into tiles of queries, and each tile computes the scores of the tokens that
it sees, in float32:

```
tile       p p p            sees its beginning and itself
tile       a a  b b b       sees p p p and itself; a mask of 5 x 5 separates a from b
```

Products other than scores are computed in the format of the input, such as bfloat16.

The backward pass computes the scores again, as FlashAttention does (arXiv 2307.08691), so that no matrix of scores
is kept. On a GPU flex attention of torch skips the blocks that a mask hides.

Letters: L tokens of the row, H heads of queries, K heads of keys, D their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.library import custom_op
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from llm_decpomdp.agents.inference.log_probs import Layout, visible_tokens

NAME = "llm_decpomdp_packed"

BLOCK = 64
"""Queries of a tile. Larger tiles compute more hidden scores, smaller ones more products."""
# Forward and backward of a row of 531 tokens, milliseconds on one core with AVX-512 (float32): 23 with 64 queries,
# 27 with 128, 36 with 256; `sdpa` with a dense mask takes 34.

LOG2_E = 1 / math.log(2)
"""Makes scores exponents of 2: on a CPU `exp2` takes a third of the time of `exp`."""

UNKNOWN = ("position_bias", "softcap", "s_aux")
"""Arguments of transformers that change scores, which the tiles do not know."""


def decode_layout(mask: Tensor) -> Layout:
    """Return the layout of `encode_layout`."""
    numbers = mask.flatten().tolist()
    layout = []
    while numbers:
        prompt, count = numbers[:2]
        layout.append((prompt, tuple(numbers[2 : 2 + count])))
        numbers = numbers[2 + count :]
    return tuple(layout)


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, Any]:
    """Compute the attention of a row whose layout stands in the place of a mask; with another mask, as `sdpa`.

    Args:
        module: The layer.
        query: (1, H, L, D).
        key: (1, K, L, D).
        value: (1, K, L, D).
        attention_mask: The value of `encode_layout`, or any mask of transformers.
        scaling: Factor of the scores; by default 1 / sqrt(D).
        options: Other arguments of transformers.

    Returns:
        (1, L, H, D), and no weights.

    Raises:
        NotImplementedError: If an option changes the scores.
    """
    interface: Any = AttentionInterface  # whose constructor has no types
    if attention_mask is None or attention_mask.dtype != torch.int64:
        plain = interface()["sdpa"]
        output: tuple[Tensor, Any] = plain(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return output
    for name in UNKNOWN:
        if options.get(name) is not None:
            raise NotImplementedError(f"packed attention does not know {name}")
    if query.device.type != "cpu":
        flex = interface()["flex_attention"]
        mask = block_mask(decode_layout(attention_mask), query.device)
        output = flex(module, query, key, value, mask, scaling=scaling)
        return output
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    attended, _ = tiled_attention(query, key, value, attention_mask, scale)
    return attended, None


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


@lru_cache(maxsize=1)  # all layers of a pass have the same
def block_mask(layout: Layout, device: torch.device) -> Any:
    """Return the mask of a row for flex attention."""
    from torch.nn.attention.flex_attention import create_block_mask

    visible = visible_tokens(layout, device)
    length = len(visible)
    return create_block_mask(
        lambda _, __, query, key: visible[query, key], None, None, length, length, device
    )


class Tile(NamedTuple):
    """Queries that are computed together, and what they see."""

    queries: slice
    keys: tuple[slice, ...]
    """Tokens that some of the queries see; the last ones are the queries themselves."""
    hidden: Tensor
    """Pairs of the queries that do not see each other, (n, n)."""


@lru_cache(maxsize=1)  # all layers of a pass have the same
def tiles(layout: Layout) -> tuple[Tile, ...]:
    """Return the tiles of a row; each token is a query of one of them."""
    of_row: list[Tile] = []
    start = 0
    for prompt, lengths in layout:
        end = start + prompt
        of_row += _tiles_of_text(start, end, ())
        prefix = (slice(start, end),)
        for first, group in _neighbors(end, [length for length in lengths if length]):
            # One completion alone may be longer than a tile.
            alone = len(group) == 1
            of_row += (
                _tiles_of_text(first, first + group[0], prefix)
                if alone
                else [_tile(first, group, prefix)]
            )
        start = end + sum(lengths)
    return tuple(of_row)


def _neighbors(start: int, lengths: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Return the beginning and the lengths of neighboring completions that fill a tile, or of one alone."""
    group: list[int] = []
    for length in lengths:
        if group and sum(group) + length > BLOCK:
            yield start, group
            start, group = start + sum(group), []
        group.append(length)
    if group:
        yield start, group


def _tiles_of_text(start: int, end: int, seen: tuple[slice, ...]) -> Iterator[Tile]:
    """Cut one text into tiles; each sees the ones before."""
    for first in range(start, end, BLOCK):
        earlier = (slice(start, first),) if first > start else ()
        yield _tile(first, [min(BLOCK, end - first)], (*seen, *earlier))


def _tile(start: int, lengths: Sequence[int], seen: tuple[slice, ...]) -> Tile:
    queries = slice(start, start + sum(lengths))
    owners = torch.repeat_interleave(torch.tensor(lengths))
    hidden = ~(owners.unsqueeze(1) == owners).tril()
    keys: list[slice] = []
    for part in (*seen, queries):  # neighbors are one part, which is not copied
        if keys and keys[-1].stop == part.start:
            part = slice(keys.pop().start, part.stop)
        keys.append(part)
    return Tile(queries, tuple(keys), hidden)


# An operator that `torch.compile` calls as it is: compiled code cannot depend on a layout.
_FORWARD = (
    "(Tensor query, Tensor key, Tensor value, Tensor layout, float scale) -> (Tensor, Tensor)"
)
_BACKWARD = (
    "(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor result, Tensor normalizers, Tensor layout, "
    "float scale) -> (Tensor, Tensor, Tensor)"
)


@custom_op("llm_decpomdp::tiled_attention", mutates_args=(), schema=_FORWARD)
def tiled_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Compute attention tile by tile; H / K heads of queries share a head of keys.

    Returns:
        The attended values (1, L, H, D), and the normalizer of each query, (K, H / K, L).
    """
    with torch.autocast(query.device.type, enabled=False):
        queries, keys = _by_key_head(query, key, scale)
        dtype = torch.result_type(query, value)
        values = value[0].to(dtype)
        heads, repeats, length, _ = queries.shape
        size = values.shape[-1]
        output = queries.new_empty(length, heads, repeats, size)
        normalizers = output.new_empty(heads, repeats, length)
        for tile in tiles(decode_layout(layout)):
            scores = _scores(queries, keys, tile)
            _fill_hidden(scores, tile, repeats, -torch.inf)
            largest = scores.amax(-1, keepdim=True)
            weights = scores.sub_(largest).exp2_()
            total = weights.sum(-1, keepdim=True)
            attended = torch.bmm(weights.to(dtype), _take(values, tile)).float().div_(total)
            output[tile.queries] = attended.view(heads, repeats, -1, size).permute(2, 0, 1, 3)
            normalizer = largest.add_(total.log2_())
            normalizers[:, :, tile.queries] = normalizer.view(heads, repeats, -1)
        return output.view(1, length, heads * repeats, size).to(query.dtype), normalizers


@custom_op("llm_decpomdp::tiled_attention_backward", mutates_args=(), schema=_BACKWARD)
def tiled_attention_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    result: Tensor,
    normalizers: Tensor,
    layout: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and values, in their shapes and formats."""
    with torch.autocast(query.device.type, enabled=False):
        queries, keys = _by_key_head(query, key, scale)
        heads, repeats, length, size = queries.shape
        dtype = torch.result_type(query, value)
        rounded, rounded_keys, values = (states[0].to(dtype) for states in (query, key, value))
        rounded_queries = rounded.view(queries.shape)
        received_by = grad.float().reshape(length, heads, repeats, -1)
        # sum_j p_j dp_j of each query, by its output
        means = (received_by * result.view(received_by.shape).float()).sum(-1).permute(1, 2, 0)
        received_by = received_by.to(dtype).permute(1, 2, 0, 3)
        query_grad = queries.new_empty(length, heads, repeats, size)
        # Contiguous, as compiled code expects.
        key_grad, value_grad = keys.new_zeros(keys.shape), keys.new_zeros(values.shape)
        for tile in tiles(decode_layout(layout)):
            weights = _scores(queries, keys, tile, normalizers).exp2_()
            _fill_hidden(weights, tile, repeats, 0.0)
            received = _rows(received_by, tile)
            _add(value_grad, tile, torch.bmm(weights.to(dtype).transpose(1, 2), received))
            sources = _take(values, tile).transpose(1, 2)
            through = torch.bmm(received, sources).float().add_(_column(means, tile))
            through = through.mul_(weights).to(dtype)
            rows = torch.bmm(through, _take(rounded_keys, tile)).float()
            query_grad[tile.queries] = rows.view(heads, repeats, -1, size).permute(2, 0, 1, 3)
            _add(key_grad, tile, torch.bmm(through.transpose(1, 2), _rows(rounded_queries, tile)))
        query_grad.mul_(scale)
        key_grad.mul_(scale)
    return (
        query_grad.view(1, length, heads * repeats, size).transpose(1, 2).to(query.dtype),
        key_grad.unsqueeze(0).to(key.dtype),
        value_grad.unsqueeze(0).to(value.dtype),
    )


@tiled_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    rows, heads, length, _size = query.shape
    output = value.new_empty(rows, length, heads, value.shape[-1], dtype=query.dtype)
    repeats = heads // key.shape[1]
    normalizers = value.new_empty(key.shape[1], repeats, length, dtype=torch.float32)
    return output, normalizers


@tiled_attention_backward.register_fake
def _(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    rows, heads, length, size = query.shape
    query_grad = query.new_empty(rows, length, heads, size).transpose(1, 2)
    return query_grad, key.new_empty(key.shape), value.new_empty(value.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, layout, scale = inputs
    ctx.save_for_backward(query, key, value, *output, layout)
    ctx.scale = scale
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    gradients = tiled_attention_backward(grad, *ctx.saved_tensors, ctx.scale)
    return *gradients, None, None


tiled_attention.register_autograd(_differentiate, setup_context=_keep)


def _by_key_head(query: Tensor, key: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return scaled queries (K, H / K, L, D) and keys (K, L, D) in float32."""
    length, size = query.shape[2:]
    grouped = query[0].float().view(key.shape[1], -1, length, size) * (scale * LOG2_E)
    return grouped, key[0].float()


def _scores(queries: Tensor, keys: Tensor, tile: Tile, normalizers: Tensor | None = None) -> Tensor:
    """Return the scores of a tile, less the normalizers of its queries, (K, H / K * n, tokens)."""
    sources = _take(keys, tile).transpose(1, 2)
    if normalizers is None:
        return torch.bmm(_rows(queries, tile), sources)
    return torch.baddbmm(_column(normalizers, tile), _rows(queries, tile), sources)


def _fill_hidden(scores: Tensor, tile: Tile, repeats: int, value: float) -> None:
    count = len(tile.hidden)
    pairs = scores.view(len(scores), repeats, count, -1)[..., -count:]
    pairs.masked_fill_(tile.hidden, value)


def _rows(states: Tensor, tile: Tile) -> Tensor:
    """Return the rows of a tile's queries, (K, H / K * n, D)."""
    return states[:, :, tile.queries].flatten(1, 2)


def _column(numbers: Tensor, tile: Tile) -> Tensor:
    """Return the negative number of each query, (K, H / K * n, 1)."""
    return numbers[:, :, tile.queries].flatten(1, 2).unsqueeze(-1).neg()


def _take(states: Tensor, tile: Tile) -> Tensor:
    """Return the states that a tile sees, (K, tokens, D)."""
    if len(tile.keys) == 1:
        return states[:, tile.keys[0]]
    return torch.cat([states[:, part] for part in tile.keys], 1)


def _add(sums: Tensor, tile: Tile, grad: Tensor) -> None:
    """Add gradients to the states that a tile sees."""
    grad = grad.float()  # a sum of two formats takes longer
    start = 0
    for part in tile.keys:
        end = start + part.stop - part.start
        sums[:, part] += grad[:, start:end]
        start = end
