"""A local transformers model as a policy: one set of weights samples and learns.

Letters: G completions of a prompt, T completion tokens. Masks: 1 = counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.options import Prompting, Sampling
from llm_decpomdp.agents.inference.sampler import Prompt
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.models.model_policy import ModelPolicy
from llm_decpomdp.agents.models.prompting import PromptEncoder, context_length
from llm_decpomdp.completion import Completion


class CausalLM(ModelPolicy):
    """Samples from a causal language model and gives differentiable log-probabilities of the samples.

    A prompt becomes one user message of the tokenizer's chat template, or is encoded as it is without a template
    (see `Prompting`). Trainable weights are float32. With `bfloat16` the sampler computes with a rounded copy of
    the weights, and the learner under autocast: about twice as fast where the hardware has units for it, while
    log-probabilities of sampler and learner then differ by some hundredths of a nat.

    Args:
        engine: The model, which samples for all of its policies in one batch.
        sampling: Options of the sampler.
        adapter: Name of the policy's adapter in the model; otherwise the active one, if there are any.
        seed: Seed of the sampler.
        prompting: Chat template variables, and the handling of long prompts.
        tokenizer: A separate tokenizer with the same tokens as the engine's; otherwise that one.

    Raises:
        ValueError: If the chat template does not read an option of `prompting`, or leaves messages out.
    """

    def __init__(
        self,
        engine: ModelEngine,
        sampling: Sampling | None = None,
        *,
        adapter: str | None = None,
        seed: int = 0,
        prompting: Prompting | None = None,
        tokenizer: Any = None,
    ) -> None:
        self.engine = engine
        self.adapter = adapter or engine.adapter
        """The name of the policy's adapter in the model; `None` if the policy trains the model itself."""
        self.model = engine.model
        self.tokenizer = engine.tokenizer if tokenizer is None else tokenizer
        self.compute_dtype = engine.compute_dtype
        self.sampling = sampling or Sampling()
        context = context_length(self.model)
        self.encoder = PromptEncoder(
            prompting or Prompting(), self.tokenizer, self.name, context, engine.end_ids
        )
        """Turns prompts into token ids."""
        self._generator = torch.Generator()
        self._reference: dict[str, Tensor] | None = None
        self.seed(seed)

    # Sampling

    def seed(self, seed: int) -> None:
        """Restart the sampler's random stream."""
        self._generator.manual_seed(seed)

    def act(self, prompt: str) -> str:
        """Return the text of one completion of `prompt`."""
        return self.generate([prompt])[0][0].text

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample `num_samples` completions for each prompt, in one batch; raises the errors of the engine."""
        return self.engine.generate([(self, prompt) for prompt in prompts], num_samples)

    def request(self, prompt: str) -> Prompt | None:
        """Return the sampling request for `prompt`; `None` if it is skipped.

        Raises:
            PromptTooLong: If it is too long, and neither skipped nor cut.
            ValueError: If it has no tokens.
        """
        long = self.overflow(prompt) is not None
        if long and self.on_long_prompt == "skip":
            return None
        ids, prefill = self.encode(prompt), self.encoder.prefill(prompt)
        return Prompt(ids, self.sampling, self._generator, self.adapter, long, prefill)

    # Learning

    def log_probs(self, prompt: str, completions: Sequence[Completion]) -> tuple[Tensor, Tensor]:
        """Return differentiable log-probabilities of the sampled tokens, at the sampling temperature.

        Args:
            prompt: The prompt, as it was given to `generate`.
            completions: G completions of it.

        Returns:
            `(log_probs, mask)`, both (G, T), float32: log-probabilities in nats (0 on padding), and 1 where
            a token was sampled.

        Raises:
            ValueError: If there are no completions, or one has no tokens.
        """
        return self.log_probs_of_prompts([(prompt, completions)])[0]

    def log_probs_of_prompts(
        self, prompts: Sequence[tuple[str, Sequence[Completion]]]
    ) -> list[tuple[Tensor, Tensor]]:
        """Return `log_probs` of several prompts with their completions, by one pass if the model allows it."""
        every = [completion for _, completions in prompts for completion in completions]
        if not all(completions for _, completions in prompts) or not all(c.tokens for c in every):
            raise ValueError(
                "log_probs needs completions with their sampled tokens; some have none"
            )
        self.engine.activate(self.adapter)
        rows = [[completion.tokens for completion in completions] for _, completions in prompts]
        encoded = [self.encode(prompt) for prompt, _ in prompts]
        values = self.engine.log_probs_of_prompts(
            [*zip(encoded, rows, strict=True)], self.sampling.divisor
        )
        parts = torch.split(values, [sum(map(len, tokens)) for tokens in rows])
        return [_pad(part, tokens) for part, tokens in zip(parts, rows, strict=True)]


def _pad(values: Tensor, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return the values of rows of tokens, one row after the other, as (G, T) with 0 on padding, and the mask."""
    lengths = torch.tensor([len(row) for row in rows], device=values.device)
    columns = torch.arange(int(lengths.max()), device=values.device)
    mask = columns < lengths.unsqueeze(1)  # (G, T)
    return torch.zeros_like(mask, dtype=values.dtype).masked_scatter(mask, values), mask.float()
