"""A local transformers model as a policy: one set of weights samples and learns.

Letters: G completions of a prompt, P prompt tokens, T completion tokens, V vocabulary. Masks: 1 = counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.precision import resolve_compute_dtype, weights_in
from llm_decpomdp.agents.sampling import SampledRow, Sampling, sample, token_log_probs
from llm_decpomdp.policy import Completion


class CausalLM:
    """Samples from a causal language model and gives differentiable log-probabilities of the samples.

    A prompt becomes one user message of the tokenizer's chat template, or is encoded as it is where there
    is none. The model stays in evaluation mode: dropout would make the learner's distribution another than
    the sampler's. Trainable weights are float32. With `bfloat16` the sampler computes with a rounded copy
    of the weights, and the learner under autocast: about twice as fast where the hardware has units for it,
    while log-probabilities of sampler and learner then differ by some hundredths of a nat.

    Args:
        model: A transformers model with a head for the next token, or a peft model around one.
        tokenizer: Its tokenizer.
        sampling: How completions are drawn.
        compute_dtype: `float32`, `bfloat16`, or `auto`: bfloat16 where the device is fast with it.
        seed: Seed of the sampler.

    Raises:
        ValueError: If `compute_dtype` is unknown, or nothing ends a completion.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        sampling: Sampling | None = None,
        *,
        compute_dtype: str = "auto",
        seed: int = 0,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.sampling = sampling or Sampling()
        self.compute_dtype = resolve_compute_dtype(compute_dtype, model.device)
        self._generator = torch.Generator()
        self._end_ids = end_ids(model, tokenizer)
        self.seed(seed)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        sampling: Sampling | None = None,
        *,
        compute_dtype: str = "auto",
        lora: Mapping[str, Any] | None = None,
        device: str = "auto",
        seed: int = 0,
    ) -> CausalLM:
        """Load a model by its transformers name or folder; a folder with a peft adapter will do too.

        Args:
            name_or_path: Name on the hub, or folder.
            sampling: How completions are drawn.
            compute_dtype: `auto`, `float32` or `bfloat16`.
            lora: Arguments of `peft.LoraConfig`: train an adapter, and freeze the model.
            device: `auto` (a GPU where there is one), or a torch device.
            seed: Seed of the sampler, and of a new adapter's weights.

        Raises:
            OSError: If there is no such model.
            ValueError: If `lora` is given for a folder that holds an adapter already.
        """
        from transformers import AutoTokenizer

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = resolve_compute_dtype(compute_dtype, torch.device(device))
        model = load_model(name_or_path, dtype, lora, seed)
        tokenizer = AutoTokenizer.from_pretrained(name_or_path)
        return cls(model.to(device), tokenizer, sampling, compute_dtype=compute_dtype, seed=seed)

    def seed(self, seed: int) -> None:
        """Restart the sampler's random stream."""
        self._generator.manual_seed(seed)

    def act(self, prompt: str) -> str:
        """The text of one completion of `prompt`."""
        return self.generate([prompt])[0][0].text

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample `num_samples` completions for each prompt, in one batch.

        Raises:
            ValueError: If `num_samples` is below 1, or a prompt is empty or too long for the model.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, got {num_samples}")
        if not prompts:
            return []
        ids = [self.encode(prompt) for prompt in prompts]
        with weights_in(self.model, self.compute_dtype):
            rows = sample(
                self.model, ids, num_samples, self._end_ids, self.sampling, self._generator
            )
        completions = [self._completion(row) for row in rows]
        starts = range(0, len(rows), num_samples)
        return [completions[start : start + num_samples] for start in starts]

    def encode(self, prompt: str) -> list[int]:
        """The token ids of `prompt` as the model sees it.

        Raises:
            ValueError: If there are none, or too many to leave room for a completion.
        """
        if self.tokenizer.chat_template:
            prompt = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
            )
            ids: list[int] = self.tokenizer(prompt, add_special_tokens=False).input_ids
        else:
            ids = self.tokenizer(prompt).input_ids
        if not ids:
            raise ValueError(f"the prompt {prompt!r} has no tokens; a model needs at least one")
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        room = self.sampling.max_new_tokens
        if limit is not None and len(ids) + room > limit:
            raise ValueError(
                f"a prompt of {len(ids)} tokens and {room} new ones do not fit into the model's "
                f"context of {limit}; shorten the prompt or lower max_new_tokens"
            )
        return ids

    def _completion(self, row: SampledRow) -> Completion:
        body = row.tokens[:-1] if row.stopped else row.tokens
        text = self.tokenizer.decode(
            body, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return Completion(text, row.tokens, row.log_probs, "stop" if row.stopped else "length")

    def log_probs(self, prompt: str, completions: Sequence[Completion]) -> tuple[Tensor, Tensor]:
        """Differentiable log-probabilities of the sampled tokens, at the sampling temperature.

        The prompt goes through the model once, and its keys and values serve all completions.

        Args:
            prompt: The prompt, as it was given to `generate`.
            completions: G completions of it.

        Returns:
            `(log_probs, mask)`, both (G, T), float32: log-probabilities in nats (0 on padding), and 1 where
            a token was sampled.

        Raises:
            ValueError: If there are no completions, or one has no tokens.
        """
        if not completions or not all(completion.tokens for completion in completions):
            raise ValueError(
                "log_probs needs completions with their sampled tokens; some have none"
            )
        device = self.model.device
        tokens, mask = pad_right([c.tokens for c in completions], device)  # (G, T)
        prompt_ids = torch.tensor([self.encode(prompt)], device=device)  # (1, P)
        autocast = self.compute_dtype == torch.bfloat16
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            first = self.model(input_ids=prompt_ids, use_cache=True, logits_to_keep=1)
            logits = [first.logits.expand(len(tokens), 1, -1)]  # (G, 1, V)
            if tokens.shape[1] > 1:
                cache = first.past_key_values
                cache.batch_repeat_interleave(len(tokens))
                rest = self.model(input_ids=tokens[:, :-1], past_key_values=cache, use_cache=True)
                logits.append(rest.logits)  # (G, T - 1, V)
        targets = [tokens[:, :1], tokens[:, 1:]]
        parts = [
            token_log_probs(*pair, self.sampling) for pair in zip(logits, targets, strict=False)
        ]
        return torch.cat(parts, 1) * mask, mask

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters to train: the adapter's where there is one."""
        return (weight for _, weight in self._trainable())

    def _trainable(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        return ((n, p) for n, p in self.model.named_parameters() if p.requires_grad)

    def save(self, folder: Path) -> None:
        """Write model (or adapter) and tokenizer, for transformers and peft to load by themselves."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def state_dict(self) -> dict[str, Any]:
        """A copy of the trainable weights, on the CPU, and the sampler's random state."""
        weights = {name: p.detach().to("cpu", copy=True) for name, p in self._trainable()}
        return {"weights": weights, "generator": self._generator.get_state()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value.

        Raises:
            ValueError: If the state is of another model, or another choice of what to train.
        """
        trainable = dict(self._trainable())
        shapes = {name: tuple(weight.shape) for name, weight in trainable.items()}
        found = {name: tuple(weight.shape) for name, weight in state["weights"].items()}
        if found != shapes:
            differing = sorted(name for name, _ in found.items() ^ shapes.items())
            raise ValueError(
                f"the state is of another model: it differs from this one in {differing[:3]}, "
                f"{len(set(differing))} weights in all"
            )
        for name, weight in trainable.items():
            weight.copy_(state["weights"][name])
        self._generator.set_state(state["generator"])


def load_model(
    name_or_path: str | Path, dtype: torch.dtype, lora: Mapping[str, Any] | None, seed: int
) -> Any:
    """A model with trainable float32 weights: all of its own, or those of an adapter.

    What an adapter freezes is kept in `dtype`.
    """
    from transformers import AutoModelForCausalLM

    if (Path(name_or_path) / "adapter_config.json").is_file():
        from peft import AutoPeftModelForCausalLM

        if lora is not None:
            raise ValueError(f"{str(name_or_path)!r} holds an adapter already; leave out lora")
        return AutoPeftModelForCausalLM.from_pretrained(
            name_or_path, dtype=dtype, is_trainable=True
        )
    if lora is None:
        return AutoModelForCausalLM.from_pretrained(name_or_path, dtype=torch.float32)
    from peft import LoraConfig, get_peft_model

    model = AutoModelForCausalLM.from_pretrained(name_or_path, dtype=dtype)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **lora))


def end_ids(model: Any, tokenizer: Any) -> list[int]:
    """All tokens that end a completion, by the model's generation settings and by the tokenizer.

    Raises:
        ValueError: If there is none.
    """
    configured = model.generation_config.eos_token_id
    found = set(configured if isinstance(configured, list) else [configured])
    found = found.union([tokenizer.eos_token_id]) - {None}
    if not found:
        raise ValueError("no token ends a completion: set tokenizer.eos_token")
    return sorted(found)


def pad_right(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids, and a float mask; both (G, T). Masked places hold 0."""
    width = max(map(len, rows))
    ids = [[*row, *[0] * (width - len(row))] for row in rows]
    mask = [[1.0] * len(row) + [0.0] * (width - len(row)) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)
