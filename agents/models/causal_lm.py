"""A local transformers model as a policy: one set of weights samples and learns.

Letters: G completions of a prompt, T completion tokens. Masks: 1 = counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.options import Prompting, Sampling
from llm_decpomdp.agents.inference.sampler import Prompt
from llm_decpomdp.agents.inference.tokenization import first_stop
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.models.features import LoraTrunk
from llm_decpomdp.agents.models.prompting import context_length, end_id, make_encoder
from llm_decpomdp.agents.models.saving import copy_weights, save_model, save_rounded
from llm_decpomdp.agents.models.weights import describe_weights, whole
from llm_decpomdp.policy import Completion


class CausalLM:
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
        self.encoder = make_encoder(
            prompting or Prompting(), self.tokenizer, self.name, context, engine.end_ids
        )
        """Turns prompts into token ids."""
        self._generator = torch.Generator()
        self._reference: dict[str, Tensor] | None = None
        self.seed(seed)

    @property
    def name(self) -> str:
        """The model's name or folder; empty if it was made in memory."""
        return str(self.model.config.name_or_path)

    @property
    def base_model(self) -> Mapping[str, str]:
        """The frozen weights below its adapter or of its reference, see `describe_weights`; empty without."""
        trained = self.adapter is None and any(True for _ in self._trainable())
        return {} if trained and self._reference is None else describe_weights(self.name)

    @property
    def reference_name(self) -> str:
        """The model that `keep_reference` makes the reference, in words."""
        return f"{self.name or 'the model'} {'as it was loaded' if self.adapter is None else 'without adapters'}"

    @property
    def history(self) -> str:
        """What it reads of the episode before a prompt: see `Prompting`."""
        return self.encoder.prompting.history

    @property
    def on_long_prompt(self) -> str:
        """Handling of prompts that are too long: see `Prompting`."""
        return self.encoder.prompting.on_long_prompt

    @property
    def max_new_tokens(self) -> int:
        """The longest completion, in tokens."""
        return self.sampling.max_new_tokens

    @property
    def cuts(self) -> bool:
        """True if `top_p`, `top_k` or greedy decoding leave tokens out, which log-probabilities count."""
        return self.sampling.cuts

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """The token ids, by token."""
        return dict(self.tokenizer.get_vocab())

    # Sampling

    def seed(self, seed: int) -> None:
        """Restart the sampler's random stream."""
        self._generator.manual_seed(seed)

    def act(self, prompt: str) -> str:
        """Return the text of one completion of `prompt`."""
        return self.generate([prompt])[0][0].text

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample `num_samples` completions for each prompt, in one batch; raises the errors of the engine.

        Raises:
            TypeError: If the prompts are one text, or one of them is none.
        """
        if isinstance(prompts, str) or not all(isinstance(prompt, str) for prompt in prompts):
            raise TypeError(f"prompts must be a list of texts, got {prompts!r:.80}")
        return self.engine.generate([(self, prompt) for prompt in prompts], num_samples)

    def gather(self) -> None:
        """Collect sharded weights for sampling; all processes call it at the same time."""
        self.engine.gather()

    def finish_sampling(self) -> None:
        """Say that this process has sampled; all processes call it after `generate`, before they learn."""
        self.engine.finish_sampling()

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

    def overflow(self, prompt: str) -> tuple[int, int] | None:
        """Return the tokens of a prompt that is too long, and those that fit; `None` if it fits."""
        return self.encoder.overflow(prompt, self.sampling.max_new_tokens)

    def encode(self, prompt: str) -> list[int]:
        """Return the token ids of `prompt` as the model sees it; errors as in `PromptEncoder.encode`."""
        return self.encoder.encode(prompt, self.sampling.max_new_tokens)

    def encode_completion(self, text: str, prompt: str = "") -> Completion:
        """Return a text as a completion of a prompt that ends itself, or is cut at `max_new_tokens`.

        It ends with the token that ends a turn of the chat template. The prefill is no part of its tokens. A stop
        string ends it if nothing but blanks follows.

        Raises:
            ValueError: If the policy cannot write the text: it does not begin with the prefill, or goes on after a
                stop string.
        """
        prefill, stops = self.encoder.prefill(prompt), self.sampling.stop or ()
        if not text.startswith(prefill):
            raise ValueError(
                f"a text must begin with the prefill {prefill!r} of the model {self.name!r} to be one of its "
                f"completions, got {text[:80]!r}: change the prefill"
            )
        body = text.removeprefix(prefill)
        ends: tuple[int, ...] = (end_id(self.tokenizer, self.engine.end_ids),)
        if place := first_stop(body, stops):
            if body[place[1] :].strip():
                raise ValueError(
                    f"a text goes on after a stop string (stop={list(stops)}), where a completion of the model "
                    f"{self.name!r} ends, got {text[:80]!r}: change stop"
                )
            # A stop string ends a completion by itself, so no end token follows.
            text, body, ends = prefill + body[: place[0]], body[: place[1]], ()
        tokens, limit = (*self.encoder.plain(body), *ends), self.sampling.max_new_tokens
        reason = "length" if len(tokens) > limit else "stop"
        return Completion(text, tokens[:limit], finish_reason=reason)

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

    def count_tokens(self, prompt: str, completions: Sequence[Completion]) -> int:
        """Return the number of tokens of a prompt and its completions in a pass."""
        return len(self.encode(prompt)) + sum(len(completion.tokens) for completion in completions)

    def keep_reference(self) -> None:
        """Make a copy of the present weights the reference; with an adapter it is the model without adapters."""
        if self.adapter is None:
            self._reference = {name: weight.detach().clone() for name, weight in self._trainable()}

    def reference_log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[Tensor, Tensor]:
        """Return `log_probs` under the reference, without a gradient.

        Raises:
            RuntimeError: If there is no reference.
        """
        return self.reference_log_probs_of_prompts([(prompt, completions)])[0]

    @torch.no_grad()
    def reference_log_probs_of_prompts(
        self, prompts: Sequence[tuple[str, Sequence[Completion]]]
    ) -> list[tuple[Tensor, Tensor]]:
        """Return `log_probs_of_prompts` under the reference, without a gradient; errors as of one prompt."""
        with self._compute_reference():
            return self.log_probs_of_prompts(prompts)

    @torch.no_grad()
    def features(self, texts: Sequence[str]) -> Tensor:
        """Return the mean of the last hidden states of each text under the reference, (B, d), float32.

        Texts have no chat template; an empty text has features of 0.

        Raises:
            RuntimeError: If there is no reference.
        """
        rows = [self.encoder.plain(text) for text in texts]
        with self._compute_reference():
            return self.engine.features(rows)

    @contextmanager
    def _compute_reference(self) -> Iterator[None]:
        if self.adapter is not None:
            self.engine.activate(self.adapter)
            with self.engine.disable_adapters():
                yield
        elif self._reference is None:
            raise RuntimeError("there is no reference; call keep_reference() before training")
        else:
            with self.engine.replace_weights(self._reference):
                yield

    def new_trunk(self, seed: int) -> LoraTrunk | None:
        """Return a trainable trunk for a critic, a LoRA adapter; `None` if the policy has no adapter.

        Raises:
            ValueError: If the policy's adapter is no LoRA.
        """
        if self.adapter is None:
            return None
        return LoraTrunk(self.engine, self.encoder, self.adapter, seed)

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters to train: those of the adapter if there is one."""
        return (weight for _, weight in self._trainable())

    def _trainable(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        for name, weight in self.model.named_parameters():
            if weight.requires_grad and (self.adapter is None or self.adapter in name.split(".")):
                yield name, weight

    # Checkpoints

    def save(self, folder: Path) -> None:
        """Write model (or adapter) and tokenizer in the formats of transformers and peft."""
        save_model(self.model, self.tokenizer, self.adapter, folder)

    def publish(self, folder: Path) -> None:
        """Write what a server reads: the adapter, or all weights in the format in which it computes."""
        if self.adapter is not None or self.compute_dtype == torch.float32:
            self.save(folder)
        else:
            save_rounded(self.model, self.tokenizer, self.compute_dtype, folder)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the trainable weights, on the CPU, and the sampler's random state.

        Sharded weights are gathered: all processes call this, and each gets whole weights.
        """
        weights = {name: whole(p.detach()).to("cpu", copy=True) for name, p in self._trainable()}
        return {"weights": weights, "generator": self._generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value.

        Raises:
            ValueError: If the state is of another model, or another choice of what to train.
        """
        self.load_weights(state)
        self._generator.set_state(state["generator"])

    @torch.no_grad()
    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Take the weights of a state alone, and keep the sampler's random state; raises its errors."""
        copy_weights(state["weights"], dict(self._trainable()))
        self.engine.free()


def _pad(values: Tensor, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return the values of rows of tokens, one row after the other, as (G, T) with 0 on padding, and the mask."""
    lengths = torch.tensor([len(row) for row in rows], device=values.device)
    columns = torch.arange(int(lengths.max()), device=values.device)
    mask = columns < lengths.unsqueeze(1)  # (G, T)
    return torch.zeros_like(mask, dtype=values.dtype).masked_scatter(mask, values), mask.float()
