"""An adapter of a critic on the model of a policy, beside the adapters of policies and without a part in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.models.prompting import PromptEncoder


class LoraTrunk:
    """Reads texts with a LoRA adapter of its own, which begins as one that changes nothing.

    Args:
        engine: The model, frozen below its adapters.
        encoder: Turns texts into tokens.
        like: Name of the adapter whose rank, scale and target modules it has.
        seed: Seed of its first weights.

    Raises:
        ValueError: If the other adapter is no LoRA.
    """

    def __init__(self, engine: ModelEngine, encoder: PromptEncoder, like: str, seed: int) -> None:
        self.engine, self.encoder = engine, encoder
        self.adapter = f"critic_{len(engine.model.peft_config)}"
        """Its name in the model."""
        shape = _shape(engine.model.peft_config[like])
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
        """Return the weights of its adapter."""
        for name, weight in self.engine.model.named_parameters():
            if self.adapter in name.split("."):
                yield weight


def _shape(config: Any) -> Any:
    """Return the configuration of a new adapter of the same shape."""
    from peft import LoraConfig

    if not isinstance(config, LoraConfig):
        raise ValueError(
            "critic_trunk=lora takes the shape of the policy's LoRA, and its adapter is a "
            f"{config.peft_type}: set critic_trunk=frozen"
        )
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=config.r,
        lora_alpha=config.lora_alpha,
        use_rslora=config.use_rslora,
        target_modules=config.target_modules,
    )
