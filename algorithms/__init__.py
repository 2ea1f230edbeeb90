"""Learners: rollout plan -> returns -> group baseline -> loss -> optimizer -> training loop.

Each algorithm is a declaration on one screen (`magrpo.py`) over one `Learner`. Importing this
package loads no torch, nor does looking an algorithm up.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from llm_decpomdp.validation import unknown

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.learning.algorithm import Algorithm

NAMES = ("grpo", "magrpo", "marloo", "maremax", "mareinforce")


class _Algorithms(Mapping[str, "Algorithm"]):
    """The declarations by name, each loaded when it is first looked up."""

    def __getitem__(self, name: str) -> Algorithm:
        if name not in NAMES:
            raise KeyError(unknown("algorithm", name, NAMES))
        module = importlib.import_module(f"llm_decpomdp.algorithms.{name}")
        algorithm: Algorithm = getattr(module, name.upper())
        return algorithm

    def __contains__(self, name: object) -> bool:
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


ALGORITHMS: Mapping[str, Algorithm] = _Algorithms()
"""Algorithm by name, as in `ALGORITHMS["magrpo"]`; unknown names raise with the nearest one."""
