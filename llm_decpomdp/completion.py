"""The answers of policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

REFUSAL = "refusal"
"""Finish reason of a remote model that refused to answer, or whose answer a filter removed."""


class Usage(NamedTuple):
    """Number of tokens of a completion, as counted by a server."""

    prompt: int
    completion: int
    """Includes hidden reasoning tokens."""


@dataclass(frozen=True)
class Completion:
    """One sampled answer; the token fields are empty without a tokenizer (scripts, people, remote models)."""

    text: str
    tokens: tuple[int, ...] = ()
    """The sampled token ids, the end-of-sequence token included when it was sampled, no padding."""
    log_probs: tuple[float, ...] = ()
    """Log-probability of each token in nats, at the sampling temperature and before `top_p` or `top_k` cut."""
    finish_reason: str = "stop"
    """`stop` when the policy ended the text itself, `length` when the token limit did, `skip` when the prompt was
    too long to be answered, `REFUSAL` when a remote model did not answer."""
    long_prompt: bool = False
    """True if the prompt was too long for the policy, and was cut or skipped."""
    usage: Usage | None = None
    """Counts of a server, which does not return the tokens themselves."""
    versions: tuple[int, ...] = ()
    """Version of the weights that sampled each token: the number of complete updates and warm start steps. Empty
    unless weights may change while a completion is written."""

    @property
    def truncated(self) -> bool:
        """True if the token limit ended the text."""
        return self.finish_reason == "length"

    @property
    def num_tokens(self) -> int | None:
        """Number of sampled tokens; `None` if unknown."""
        if self.tokens or self.skipped:
            return len(self.tokens)
        return None if self.usage is None else self.usage.completion

    @property
    def prompt_tokens(self) -> int | None:
        """Number of tokens of the prompt, as counted by a server; `None` if unknown."""
        return None if self.usage is None else self.usage.prompt

    @property
    def skipped(self) -> bool:
        """True if the prompt was too long and was not answered."""
        return self.finish_reason == "skip"


SKIPPED = Completion("", finish_reason="skip", long_prompt=True)
"""Completion of a prompt that is too long, where such prompts are skipped."""


class PromptTooLong(ValueError):
    """A prompt has more tokens than a policy takes; `prompt` identifies its agent and episode."""

    def __init__(self, message: str, prompt: str) -> None:
        super().__init__(message)
        self.prompt = prompt

    def __reduce__(self) -> tuple[type[PromptTooLong], tuple[str, str]]:  # for other processes
        return type(self), (str(self), self.prompt)
