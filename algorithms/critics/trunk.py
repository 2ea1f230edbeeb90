"""A critic whose trunk is trained with its heads: an adapter on the model that reads, in place of frozen features.

    min over w and theta of  (w'z(x) - y)^2,    z(x) = (phi_theta(x) - m_phi) / s_phi

with y the standardised targets (`head.py`). w begins at 0 and the adapter as one that changes nothing, so that V
begins as that of a frozen trunk. Each minibatch steps a head and the trunk, which the heads of all turns share.
Features move with the trunk, so that heads keep the newest states as texts and read them again; m_phi and s_phi
are running ones, of features as they were when their states came.

Its cost: `critic_epochs` passes with gradients over the newest states of every turn, 64 or those of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from llm_decpomdp.algorithms.critics.head import WINDOW, ValueHead


class Trunk(Protocol):
    """A part of a model that reads texts for a critic, and is trained to."""

    def features(self, texts: Sequence[str]) -> Tensor:
        """Return the differentiable features of texts, (B, d), float32."""
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters to train."""
        ...


class TrunkOptimizer:
    """A trunk with its AdamW.

    Args:
        trunk: The trunk.
        learning_rate: As of the heads.
    """

    def __init__(self, trunk: Trunk, learning_rate: float) -> None:
        self.trunk = trunk
        self.weights = list(trunk.parameters())
        self.adamw = torch.optim.AdamW(self.weights, lr=learning_rate, weight_decay=0.0)

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Return the features of texts by the trunk as it is, (B, d)."""
        return self.trunk.features(texts)

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` continues exactly."""
        # On the CPU, so that a checkpoint does not need the device it was written on.
        weights = [weight.detach().to("cpu", copy=True) for weight in self.weights]
        return {"weights": weights, "adamw": self.adamw.state_dict()}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        for weight, value in zip(self.weights, state["weights"], strict=True):
            weight.copy_(value)
        self.adamw.load_state_dict(state["adamw"])


class TrunkHead(ValueHead):
    """A value head that steps its trunk too.

    Args:
        width: Number of features (d).
        learning_rate: Of its AdamW.
        trunk: The trunk.
    """

    def __init__(self, width: int, learning_rate: float, trunk: TrunkOptimizer) -> None:
        super().__init__(width, learning_rate)
        self._trunk = trunk
        self._texts: list[str] = []
        self._optimizers.append(trunk.adamw)

    def _keep(self, features: Tensor, texts: Sequence[str]) -> None:
        self._texts = [*self._texts, *texts][-max(WINDOW, len(texts)) :]

    def _batch_inputs(self, batch: slice) -> Tensor:
        return self._standardize(self._trunk.trunk.features(self._texts[batch]).cpu())

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` continues exactly, but for the trunk's."""
        return {**super().state_dict(), "texts": self._texts}

    def load_state_dict(self, state: Any) -> None:
        """Continue from `state_dict`'s value."""
        super().load_state_dict(state)
        self._texts = list(state["texts"])
