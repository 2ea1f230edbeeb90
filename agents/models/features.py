"""Features of texts for critics: the mean last hidden state of a model, or of an adapter that a critic trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from llm_decpomdp.agents.inference.log_probs import unwrap_peft
from llm_decpomdp.agents.models.prompting import PromptEncoder, context_length

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.engine import ModelEngine

WINDOW = 1024  # largest number of tokens that go through the model at once

BATCH = 16  # number of windows in a batch


def hidden_means(model: Any, rows: Sequence[Sequence[int]], span: float) -> Tensor:
    """Return the mean of the last hidden states over the tokens of each row, (B, d), float32.

    Long rows go through the model in several windows; an empty row gives zeros. Attention sees `span` tokens.
    """
    config = model.config.get_text_config()
    size = int(min(WINDOW, context_length(model) or WINDOW, span))
    windows = [
        (index, row[first : first + size])
        for index, row in enumerate(rows)
        for first in range(0, len(row), size)
    ]
    windows.sort(key=lambda window: len(window[1]))  # so that a batch has little padding
    sums = torch.zeros(len(rows), config.hidden_size, device=model.device)
    for first in range(0, len(windows), BATCH):
        indices, parts = zip(*windows[first : first + BATCH], strict=True)
        sums.index_add_(0, torch.tensor(indices, device=sums.device), _hidden_sums(model, parts))
    lengths = torch.tensor([max(1, len(row)) for row in rows], device=sums.device)
    return sums / lengths.unsqueeze(1)


def _hidden_sums(model: Any, rows: Sequence[Sequence[int]]) -> Tensor:
    lengths = torch.tensor([len(row) for row in rows], device=model.device)
    width = int(lengths.max())
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows]).to(lengths.device)
    mask = torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)
    backbone = unwrap_peft(model).base_model
    output = backbone(input_ids=ids, attention_mask=mask.long(), use_cache=False)
    hidden: Tensor = output.last_hidden_state.float()
    return hidden.masked_fill(~mask.unsqueeze(2), 0.0).sum(1)


class LoraTrunk:
    """Reads texts with a separate LoRA adapter, which at first changes nothing.

    Args:
        engine: The model, frozen below its adapters.
        encoder: Turns texts into tokens.
        like: Name of another adapter, whose rank, scale and target modules it has.
        seed: Seed of its first weights.

    Raises:
        ValueError: If the other adapter is no LoRA.
    """

    def __init__(self, engine: ModelEngine, encoder: PromptEncoder, like: str, seed: int) -> None:
        self.engine, self.encoder = engine, encoder
        self.adapter = f"critic_{len(engine.model.peft_config)}"
        """Its name in the model."""
        from peft import LoraConfig

        config = engine.model.peft_config[like]
        if not isinstance(config, LoraConfig):
            raise ValueError(
                "critic.trunk=lora takes the shape of the policy's LoRA, and its adapter is a "
                f"{config.peft_type}: set critic.trunk=frozen"
            )
        shape = LoraConfig(
            task_type="CAUSAL_LM",
            r=config.r,
            lora_alpha=config.lora_alpha,
            use_rslora=config.use_rslora,
            target_modules=config.target_modules,
        )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            engine.add_adapter(self.adapter, shape)
        for weight in self.parameters():
            weight.requires_grad_(True)

    def features(self, texts: Sequence[str]) -> Tensor:
        """Return the mean of the last hidden states of each text, (B, d), float32; differentiable."""
        self.engine.activate(self.adapter)
        return self.engine.features([self.encoder.plain(text) for text in texts])

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Yield the weights of its adapter."""
        for name, weight in self.engine.model.named_parameters():
            if self.adapter in name.split("."):
                yield weight
