"""Value heads: linear functions of a text's features, in float32, with frozen or trained features.

    V(x) = m + s w'z(x),    z(x) = (phi(x) - m_phi) / s_phi

m and s are the running mean and standard deviation of the targets, m_phi and s_phi those of the features (s_phi is
one number). w starts at 0, so V starts as the mean return. The loss is the mean squared error between w'z(x) and
the standardized targets.

`TrunkHead` also trains an adapter theta of the model:

    min over w and theta of  (w'z(x) - y)^2,    z(x) = (phi_theta(x) - m_phi) / s_phi

The adapter starts without effect, so V starts like that of frozen features. Each minibatch steps one head and the
trunk, which the heads of all turns share. Features change with the trunk, so these heads store the newest states
as texts and read them again. Cost: `critic.epochs` passes with gradients over the newest states of every turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

SLOWEST = 0.02  # smallest rate of running means: they forget with a time constant of 50 batches
SMALLEST = 1e-6  # smallest deviation, so that constant targets or features divide by no zero
WINDOW = 64  # newest states for training and evaluation; a larger batch counts as a whole
ENOUGH = 8  # with fewer states the explained variance is noise, and counts as 0
MINIBATCH = 16


class Moments:
    """Running mean and mean square."""

    def __init__(self) -> None:
        self.batches = 0
        self.mean: Tensor = torch.zeros((), dtype=torch.float32)
        self.square: Tensor = torch.zeros((), dtype=torch.float32)

    def add(self, values: Tensor) -> None:
        """Add a batch (B, ...)."""
        self.batches += 1
        rate = max(1 / self.batches, SLOWEST)
        self.mean = self.mean + rate * (values.mean(0) - self.mean)
        self.square = self.square + rate * (values.square().mean() - self.square)

    @property
    def deviation(self) -> Tensor:
        """Standard deviation, one number for all dimensions."""
        variance = self.square - self.mean.square().mean()
        return variance.clamp(min=SMALLEST**2).sqrt()


class ValueHead:
    """The values of the states of one turn.

    Args:
        width: Number of features (d).
        learning_rate: Of AdamW.
    """

    def __init__(self, width: int, learning_rate: float) -> None:
        self.weight = torch.nn.Parameter(torch.zeros(width, dtype=torch.float32))
        # AdamW decays by default (0.01), which would pull V to the mean of its targets.
        self._adamw = torch.optim.AdamW([self.weight], lr=learning_rate, weight_decay=0.0)
        self._optimizers = [self._adamw]
        self._targets, self._inputs = Moments(), Moments()
        self._features = torch.zeros(0, width, dtype=torch.float32)
        self._pairs = torch.zeros(0, 2, dtype=torch.float64)
        self.explained = 0.0
        """Explained variance of the newest targets, by predictions from before training on them."""

    @property
    def mean(self) -> float:
        """Running mean of the targets."""
        return float(self._targets.mean)

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """Return the values (B,) of states by their features (B, d), in float64."""
        scores = self._standardize(features) @ self.weight
        return self._targets.mean + self._targets.deviation * scores.double()

    @torch.no_grad()
    def differences(self, features: Tensor) -> Tensor:
        """Return differences in value (B,) from differences of features (B, d), in float64; 0 for 0."""
        # Without the mean of the inputs, which cancels in a difference.
        scores = (features / self._inputs.deviation).float() @ self.weight
        return self._targets.deviation * scores.double()

    def _standardize(self, features: Tensor) -> Tensor:
        return ((features - self._inputs.mean) / self._inputs.deviation).float()

    def evaluate(self, pairs: Tensor) -> float:
        """Return the explained variance of the newest states and of new pairs of prediction and target, (B, 2)."""
        newest = self._newest(self._pairs, pairs)
        return explained_variance(newest[:, 0], newest[:, 1])

    def learn(
        self, features: Tensor, pairs: Tensor, epochs: int, texts: Sequence[str] = ()
    ) -> None:
        """Add states to the newest ones and train on all of these, in minibatches, for some epochs.

        They have features (B, d), pairs (B, 2) as in `evaluate`, and texts, which a trained trunk needs.
        """
        self._keep(features, texts)
        self._pairs = self._newest(self._pairs, pairs)
        # Predictions were made before this training, so the gate is judged on states that are new to the head.
        self.explained = explained_variance(self._pairs[:, 0], self._pairs[:, 1])
        self._inputs.add(features)
        self._targets.add(pairs[:, 1])
        # Standardized targets, so that one learning rate fits rewards of any scale.
        goals = (self._pairs[:, 1] - self._targets.mean) / self._targets.deviation
        for _ in range(epochs):
            for first in range(0, len(goals), MINIBATCH):
                batch = slice(first, first + MINIBATCH)
                for optimizer in self._optimizers:
                    optimizer.zero_grad()
                scores = self._batch_inputs(batch) @ self.weight
                loss = (scores - goals[batch].float()).square().mean()
                loss.backward()  # type: ignore[no-untyped-call]
                for optimizer in self._optimizers:
                    optimizer.step()

    def _keep(self, features: Tensor, texts: Sequence[str]) -> None:
        self._features = self._newest(self._features, features)

    def _batch_inputs(self, batch: slice) -> Tensor:
        return self._standardize(self._features[batch])

    @staticmethod
    def _newest(older: Tensor, newer: Tensor) -> Tensor:
        # A copy, because a slice would keep the whole tensor alive, and write it to checkpoints.
        return torch.cat([older, newer])[-max(WINDOW, len(newer)) :].clone()

    def state_dict(self) -> dict[str, Any]:
        """Return all that `load_state_dict` needs to continue exactly."""
        return {
            "weight": self.weight.detach().clone(),
            "adamw": self._adamw.state_dict(),
            "moments": [vars(self._targets).copy(), vars(self._inputs).copy()],
            "newest": [self._features, self._pairs],
            "explained": self.explained,
        }

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        self.weight.copy_(state["weight"])
        self._adamw.load_state_dict(state["adamw"])
        for moments, values in zip((self._targets, self._inputs), state["moments"], strict=True):
            vars(moments).update(values)
        self._features, self._pairs = state["newest"]
        self.explained = state["explained"]


def explained_variance(predictions: Tensor, targets: Tensor) -> float:
    """1 - Var(y - V) / Var(y), of predictions V and targets y, (B,).

    1 if V is exact up to a constant, 0 if V is constant, below 0 if V is worse than a constant. Also 0 if there
    are too few states or all targets are equal.
    """
    if len(targets) < ENOUGH:
        return 0.0
    spread = float(targets.var(correction=0))
    if spread < SMALLEST**2:
        return 0.0
    return 1.0 - float((targets - predictions).var(correction=0)) / spread


class Trunk(Protocol):
    """A trainable part of a model that reads texts for a critic."""

    def features(self, texts: Sequence[str]) -> Tensor:
        """Return the differentiable features of texts, (B, d), float32."""
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters to train."""
        ...


class TrunkOptimizer:
    """A trunk and its AdamW."""

    def __init__(self, trunk: Trunk, learning_rate: float) -> None:
        self.trunk = trunk
        self.weights = list(trunk.parameters())
        self.adamw = torch.optim.AdamW(self.weights, lr=learning_rate, weight_decay=0.0)

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Return the features of texts without a gradient, (B, d)."""
        return self.trunk.features(texts)

    def state_dict(self) -> dict[str, Any]:
        """Return all that `load_state_dict` needs to continue exactly."""
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
    """A value head that steps its trunk too; arguments as of `ValueHead`."""

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
        """Return the state without that of the trunk, which several heads share."""
        return {**super().state_dict(), "texts": self._texts}

    def load_state_dict(self, state: Any) -> None:
        """Continue from `state_dict`'s value."""
        super().load_state_dict(state)
        self._texts = list(state["texts"])
