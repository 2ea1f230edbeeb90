"""Sizes of language models from a few numbers: weights, keys and values, activations, adapters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_TARGETS = ("q_proj", "v_proj")
"""Modules that peft adapts in models of the kinds in `shape_table` where none are named."""


@dataclass(frozen=True)
class Shape:
    """Numbers of a decoder with grouped-query attention and a gated feed-forward part (Llama, Qwen, SmolLM)."""

    layers: int
    hidden: int
    """Width of the residual stream (h)."""
    intermediate: int
    """Width of the feed-forward part (f)."""
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool = False
    """True if embeddings and head share their weights."""
    head_size: int | None = None
    """Width of a head; `None` is h / heads."""
    total: int | None = None
    """Number of all weights where it is known; `None` adds up those of the matrices."""

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.head_size or self.hidden // self.heads

    @property
    def linear(self) -> Mapping[str, tuple[int, int]]:
        """Inputs and outputs of the matrices of a layer, by module."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden, queries),
            "k_proj": (self.hidden, keys),
            "v_proj": (self.hidden, keys),
            "o_proj": (queries, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }

    @property
    def layer(self) -> int:
        """Weights of the matrices of one layer."""
        return sum(inputs * outputs for inputs, outputs in self.linear.values())

    @property
    def embeddings(self) -> int:
        """Weights of embeddings and head: V h, once if they are tied, else twice."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """All weights (P); those of norms and biases, about 1 in 10,000, only where `total` has them."""
        return self.total or self.layers * self.layer + self.embeddings

    @property
    def computing(self) -> int:
        """Weights that each token is multiplied with: all but embeddings, which are looked up."""
        return self.parameters - (0 if self.tied else self.vocabulary * self.hidden)

    def settings(self) -> dict[str, Any]:
        """Return the arguments of a transformers config of this shape, with heads of h / heads."""
        return {
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "tie_word_embeddings": self.tied,
        }

    def attention_flops(self, context: float) -> float:
        """FLOPs of a token's attention to so many, forward: 4 * layers * heads * head_dim * context."""
        return 4 * self.layers * self.heads * self.head_dim * context

    def kv_bytes(self, element: int) -> int:
        """Bytes of keys and values of a token: 2 * layers * kv_heads * head_dim * bytes of a number."""
        return 2 * self.layers * self.kv_heads * self.head_dim * element

    def activation_bytes(self, element: int, *, checkpointing: bool = False) -> int:
        """Bytes that a backward pass keeps of each token.

        Of a layer 34 h + 8 f bytes in bfloat16 under autocast (norms stay float32), 44 h + 16 f in float32; with
        checkpointing the float32 input of each layer, 4 h, and one layer in full. Counted by hand over the
        operations of a layer, with attention that keeps no scores; a test compares with what torch keeps.
        """
        h, f = self.hidden, self.intermediate
        layer = 34 * h + 8 * f if element == 2 else 44 * h + 16 * f
        return self.layers * 4 * h + layer if checkpointing else self.layers * layer

    def adapter(self, lora: Mapping[str, Any]) -> int:
        """Weights of a LoRA adapter: r (inputs + outputs) of each adapted matrix (arXiv 2106.09685).

        Args:
            lora: Arguments of `peft.LoraConfig`; targets of other names than `linear` are total as all of it.
        """
        rank, targets = int(lora.get("r", 8)), lora.get("target_modules") or DEFAULT_TARGETS
        names: Iterable[str] = [targets] if isinstance(targets, str) else targets
        adapted = [name for name in names if name in self.linear]
        if len(adapted) < len(list(names)):
            adapted = list(self.linear)
        return self.layers * rank * sum(sum(self.linear[name]) for name in adapted)
