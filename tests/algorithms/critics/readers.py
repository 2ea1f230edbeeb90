"""Features of texts for tests, without a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from llm_decpomdp.policy import Completion
from studies.hypotheses import training
from tests.algorithms.conftest import TinyPolicy
from tests.algorithms.runs import make_team


class HashedParts(training.HashedParts):
    """Features of texts, which are kept."""

    def __init__(self, width: float = 2.0, size: int = 512) -> None:
        super().__init__(width, size)
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        self.texts += texts
        return super().__call__(texts)


class ReadingPolicy(TinyPolicy):
    """A tiny policy that reads for a critic."""

    def keep_reference(self) -> None:
        self.features = HashedParts(size=64)

    def reference_log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        raise NotImplementedError

    def features(self, texts: Sequence[str]) -> torch.Tensor:
        raise RuntimeError("no reference was kept")


def reading_team() -> dict[str, ReadingPolicy]:
    """The team of the runs, which reads."""
    return {
        agent: ReadingPolicy(policy.model, policy.alphabet, policy.max_tokens)
        for agent, policy in make_team().items()
    }
