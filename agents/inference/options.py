"""Options of sampling."""

from __future__ import annotations

from llm_decpomdp.options import Options, option


class Sampling(Options):
    """Distribution and length of completions; the temperature 0 takes the most likely token always.

    Raises:
        ValueError: If a value is out of its range.
    """

    temperature: float = option(1.0, ge=0)
    """Divisor of the logits: the higher, the more various the completions."""
    top_p: float = option(1.0, gt=0, le=1)
    """Draw among the most likely tokens that hold this share of the probability; 1 draws among all."""
    top_k: int | None = option(None, ge=0)
    """Draw among this many most likely tokens; `None` and 0 draw among all."""
    max_new_tokens: int = option(256, ge=1, le=1_000_000)
    """Longest completion, in tokens, the end-of-sequence token included."""
    stop: list[str] | None = None
    """Texts that end a completion, as in `["\\n"]`; the text goes up to the first of them, the tokens with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for text in self.stop or ():
            if not isinstance(text, str) or not text:
                raise ValueError(
                    f"stop must be a list of texts that are not empty, got {self.stop!r}"
                )

    @property
    def divisor(self) -> float:
        """Divisor of the logits: the temperature, or 1 for greedy decoding."""
        return self.temperature or 1.0

    @property
    def cuts(self) -> bool:
        """True if some tokens are never drawn."""
        return self.top_p < 1 or bool(self.top_k) or self.temperature == 0
