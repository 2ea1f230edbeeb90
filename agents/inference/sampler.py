"""From the prompts' token ids to sampled ids and their log-probabilities.

`sample` is the loop. `SampledRows` holds the rows of a batch, `draw_tokens` draws one token for each of them, and
`GrowingSteps` makes the pass behind it.

Letters: B prompts, S samples of each, N = B * S rows (fewer as they end), P prompt tokens, T new tokens,
V vocabulary. Masks: 1 = counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from typing_extensions import Protocol

from llm_decpomdp.agents.inference.decoding import (
    growing_cache,
    limit_threads,
    product_size,
    takes_prepared_masks,
)
from llm_decpomdp.agents.inference.determinism import cumulative_sum
from llm_decpomdp.agents.inference.log_probs import token_log_probs, unwrap_peft
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.inference.prefill import (
    PrefixCache,
    SetAdapters,
    forward_with,
    pad_left,
    prefill,
)
from llm_decpomdp.agents.inference.tokenization import Decode, StopSearch

if TYPE_CHECKING:
    from llm_decpomdp.agents.inference.static_cache import StaticSteps


@dataclass(frozen=True)
class Prompt:
    """A prompt to continue, with its sampling options."""

    ids: Sequence[int]
    """Token ids, at least one."""
    sampling: Sampling
    generator: torch.Generator
    """Source of random numbers; on the CPU, so that every device gets the same ones."""
    adapter: str | None = None
    """The adapter that continues it."""
    long: bool = False
    """True if it was too long, and its left end was cut off."""
    prefill: str = ""
    """The text at the end of `ids` with which its completions begin."""
    uniform: Tensor | None = None
    """Random numbers for its samples, (S, T), if they are drawn already."""

    def draw_numbers(self, num_samples: int) -> Prompt:
        """Return the prompt with the random numbers of its samples."""
        # All numbers at once, for the longest completion: a row's numbers then do not depend on other rows.
        size = (num_samples, self.sampling.max_new_tokens)
        return replace(self, uniform=torch.rand(*size, generator=self.generator))


@dataclass(frozen=True)
class SampledRow:
    """The tokens of one completion."""

    tokens: tuple[int, ...]
    """With the end-of-sequence token where one was sampled."""
    log_probs: tuple[float, ...]
    """See `token_log_probs`."""
    stopped: bool
    """True if the last token ends the sequence, or its text with a stop string."""
    versions: tuple[int, ...] = ()
    """See `Completion.versions`."""


class Remote(Protocol):
    """A sampler in another process, which has the weights of an engine's policies."""

    def sample(self, prompts: Sequence[Prompt], num_samples: int) -> list[SampledRow]:
        """Draw completions of all prompts, in the order of `sample`; tokens may follow a stop string."""
        ...


def ignore_adapters(names: Sequence[str | None]) -> None:
    """Do nothing: all rows have the active adapter, or none."""


@torch.no_grad()
def sample(
    model: Any,
    prompts: Sequence[Prompt],
    num_samples: int,
    end_ids: Sequence[int],
    set_adapters: SetAdapters = ignore_adapters,
    decode: Decode | None = None,
    prefixes: PrefixCache | None = None,
    steps: Callable[[Prefilled], GrowingSteps | StaticSteps] | None = None,
) -> list[SampledRow]:
    """Draw completions of all prompts in one batch.

    Each different prompt goes through the model once; its keys and values are copied for its samples. The tokens
    of a row depend on its prompt and generator, not on other rows.

    Args:
        model: A transformers model with a head for the next token, or a peft model around one.
        prompts: B prompts.
        num_samples: S, at least 1.
        end_ids: The tokens that end a sequence.
        set_adapters: Called with the adapter of each row before each pass.
        decode: Reads tokens as text, for prompts with stop strings.
        prefixes: Keys and values of earlier calls, by which prompts that begin with the same tokens are continued.
        steps: The passes behind that of the prompts, by default `GrowingSteps`.

    Returns:
        N rows: the samples of the first prompt, then those of the second, and so on.

    Raises:
        FloatingPointError: If the model's logits are not finite.
    """
    rows = SampledRows(prompts, num_samples, end_ids, model.device, decode)
    ids, mask = pad_left([prompt.ids for prompt in prompts], model.device)  # (B, P)
    if growing_cache(model) is None:
        set_adapters(rows.adapters())
        from llm_decpomdp.agents.inference.generate import sample_by_generate

        return sample_by_generate(model, ids, mask, num_samples, rows)
    cache, logits, entries = prefill(model, prompts, num_samples, set_adapters, prefixes)
    mask = mask.repeat_interleave(num_samples, 0)  # (N, P)
    positions = mask.sum(1, keepdim=True) - 1  # (N, 1)
    padded = len({len(prompt.ids) for prompt in prompts}) > 1
    step = (steps or GrowingSteps)(
        Prefilled(
            model,
            cache,
            mask,
            positions,
            rows.limit,
            set_adapters=lambda: set_adapters(rows.adapters()),
            padded=padded,
        )
    )
    while True:
        tokens = rows.add_tokens(logits)  # (N,)
        lines, going = rows.lines, rows.drop_ended()
        if prefixes is not None:
            for line in sorted({*range(len(lines))} - {*going}):
                row, answer = lines[line], rows.ids(lines[line])[:-1]
                end = ids.shape[1] + len(answer)
                prefixes.add_answer(entries[row // num_samples], cache, line, answer, end)
        if not going:
            return rows.finish()
        # Rows that end leave the batch, so that a few long completions do not cost passes of all rows.
        if len(going) < len(tokens):
            tokens = tokens[going]
            step.select(going)
        logits = step(tokens)


def block_size(device: torch.device) -> int:
    """Return the number of tokens between two checks for rows that ended."""
    # A check waits for a GPU, which computes ahead of Python. On a CPU it costs nothing, and saves passes of rows.
    return 1 if device.type == "cpu" else 8


class SampledRows:
    """The tokens that are sampled so far, and the rows that go on."""

    def __init__(
        self,
        prompts: Sequence[Prompt],
        num_samples: int,
        end_ids: Sequence[int],
        device: torch.device,
        decode: Decode | None = None,
    ) -> None:
        every = [prompt for prompt in prompts for _ in range(num_samples)]
        limits = [prompt.sampling.max_new_tokens for prompt in every]
        self.limit = max(limits)
        self.end_ids = torch.tensor(end_ids, device=device)
        self._names = [prompt.adapter for prompt in every]
        self._stops = [prompt.sampling.stop or () for prompt in every]
        self._search = StopSearch(decode) if decode is not None and any(self._stops) else None
        self._texts: list[list[int]] = [[] for _ in every]  # the tokens that were searched
        self._all_options = RowOptions.from_samplings([p.sampling for p in every], device)
        self._options = self._all_options
        self._limits = torch.tensor(limits, device=device)
        numbers = [self._numbers(prompt, num_samples) for prompt in prompts]
        # One column more, for the tokens that rows draw between their end and the next check.
        self._uniform = pad(torch.cat(numbers), (0, 1)).to(device)  # (N, T + 1)
        self._length = 0
        self._block = block_size(device)
        self._ends = {*limits}
        self.lines = list(range(len(every)))
        """The row of each line of the batch."""
        self._alive = self.all()  # the same on the device
        self._tokens = torch.zeros(len(every), self.limit + 1, dtype=torch.long, device=device)
        self._log_probs = torch.zeros(len(every), self.limit + 1, device=device)
        self._lengths = torch.zeros(len(every), dtype=torch.long, device=device)
        self._stopped = torch.zeros(len(every), dtype=torch.bool, device=device)

    def _numbers(self, prompt: Prompt, num_samples: int) -> Tensor:
        """Return the random numbers of a prompt's rows, padded to the longest limit of the batch, (S, T)."""
        if prompt.uniform is None:
            prompt = prompt.draw_numbers(num_samples)
        assert prompt.uniform is not None
        return pad(prompt.uniform, (0, self.limit - prompt.uniform.shape[1]))

    def all(self) -> Tensor:
        """Return the indices of all rows, (N,)."""
        return torch.arange(len(self._names), device=self.end_ids.device)

    def ids(self, row: int) -> list[int]:
        """Return the tokens of a row, up to its end."""
        return list(self._tokens[row, : self._lengths[row]].tolist())

    def adapters(self) -> list[str | None]:
        """Return the adapter of each live row."""
        return [self._names[row] for row in self.lines]

    def add_tokens(self, logits: Tensor) -> Tensor:
        """Draw and record one token of each line; return the tokens."""
        alive = self._alive
        lengths = self._lengths[alive]
        tokens, log_probs = draw_tokens(logits, self._options, self._uniform[alive, lengths])
        self._tokens[alive, lengths] = tokens
        self._log_probs[alive, lengths] = log_probs
        self._length += 1
        # A row that ended in this block draws tokens that do not count.
        counts = ~self._stopped[alive] & (lengths < self._limits[alive])
        self._lengths[alive] += counts
        self._stopped[alive] |= counts & torch.isin(tokens, self.end_ids)
        return tokens

    def keep(self, lines: Sequence[int]) -> None:
        """Let these rows be the lines of the batch."""
        self.lines = list(lines)
        self._alive = torch.tensor(self.lines, dtype=torch.long, device=self.end_ids.device)
        self._options = self._all_options.select(self._alive)

    def drop_ended(self) -> list[int]:
        """Drop the rows that ended, at the end of a block.

        Returns:
            The former lines of the rows that go on. The last ones fill the gaps.
        """
        going = list(range(len(self.lines)))
        if self._length % self._block and self._length not in self._ends:
            return going
        alive = self._alive
        goes_on = self._check_rows()
        count = sum(goes_on)
        # Only rows at the end move: each move copies the keys and values of a row.
        last = (line for line in going[count:] if goes_on[line])
        going = [line if goes_on[line] else next(last) for line in going[:count]]
        if count < len(alive):
            self.lines = [self.lines[line] for line in going]
            self._alive, self._options = alive[going], self._options.select(going)
        return going

    def _check_rows(self) -> list[bool]:
        """Return whether each line goes on, after rows were ended at their first stop string."""
        alive = self._alive
        lengths = self._lengths[alive]
        goes_on = ~self._stopped[alive] & (self._limits[alive] > lengths)
        if self._search is None:
            return list(goes_on.tolist())
        known = [len(self._texts[row]) for row in self.lines]
        first, end = min(known), max(known) + self._block
        # One copy from the device holds all that is read.
        columns = (goes_on.unsqueeze(1), lengths.unsqueeze(1), self._tokens[alive, first:end])
        block = torch.cat(columns, 1).tolist()
        for line, (row, (_, length, *tokens)) in enumerate(zip(self.lines, block, strict=True)):
            newest = tokens[known[line] - first : length - first]
            self._texts[row] += newest
            if not self._stops[row]:
                continue
            stop = self._search.find(self._texts[row], len(newest), self._stops[row])
            if stop is not None:
                self._lengths[row], self._stopped[row], block[line][0] = stop, True, 0
        return [bool(line[0]) for line in block]

    def finish(self) -> list[SampledRow]:
        """Return all rows, each up to its end."""
        if not self._log_probs.isfinite().all():
            raise FloatingPointError(
                "the model's logits are not finite: its weights may have diverged (lower learning_rate, "
                "set max_grad_norm), or bfloat16 is too coarse for it (compute_dtype=float32)"
            )
        columns = (self._tokens, self._log_probs, self._lengths, self._stopped)
        return [
            SampledRow(tuple(tokens[:length]), tuple(log_probs[:length]), stopped)
            for tokens, log_probs, length, stopped in zip(*map(Tensor.tolist, columns), strict=True)
        ]


# Passes of new tokens


@dataclass(frozen=True)
class Prefilled:
    """A batch whose prompts have passed through the model; P tokens of the longest prompt."""

    model: Any
    cache: Any  # keys and values of the prompts, a row for each line of the batch
    mask: Tensor  # 1 for tokens of prompts that count, (N, P)
    positions: Tensor  # positions of the last tokens of the prompts, (N, 1)
    limit: int  # maximum number of passes
    set_adapters: Callable[[], None]  # sets the adapters of the lines for the next pass
    padded: bool  # whether any prompt is shorter than P


class GrowingSteps:
    """Passes of one new token for each line, with a cache that grows."""

    def __init__(self, begin: Prefilled) -> None:
        self._forward, self._cache = forward_with(begin.model, begin.cache), begin.cache
        self._positions, self._padded = begin.positions, begin.padded
        self._prepares_masks = takes_prepared_masks(begin.model)
        self._mask = self._prepare(begin.mask)
        self._set_adapters = begin.set_adapters
        self._weights, self._device = product_size(unwrap_peft(begin.model)), begin.model.device

    def select(self, lines: Sequence[int], columns: int | None = None) -> None:
        """Keep these lines of the batch, in this order; of their columns the last ones, or all."""
        self._cache.batch_select_indices(lines)
        self._mask, self._positions = self._mask[lines], self._positions[lines]
        if columns is not None:
            self._mask = self._mask[..., -columns:]
            for layer in self._cache.layers:
                layer.keep_last(columns)

    def append(self, other: Prefilled) -> None:
        """Add the lines of another batch; the last tokens of all lines then stand in one column."""
        for layer, added in zip(self._cache.layers, other.cache.layers, strict=True):
            layer.append([added])
        masks = (self._mask, self._prepare(other.mask))
        width = max(mask.shape[-1] for mask in masks)
        self._mask = torch.cat([pad(mask, (width - mask.shape[-1], 0)) for mask in masks])
        self._positions = torch.cat([self._positions, other.positions])

    def _prepare(self, mask: Tensor) -> Tensor:
        return mask.bool()[:, None, None] if self._prepares_masks else mask

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the logits (N, V) behind one more token of each line (N,)."""
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[..., :1])], -1)
        self._positions = self._positions + 1
        self._set_adapters()
        with limit_threads(len(tokens) * self._weights, self._device):
            # transformers looks for padding in masks that it prepares, which waits for a GPU.
            out = self._forward(
                input_ids=tokens.unsqueeze(1),
                attention_mask=self._mask if self._padded else None,
                position_ids=self._positions,
            )
        logits: Tensor = out.logits[:, -1]
        return logits


# Drawing of tokens


@dataclass(frozen=True)
class RowOptions:
    """The sampling options of each row, as tensors on the device of the logits."""

    divisor: Tensor  # (N, 1)
    greedy: Tensor  # (N, 1)
    top_p: Tensor  # (N, 1), infinite where nothing is cut
    top_k: Tensor  # (N, 1), V or more where nothing is cut
    most: int  # the largest `top_k`; 0 if a row has none
    cuts: bool  # whether any row has a `top_p` or `top_k`
    takes_most_likely: bool  # whether any row is greedy

    @classmethod
    def from_samplings(cls, samplings: Sequence[Sampling], device: torch.device) -> RowOptions:
        """Return the options of one `Sampling` for each row."""
        greedy = [s.temperature == 0 for s in samplings]
        top_k = [s.top_k or math.inf for s in samplings]
        columns: dict[str, Any] = {
            "divisor": [s.divisor for s in samplings],
            "greedy": greedy,
            "top_p": [s.top_p if s.top_p < 1 else math.inf for s in samplings],
            "top_k": top_k,
        }
        return cls(
            **{k: torch.tensor(c, device=device).unsqueeze(1) for k, c in columns.items()},
            most=int(max(top_k)) if math.isfinite(max(top_k)) else 0,
            cuts=any(s.top_p < 1 or s.top_k for s in samplings),
            takes_most_likely=any(greedy),
        )

    def select(self, rows: Sequence[int] | Tensor) -> RowOptions:
        """Return the options of the rows with these indices."""
        tensors: Any = {k: v[rows] for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **tensors)


def draw_tokens(logits: Tensor, options: RowOptions, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token for each row, by inverting the cumulative distribution.

    Args:
        logits: (N, V).
        options: The rows' options.
        uniform: Random numbers in [0, 1), (N,).

    Returns:
        Token ids and their log-probabilities (see `token_log_probs`), both (N,).
    """
    tempered = logits.float() / options.divisor
    if options.cuts:
        tempered = truncate(tempered, options)
    cumulative = cumulative_sum(tempered.softmax(-1))
    total = cumulative[:, -1:]
    # Strictly below the total: the first entry above the target then has a probability above 0.
    below = torch.nextafter(total, torch.zeros_like(total))
    target = torch.minimum(uniform.unsqueeze(1) * total, below)
    # Only NaN logits lead past the last entry; `finish` then finds their log-probability.
    tokens = torch.searchsorted(cumulative, target, right=True).clamp(max=logits.shape[-1] - 1)
    # A parallel sum may decrease slightly, so the search can end at an entry that was cut off.
    excluded = tempered.gather(1, tokens).isinf()
    tokens = torch.where(excluded, tempered.argmax(-1, keepdim=True), tokens)
    if options.takes_most_likely:
        tokens = torch.where(options.greedy, logits.argmax(-1, keepdim=True), tokens)
    return tokens.squeeze(1), token_log_probs(logits, tokens.squeeze(1), options.divisor)


def truncate(logits: Tensor, options: RowOptions) -> Tensor:
    """Set the tempered logits (N, V) outside of `top_k`, and then of `top_p`, to minus infinity."""
    size = logits.shape[-1]
    ordered, tokens = logits.topk(min(options.most or size, size))
    rank = torch.arange(ordered.shape[-1], device=logits.device)
    ordered = ordered.masked_fill(rank >= options.top_k, -math.inf)
    probabilities = ordered.softmax(-1)
    before = cumulative_sum(probabilities) - probabilities
    nucleus = ordered.masked_fill(before >= options.top_p, -math.inf)
    return torch.full_like(logits, -math.inf).scatter(-1, tokens, nucleus)
