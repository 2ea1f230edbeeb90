"""Tabular policies: a softmax over a few answers for each prompt, trained by the code that trains real models.

They learn a probe in a second, and know nothing that would help or hinder them: what is left is credit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.policy import Completion

ROWS = 64
"""Most prompts that a policy can tell apart."""


class TabularPolicy:
    """A policy with a table of logits, a row for each prompt.

    Args:
        answers: The texts that it can say; each counts as one token.
        seed: Of its first logits, and of what it samples.
        spread: Standard deviation of the logits at first; 0 gives equal chances.
    """

    def __init__(self, answers: Sequence[str], seed: int, spread: float = 0.0) -> None:
        self.answers = list(answers)
        self._generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(ROWS, len(answers), generator=self._generator)
        self.logits = torch.nn.Parameter(spread * logits)
        self._rows: dict[str, int] = {}

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample answers; as of `Policy`."""
        with torch.no_grad():
            chances = self.logits[[self._row(prompt) for prompt in prompts]].log_softmax(-1)
        samples = torch.multinomial(
            chances.exp(), num_samples, replacement=True, generator=self._generator
        )
        return [
            [Completion(self.answers[token], (token,), (log_probs[token],)) for token in tokens]
            for tokens, log_probs in zip(samples.tolist(), chances.tolist(), strict=True)
        ]

    def act(self, prompt: str) -> str:
        """Sample one answer."""
        return self.generate([prompt])[0][0].text

    def log_probs(self, prompt: str, completions: Sequence[Completion]) -> tuple[Tensor, Tensor]:
        """Return log-probabilities of the answers, and a mask of ones, both (G, 1)."""
        return self._log_probs(self.logits, prompt, completions)

    def _log_probs(
        self, logits: Tensor, prompt: str, completions: Sequence[Completion]
    ) -> tuple[Tensor, Tensor]:
        tokens = torch.tensor([completion.tokens[0] for completion in completions])
        values = logits[self._row(prompt)].log_softmax(-1)[tokens]
        return values[:, None], torch.ones(len(tokens), 1)

    def keep_reference(self) -> None:
        """Make the present table the reference."""
        self._reference = self.logits.detach().clone()

    def reference_log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[Tensor, Tensor]:
        """`log_probs` under the reference, without a gradient."""
        return self._log_probs(self._reference, prompt, completions)

    def probabilities(self, prompt: str) -> dict[str, float]:
        """Return the probability of each answer."""
        chances = self.logits[self._row(prompt)].detach().softmax(-1).tolist()
        return dict(zip(self.answers, chances, strict=True))

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the table."""
        yield self.logits

    def seed(self, seed: int) -> None:
        """Restart the sampler's random stream."""
        self._generator.manual_seed(seed)

    def save(self, folder: Path) -> None:
        """Write the table."""
        torch.save(self.state_dict(), folder / "table.pt")

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` continues exactly."""
        return {
            "logits": self.logits.detach().clone(),
            "rows": dict(self._rows),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        with torch.no_grad():
            self.logits.copy_(state["logits"])
        self._rows = dict(state["rows"])
        self._generator.set_state(state["generator"])

    def _row(self, prompt: str) -> int:
        row = self._rows.setdefault(prompt, len(self._rows))
        if row >= ROWS:
            raise ValueError(
                f"a tabular policy tells {ROWS} prompts apart, and {prompt!r} is one more"
            )
        return row
