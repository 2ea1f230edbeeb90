"""Memory of one device, part by part, in bytes.

P weights of a model, A of its adapters, e bytes of a number in the format of computing, s shards.

| part           | bytes                                                                                |
|----------------|--------------------------------------------------------------------------------------|
| weights        | 4 P / s where they are trained, e P where they are frozen (below adapters), + 4 A    |
| gradients      | 4 of each trained weight, / s of whole models                                        |
| moments        | 8 of each trained weight (two of AdamW), / s of whole models                         |
| reference      | 4 P / s where a divergence, a critic or pairs compare with the weights before         |
| rounded copy   | e P of the model at work, in sampling and in learning, where e < 4 and all is trained  |
| gathered       | instead, where s > 1: two layers, embeddings and head, 4 + e bytes of each weight     |
| copies         | with `learner.shards`, e P of all models that learn while they sample; frozen e P / s too |
| activations    | of one packed row, `Shape.activation_bytes` times its tokens, and the logits of a chunk |
| keys, values   | `Shape.kv_bytes` times the tokens of all rows that are sampled together               |

Gradients are freed before a model samples, keys and values before it learns: the greater of both counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llm_decpomdp.agents.inference.packed_log_probs import LOGITS_AT_ONCE
from llm_decpomdp.benchmarks.planning.work import Model, Work

LOGITS = 16 * LOGITS_AT_ONCE
"""Bytes of a chunk of logits: float32, twice, and their gradients twice."""


@dataclass(frozen=True)
class Memory:
    """Bytes of a device by part."""

    parts: Mapping[str, float]

    @property
    def gigabytes(self) -> float:
        """The sum, in units of 10^9 bytes."""
        return sum(self.parts.values()) / 1e9


def states(model: Model, shards: int = 1) -> dict[str, float]:
    """Return the bytes that stay over an update: weights, and what training adds; with gradients."""
    size, trained = model.shape.parameters, model.trainable
    if not model.full:
        return {
            "weights": model.element * size + 4 * model.adapters,
            "gradients": 4.0 * trained,
            "moments": 8.0 * trained,
        }
    return {
        "weights": 4 * size / shards,
        "gradients": 4 * size / shards,
        "moments": 8 * size / shards,
        "reference": 4 * size / shards if model.reference else 0.0,
    }


def working_copy(model: Model, shards: int = 1) -> dict[str, float]:
    """Return the bytes of the weights that a model computes with, beside those that it keeps."""
    if not model.full:
        return {}
    if shards > 1:
        gathered = 2 * model.shape.layer + model.shape.embeddings
        return {"gathered": float((4 + model.element) * gathered)}
    return {
        "rounded copy": float(model.element * model.shape.parameters if model.element < 4 else 0)
    }


def activations(model: Model, work: Work) -> float:
    """Return the bytes that the backward pass of one packed row keeps."""
    if not model.trained:
        return 0.0
    return (
        work.row(model)
        * model.shape.activation_bytes(model.element, checkpointing=model.checkpointing)
        + LOGITS
    )


def keys_and_values(model: Model, work: Work, starts: int) -> float:
    """Return the bytes of keys and values of all rows that are sampled together, for so many starts."""
    rows = starts * max(work.rows(model, turn) for turn in work.turns)
    return rows * model.context(len(work.turns)) * model.shape.kv_bytes(model.element)


def learner_memory(work: Work, shards: int) -> Memory:
    """Return the memory of a device that learns and does not sample."""
    models = [model for model in work.models if model.trained]
    at_work = max(
        models, key=lambda m: sum(working_copy(m, shards).values()) + activations(m, work)
    )
    parts = _summed(states(model, shards) for model in models)
    return Memory(
        {**parts, **working_copy(at_work, shards), "activations": activations(at_work, work)}
    )


def together_memory(work: Work, starts: int) -> Memory:
    """Return the memory of a device that holds the whole team, and samples and learns by turns."""
    learning = _summed(states(model) for model in work.models)
    trained = [model for model in work.models if model.trained]

    def to_learn(model: Model) -> dict[str, float]:
        return {**working_copy(model), "activations": activations(model, work)}

    def to_sample(model: Model) -> dict[str, float]:
        return {**working_copy(model), "keys, values": keys_and_values(model, work, starts)}

    learns = max(map(to_learn, trained), key=lambda parts: sum(parts.values()))
    samples = max(map(to_sample, work.models), key=lambda parts: sum(parts.values()))
    sampling = {**learning, "gradients": 0.0, **samples}
    options = Memory({**learning, **learns}), Memory(sampling)
    return max(options, key=lambda memory: memory.gigabytes)


def cut_memory(work: Work, starts: int, shards: int) -> Memory:
    """Return the memory of a device that does everything, with a part of all that learns (`learner.shards`).

    It samples with a rounded copy of all weights of these models. Between the passes of a row the rounded weights
    of all layers stay as autocast has made them, unless activations are computed twice.
    """
    trained = [model for model in work.models if model.trained]
    states_of = [
        cut_states(model, shards) if model.trained else states(model) for model in work.models
    ]
    learning = _summed(states_of)

    def to_learn(model: Model) -> dict[str, float]:
        stays = model.full and model.element < 4 and not model.checkpointing
        cast = model.element * model.shape.parameters if stays else 0.0
        gathered = (4 if model.full else model.element) * (
            2 * model.shape.layer + model.shape.embeddings
        )
        parts = {"gathered": float(gathered), "rounded copy": float(cast)}
        return {**parts, "activations": activations(model, work)}

    learns = max(map(to_learn, trained), key=lambda parts: sum(parts.values()))
    keys = max(keys_and_values(model, work, starts) for model in work.models)
    copies = float(sum(model.element * model.shape.parameters for model in trained))
    samples = {"gradients": 0.0, "rounded copy": copies, "keys, values": keys}
    options = Memory({**learning, **learns}), Memory({**learning, **samples})
    return max(options, key=lambda memory: memory.gigabytes)


def loading_memory(work: Work) -> Memory:
    """Return the memory of a process that has loaded all models and has cut none of them yet."""
    return Memory({"weights": sum(states(model)["weights"] for model in work.models)})


def cut_states(model: Model, shards: int) -> dict[str, float]:
    """Return `states` of a model in shards: frozen weights below adapters are cut too."""
    whole = states(model, 1)
    return {part: size / shards for part, size in whole.items()}


def _summed(tables: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for table in tables:
        for part, size in table.items():
            total[part] = total.get(part, 0.0) + size
    return total
