"""A causal language model as a policy that samples, scores its samples, and can be trained.

Letters: G completions of one prompt, P prompt tokens, T tokens of the longest completion, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.func import functional_call
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from llm_decpomdp.agents.sampling import Forward, Sampling, sample
from llm_decpomdp.naming import unknown
from llm_decpomdp.policy import Completion

COMPUTE_DTYPES = ("auto", "float32", "bfloat16")


class CausalLM:
    """A transformers model and its tokenizer as a trainable policy.

    Weights are kept and updated in float32. With `compute_dtype` bfloat16 both sampling and learning run on a
    bfloat16 copy of them that is made anew for each call, so that small updates are not lost.

    Args:
        model: Any causal language model of transformers, or a peft model over one.
        tokenizer: Its tokenizer. If it has a chat template, a prompt becomes one message of the user.
        sampling: How completions are drawn.
        compute_dtype: `float32`, `bfloat16`, or `auto`: bfloat16 where the device has matrix units for it.
        seed: Seed of the sampler.

    Raises:
        ValueError: If `compute_dtype` is unknown or the tokenizer has no end-of-sequence token.
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
        if compute_dtype not in COMPUTE_DTYPES:
            raise ValueError(unknown("compute_dtype", compute_dtype, COMPUTE_DTYPES))
        self.model = model.eval()  # no dropout: what was sampled is what is learned from
        self.tokenizer = tokenizer
        self.sampling = sampling or Sampling()
        self.device = torch.device(model.device)
        fast = compute_dtype == "auto" and has_bfloat16_units(self.device)
        self.compute_dtype = (
            torch.bfloat16 if fast or compute_dtype == "bfloat16" else torch.float32
        )
        self.stop = _stop_tokens(model, tokenizer)
        self._generator = torch.Generator(self.device)
        self.seed(seed)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        sampling: Sampling | None = None,
        *,
        lora: Mapping[str, Any] | None = None,
        compute_dtype: str = "auto",
        device: str = "auto",
        seed: int = 0,
        trust_remote_code: bool = False,
    ) -> CausalLM:
        """Load a model by its transformers name or path.

        Args:
            name_or_path: Name on the hub, or a folder.
            sampling: How completions are drawn.
            lora: Arguments of `peft.LoraConfig`; the adapter is trained then, and the model is frozen.
            compute_dtype: As for the class.
            device: `auto` takes CUDA where there is one.
            seed: Seed of the sampler and of the adapter's first weights.
            trust_remote_code: Whether code that comes with the model may run.
        """
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        tokenizer = AutoTokenizer.from_pretrained(name_or_path, trust_remote_code=trust_remote_code)
        model = AutoModelForCausalLM.from_pretrained(
            name_or_path, dtype=torch.float32, trust_remote_code=trust_remote_code
        )
        if lora is not None:
            from peft import LoraConfig, get_peft_model

            with torch.random.fork_rng():
                torch.manual_seed(seed)
                model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **lora))
        return cls(model.to(device), tokenizer, sampling, compute_dtype=compute_dtype, seed=seed)

    # Text to tokens

    def encode(self, prompt: str) -> list[int]:
        """The token ids of a prompt.

        Raises:
            ValueError: If the prompt and a completion do not fit into the model's context.
        """
        if self.tokenizer.chat_template is not None:
            message = [{"role": "user", "content": prompt}]
            encoded = self.tokenizer.apply_chat_template(
                message, add_generation_prompt=True, return_dict=True
            )
            ids = list(encoded["input_ids"])
        else:
            ids = list(self.tokenizer(prompt)["input_ids"])
        if not ids:
            raise ValueError(f"the prompt {prompt!r} has no tokens")
        context = getattr(self.model.config, "max_position_embeddings", None)
        if context is not None and len(ids) + self.sampling.max_new_tokens > context:
            raise ValueError(
                f"a prompt of {len(ids)} tokens and {self.sampling.max_new_tokens} new ones do not fit "
                f"into the model's context of {context}: shorten the prompt or lower max_new_tokens"
            )
        return ids

    # Sampling

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample completions of all prompts in one batch; see `Policy.generate`."""
        if not prompts:
            return []
        ids = [self.encode(prompt) for prompt in prompts]
        with torch.no_grad():
            groups = sample(
                self._forward(),
                self.model.config,
                ids,
                num_samples,
                self.sampling,
                self.stop,
                self._generator,
            )
        return [
            [
                Completion(
                    text=self.tokenizer.decode(
                        one.tokens[:-1] if one.stopped else one.tokens, skip_special_tokens=True
                    ),
                    tokens=tuple(one.tokens),
                    log_probs=tuple(one.log_probs),
                    finish_reason="stop" if one.stopped else "length",
                )
                for one in group
            ]
            for group in groups
        ]

    def act(self, prompt: str) -> str:
        """The text of one sampled completion."""
        return self.generate([prompt])[0][0].text

    def seed(self, seed: int) -> None:
        """Start the sampler's random numbers anew."""
        self._generator.manual_seed(seed)

    # Learning

    def log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities of sampled tokens, differentiable; see `TrainablePolicy.log_probs`.

        The prompt runs through the model once, and its cache is repeated for the completions.
        """
        forward = self._forward()
        ids = torch.tensor([self.encode(prompt)], device=self.device)  # (1, P)
        tokens, mask = _pad_right([c.tokens for c in completions], self.device)  # (G, T) each
        cache = DynamicCache(config=self.model.config)
        first = forward(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        logits = first.logits.expand(len(completions), 1, -1)
        if tokens.shape[1] > 1:
            cache.batch_repeat_interleave(len(completions))
            positions = torch.arange(ids.shape[1], ids.shape[1] + tokens.shape[1] - 1)
            rest = forward(
                input_ids=tokens[:, :-1],
                position_ids=positions.to(self.device).expand(len(completions), -1),
                past_key_values=cache,
                use_cache=True,
            )
            logits = torch.cat([logits, rest.logits], 1)  # (G, T, V)
        logits = logits.float() / self.sampling.divisor
        chosen = logits.gather(2, tokens[..., None])[..., 0]
        return chosen - logits.logsumexp(-1), mask

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters to train: all of the model's, or the adapter's."""
        return (p for p in self.model.parameters() if p.requires_grad)

    def _forward(self) -> Forward:
        """The model as a function, its weights in the computing type."""
        if self.compute_dtype == torch.float32:
            return self.model  # type: ignore[no-any-return]
        weights = {name: p.to(self.compute_dtype) for name, p in self.model.named_parameters()}
        return lambda **inputs: functional_call(self.model, weights, (), inputs)

    # Storage

    def save(self, folder: Path) -> None:
        """Write the model (or adapter) and the tokenizer, for transformers and peft to load."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def state_dict(self) -> dict[str, Any]:
        """The trainable weights and the sampler's random state."""
        trainable = {n: p.detach() for n, p in self.model.named_parameters() if p.requires_grad}
        return {"weights": trainable, "generator": self._generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        parameters = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        if set(parameters) != set(state["weights"]):
            raise ValueError("the saved weights are those of another model")
        with torch.no_grad():
            for name, value in state["weights"].items():
                parameters[name].copy_(value)
        self._generator.set_state(state["generator"].cpu())


def has_bfloat16_units(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices faster than float32 ones."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and (
        torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    )


def _stop_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a completion."""
    ends = model.generation_config.eos_token_id
    found = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}
    if not found:
        raise ValueError("the tokenizer has no end-of-sequence token: set tokenizer.eos_token")
    return frozenset(found)


def _pad_right(
    rows: Sequence[Sequence[int]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids, and 1.0 where there is a token, both (G, T)."""
    if not all(rows):
        raise ValueError("every completion needs its sampled tokens to be learned from")
    longest = max(map(len, rows))
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1.0
    return tokens.to(device), mask.to(device)
