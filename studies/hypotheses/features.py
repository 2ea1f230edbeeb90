"""Features of texts for critics of tiny models, whose random weights read no text."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import torch


class HashedParts:
    """Random Fourier features of the parts of a text: texts are near that have most of their parts in common.

    (Rahimi and Recht 2007, with a Gaussian kernel of a width in parts.)
    """

    def __init__(self, width: float = 2.0, size: int = 512) -> None:
        self.width, self.size = width, size
        self._directions: dict[str, torch.Tensor] = {}

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the features of each text, (B, size)."""
        return torch.stack([self._feature(sorted(set(text.split("\n\n")))) for text in texts])

    def _feature(self, parts: Sequence[str]) -> torch.Tensor:
        phase = math.pi * self._direction("phase")
        total = torch.stack([self._direction(part) for part in parts]).sum(0)
        return math.sqrt(2) * torch.cos(phase + total / self.width)

    def _direction(self, word: str) -> torch.Tensor:
        if word not in self._directions:
            generator = torch.Generator().manual_seed(zlib.crc32(word.encode()))
            self._directions[word] = torch.randn(self.size, generator=generator)
        return self._directions[word]


class Noise:
    """Features that say nothing: others each time."""

    def __init__(self, seed: int, size: int = 32) -> None:
        self.generator, self.size = torch.Generator().manual_seed(seed), size

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the features of each text, (B, size)."""
        return torch.randn(len(texts), self.size, generator=self.generator)
