"""A reward model: a linear score of frozen features, learned from comparisons (Bradley and Terry 1952).

    s(x) = w'z(x),    z(x) = (phi(x) - m) / (sigma sqrt(d)),    P(x over y) = 1 / (1 + exp(s(y) - s(x)))

phi(x) in R^d are the features of the text of a joint sample, m and sigma their mean and standard deviation over
the training texts. So scores are centered: their mean over those texts is 0, as learners without a baseline need.
w minimizes

    L = mean over pairs of -log sigmoid(s(winner) - s(loser)) + penalty/2 |w|^2

(the reward model of arXiv 2203.02155, eq. 1), which is convex: there is one solution, and no step size. Weights
are float32; the features' model is never trained.

Degenerate cases: pairs with equal features teach nothing; without the penalty separable pairs would have no finite
solution.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from llm_decpomdp.algorithms.rewards.comparisons import (
    JointComparison,
    RewardModelOptions,
    Sample,
    team_text,
)
from llm_decpomdp.seeding import stream

logger = logging.getLogger(__name__)

Features = Callable[[Sequence[str]], Tensor]
"""From texts to their features, (B, d), float32."""

ITERATIONS = 500  # of L-BFGS, at most
BINS = 10  # of the calibration error, over confidences from 1/2 to 1
# Minimum deviation of a feature, as a share of the mean deviation. Without it, a feature that is nearly constant
# in training would dominate the score of a new text.
SMALLEST = 1e-3
# Maximum relative difference of the features of one model. Other precisions and devices change features a little,
# other weights by far more.
LIKE = 0.05


class RewardModel:
    """Scores of joint samples.

    Args:
        agents: The agents whose prompts and answers it reads.
        part_length: Largest number of characters of each.
        weight: w, (d,).
        mean: m, (d,).
        scale: sigma sqrt(d), (d,).
        checked: A text and its features, (d,), which identify the model that gives the features.
        report: Measures of its quality.
    """

    def __init__(
        self,
        agents: Sequence[str],
        part_length: int,
        *,
        weight: Tensor,
        mean: Tensor,
        scale: Tensor,
        checked: tuple[str, Tensor],
        report: Mapping[str, float],
    ) -> None:
        self.agents, self.part_length = list(agents), part_length
        self.weight, self.mean, self.scale, self.checked = weight, mean, scale, checked
        self.report = dict(report)

    def text(self, sample: Sample) -> str:
        """Write the text of a joint sample."""
        return team_text(sample, self.agents, self.part_length)

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores of texts with these features (B, d), (B,), in float32."""
        return ((features.float().cpu() - self.mean) / self.scale) @ self.weight

    def fits(self, features: Features) -> bool:
        """Check whether features are those of the model that it was trained with."""
        text, before = self.checked
        now = features([text])[0].float().cpu()
        if now.shape != before.shape:
            return False
        return float((now - before).norm()) <= LIKE * float(before.norm())

    @property
    def fingerprint(self) -> str:
        """Digest of all that scores depend on, besides the features."""
        tensors = (self.weight, self.mean, self.scale)
        values = [self.agents, self.part_length, *(tensor.tolist() for tensor in tensors)]
        return hashlib.sha256(repr(values).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the model to a file."""
        torch.save({**vars(self)}, path)

    @classmethod
    def load(cls, path: Path) -> RewardModel:
        """Read the model of `save`; raise a `ValueError` if the file cannot be read, or holds something else."""
        try:
            # Files of models are shared, so loading must not run their code.
            state = torch.load(path, map_location="cpu", weights_only=True)
            return cls(state.pop("agents"), state.pop("part_length"), **state)
        except Exception as error:  # torch raises many kinds for a file of another format
            raise ValueError(
                f"cannot read a reward model from {path} ({type(error).__name__}: {error}): name the file that "
                "`reward-model` has written"
            ) from None


def fit_reward_model(
    comparisons: Sequence[JointComparison],
    agents: Sequence[str],
    features: Features,
    options: RewardModelOptions,
) -> RewardModel:
    """Train a reward model, and measure it on the pairs of held-out tasks.

    Its `report` has `pairs` and `held_out_pairs`, and of both parts the `measures`, those of the training pairs
    with `train_` before them.

    Args:
        comparisons: At least two.
        agents: All agents.
        features: From texts to features.
        options: Share held out, penalty, length of texts.

    Raises:
        ValueError: If there are too few comparisons.
    """
    train, held_out = split(comparisons, options.held_out, options.seed)
    samples = [sample for pair in (*train, *held_out) for sample in pair[1:]]
    texts = [team_text(sample, agents, options.part_length) for sample in samples]
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    # Pairs share texts: each different one is read once.
    table = features(list(rows)).float().cpu()
    phi = table[[rows[text] for text in texts]].view(len(samples) // 2, 2, -1)  # (pairs, 2, d)
    of_train = phi[: len(train)].flatten(0, 1)
    mean, deviation = of_train.mean(0), of_train.std(0, correction=0)
    # Above 0 also where all texts have equal features.
    floor = max(SMALLEST * float(deviation.mean()), torch.finfo(torch.float32).tiny)
    # With the root of the width, so that the squared norm of a text is about 1 for any model.
    scale = deviation.clamp(min=floor) * phi.shape[-1] ** 0.5
    z = (phi - mean) / scale
    weight = _solve(z[: len(train), 0] - z[: len(train), 1], options.penalty)
    margins = ((z[:, 0] - z[:, 1]) @ weight).double().numpy()
    report: dict[str, float] = {"pairs": len(comparisons), "held_out_pairs": len(held_out)}
    report |= {f"train_{name}": value for name, value in measures(margins[: len(train)]).items()}
    report |= measures(margins[len(train) :])
    return RewardModel(
        agents,
        options.part_length,
        weight=weight,
        mean=mean,
        scale=scale,
        checked=(texts[0], table[0].clone()),
        report=report,
    )


def split(
    comparisons: Sequence[JointComparison], share: float, seed: int
) -> tuple[list[JointComparison], list[JointComparison]]:
    """Split comparisons by task into those to train on and those held out, at least one each.

    With a single task, its pairs are split, with a warning.

    Raises:
        ValueError: If there are fewer than two comparisons.
    """
    if len(comparisons) < 2:
        raise ValueError(
            f"a reward model needs at least 2 pairs, one to be held out, got {len(comparisons)}: export more"
        )
    # Pairs of a task share prompts and often answers, so a task is held out as a whole.
    by_task = list(dict.fromkeys(pair.task for pair in comparisons))
    key: Callable[[int], Any] = lambda index: comparisons[index].task  # noqa: E731
    if len(by_task) == 1:
        logger.warning("all pairs are of task %s, so held-out ones are no other task's", by_task[0])
        key = int  # each pair by itself
    keys = list(dict.fromkeys(key(index) for index in range(len(comparisons))))
    order = stream(seed, "held out").permutation(len(keys))
    count = min(len(keys) - 1, max(1, round(share * len(keys))))  # one at least on both sides
    out = {keys[position] for position in order[:count]}
    parts: tuple[list[JointComparison], list[JointComparison]] = ([], [])
    for index, pair in enumerate(comparisons):
        parts[key(index) in out].append(pair)
    return parts


def _solve(differences: Tensor, penalty: float) -> Tensor:
    """Return w, (d,), for the differences z(winner) - z(loser) of pairs, (n, d)."""
    # float64, so that the line search of L-BFGS converges to the given tolerance.
    inputs = differences.double()
    weight = torch.zeros(inputs.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight], max_iter=ITERATIONS, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        fit = -torch.nn.functional.logsigmoid(inputs @ weight).mean()
        value = fit + penalty / 2 * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach().float()


def measures(margins: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    """Judge pairs by their margins s(winner) - s(loser), (n,).

    - `accuracy`: share of pairs in the right order; equal scores count one half.
    - `loss`: mean of -log P(winner), in nats.
    - `brier`: mean of (1 - P(winner))^2, from 0 to 1; 1/4 for a coin.
    - `calibration_error`: mean over `BINS` of confidence max(P, 1 - P), weighed by their pairs, of the distance
      between mean confidence and accuracy (expected calibration error, arXiv 1706.04599).
    """
    right = 1 / (1 + np.exp(-margins))
    correct = np.where(margins > 0, 1.0, np.where(margins < 0, 0.0, 0.5))
    confidence = np.maximum(right, 1 - right)
    # A confidence of exactly 1 belongs to the last bin.
    bins = np.minimum((BINS * (2 * confidence - 1)).astype(int), BINS - 1)
    error = sum(
        abs(confidence[bins == index].sum() - correct[bins == index].sum()) for index in range(BINS)
    )
    return {
        "accuracy": float(correct.mean()),
        "loss": float(np.logaddexp(0, -margins).mean()),
        "brier": float(((1 - right) ** 2).mean()),
        "calibration_error": float(error / len(margins)),
    }
