"""Text space of prompts and completions.

`gymnasium.spaces.Text` accepts only the characters of a given set, and the set of all of Unicode costs seconds and
megabytes to build. This subclass accepts any encodable string within its length.
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from gymnasium.spaces import Text

SAMPLE_CHARSET = string.ascii_letters + string.digits + string.punctuation + " \n"
"""Characters of samples. An ordered string, so that equal seeds give equal samples."""

SAMPLE_LENGTH = 64
"""Maximum length of a sample in characters. Samples are used by API tests only."""


class UnicodeText(Text):
    """Any UTF-8 encodable string of `min_length` to `max_length` code points.

    Args:
        max_length: Maximum length in code points (not bytes, not tokens).
        min_length: Minimum length in code points.
        seed: Seed or generator of `sample`.
    """

    def __init__(
        self, max_length: int, *, min_length: int = 0, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(max_length, min_length=min_length, charset=SAMPLE_CHARSET, seed=seed)

    def contains(self, x: Any) -> bool:
        """Check whether `x` is an encodable string within the bounds."""
        if not isinstance(x, str) or not self.min_length <= len(x) <= self.max_length:
            return False
        try:
            x.encode()
        except UnicodeEncodeError:  # lone surrogates
            return False
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a short random string; `mask` and `probability` as in `gymnasium.spaces.Text.sample`."""
        if mask is None and probability is None:
            longest = min(self.max_length, max(self.min_length, SAMPLE_LENGTH))
            mask = (int(self.np_random.integers(self.min_length, longest + 1)), None)
        return str(super().sample(mask, probability))

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed numeric form."""
        return False

    def __repr__(self) -> str:
        return f"UnicodeText({self.min_length}, {self.max_length})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UnicodeText)
            and self.min_length == other.min_length
            and self.max_length == other.max_length
        )

    __hash__ = None  # type: ignore[assignment]  # as every gymnasium space: compared by value
