"""Seconds of the parts of an update, by arithmetic over rates; every formula stands in its function.

Letters: P weights that compute, k bytes of keys and values of a token, c tokens of context, B rows, L tokens of a
completion, T turns, S starts, n devices. FLOP/s and bytes/s are those of a device times the
shares of `Assumptions`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llm_decpomdp.benchmarks.planning.assumptions import Assumptions
from llm_decpomdp.benchmarks.planning.devices import Fleet
from llm_decpomdp.benchmarks.planning.work import Model, Work

FORWARD, BACKWARD, WEIGHT_GRADIENTS, AGAIN = 2, 2, 2, 2
"""FLOPs for each weight and token: forward, backward to the inputs, to the weights, and forward once more."""

STEP_BYTES = 28
"""Bytes that AdamW reads and writes for each trained weight: four float32 numbers read, three written."""


@dataclass(frozen=True)
class Rates:
    """A device's rates, with the shares of them that are reached."""

    fleet: Fleet
    assumed: Assumptions

    @property
    def bandwidth(self) -> float:
        """Bytes a second from memory."""
        return self.fleet.device.bandwidth * 1e9 * self.assumed.decode_bandwidth

    def decoding(self, model: Model) -> float:
        """FLOPs a second in decoding steps and for prompts."""
        return self._flops(model) * self.assumed.decode_flops

    def learning(self, model: Model) -> float:
        """FLOPs a second in forward and backward passes."""
        return self._flops(model) * self.assumed.learn_flops

    def _flops(self, model: Model) -> float:
        device = self.fleet.device
        return 1e12 * (device.flops if model.element == 2 else device.single)

    def between(self, devices: int) -> float:
        """Bytes a second from one device to others, of so many: within a node or between nodes."""
        device = self.fleet.device
        return 1e9 * (device.link if devices <= device.node else device.network)


def decode_step(
    model: Model, rows: float, context: float, rates: Rates, parallel: int = 1
) -> float:
    """Return the seconds of one token for all rows: max((e P + B c k) / bandwidth, 2 P B / FLOP/s).

    `parallel` devices share weights and rows.
    """
    element, size = model.element, model.shape.computing
    traffic = element * size + rows * context * model.shape.kv_bytes(element)
    computed = FORWARD * size * rows
    return max(traffic / rates.bandwidth, computed / rates.decoding(model)) / parallel


def mean_context(model: Model, turn: int) -> float:
    """Return the mean tokens of context over a completion: p + L / 2."""
    return sum(p.prompt_on(turn) + p.length / 2 for p in model.players) / len(model.players)


def loop_seconds(model: Model, work: Work, starts: int, rates: Rates) -> float:
    """Return the seconds in which transformers samples a model's share of an update.

    For each turn: prompts, p (2 P + attention) of arithmetic; then L steps, of at least `layer_seconds` a layer.
    """
    total, size = 0.0, model.shape.computing
    for index, turn in enumerate(work.turns):
        prompts = (
            starts
            * turn.groups
            * sum(
                p.prompt_on(index)
                * (FORWARD * size + model.shape.attention_flops(p.prompt_on(index)))
                for p in model.players
            )
        )
        rows = starts * work.rows(model, turn)
        step = decode_step(model, rows, mean_context(model, index), rates)
        least = model.shape.layers * rates.assumed.layer_seconds
        total += prompts / rates.decoding(model)
        total += model.length * max(step, least)
    return total * work.rounds


@dataclass(frozen=True)
class Served:
    """The sampling of a model by servers."""

    seconds: float
    floor: float
    """Seconds of its longest completions alone: T L t(1); no number of servers goes below."""
    rows: float
    """Live rows of a server (B)."""


def server_seconds(
    model: Model, work: Work, servers: float, room: float, rates: Rates, parallel: int = 1
) -> Served:
    """Return the seconds in which servers sample a model's share of an update.

    max(sum of L steps a turn at B rows / `engine_share`, T L t(1)), B = min(rows / servers, room); others wait.
    That is max(W / (g B / t(B)), T L t(1)) for W tokens on g servers.

    Args:
        model: The model.
        work: The update.
        servers: Servers, each a copy of the model.
        room: Tokens of keys and values that fit one server.
        rates: Of the devices.
        parallel: Devices of a server.
    """
    seconds, most = 0.0, 0.0
    for index, turn in enumerate(work.turns):
        rows = work.starts * work.rows(model, turn) / servers
        live = min(max(rows, 1.0), room / model.context(index + 1))
        step = decode_step(model, live, mean_context(model, index), rates, parallel)
        seconds += model.length * step * max(rows, 1.0) / live
        most = max(most, live)
    floor = len(work.turns) * model.length * decode_step(model, 1, model.length, rates, parallel)
    seconds = max(seconds / rates.assumed.engine_share, floor)
    return Served(seconds * work.rounds, floor * work.rounds, most)


def flops_a_token(model: Model, row: float, steps: int = 1) -> float:
    """Return the FLOPs of learning a token: c P, and attention to a row.

    c is 2 forward, 2 backward to the inputs, 2 to the weights where they are trained, 2 with checkpointing: all of
    them for each gradient step; and 2 for a reference. Attention has no weights: forward, twice backward, again.
    """
    weights = FORWARD + BACKWARD + (WEIGHT_GRADIENTS if model.full else 0)
    attention = 3
    if model.checkpointing:
        weights, attention = weights + AGAIN, attention + 1
    weights, attention = weights * steps, attention * steps
    if model.reference:
        weights, attention = weights + FORWARD, attention + 1
    return weights * model.shape.computing + attention * model.shape.attention_flops(row)


@dataclass(frozen=True)
class Learned:
    """The learning of a model."""

    computing: float
    """Seconds of arithmetic, or of the least time of layers."""
    gathering: float
    """Seconds in which shards are sent, at the same time."""
    stepping: float
    """Seconds of the optimizer, and of adding up gradients of copies."""

    @property
    def seconds(self) -> float:
        """The whole, where sending hides behind computing or computing behind sending."""
        return max(self.computing, self.gathering) + self.stepping


def learn_seconds(model: Model, work: Work, devices: int, shards: int, rates: Rates) -> Learned:
    """Return the seconds in which devices learn a model's share of an update.

    - computing: `flops_a_token` `Work.learned` / FLOP/s / S * ceil(S / n): whole starts go to devices.
    - gathering, with shards: for each pass 3 times (forward, backward, gradients) 4 P bytes over a link, and once
      more for a reference; with `learner.shards` the frozen weights below adapters twice, and thrice with one.
    - stepping: 28 bytes a trained weight over the memory, and 2 * 4 bytes over a link for copies.
    """
    trained = model.trainable
    share = math.ceil(work.starts / devices) / work.starts
    tokens = work.learned(model)
    flops = flops_a_token(model, work.row(model), work.steps)
    arithmetic = flops * tokens * share / rates.learning(model)
    starts = math.ceil(work.starts / devices)
    passes = work.passes(model) * starts * work.steps
    least = 3 * passes * model.shape.layers * rates.assumed.layer_seconds
    gathered = model.bytes_in_shards if model.full or work.shards > 1 else 0
    gradients = 4 * trained
    of_pass = (2 + model.reference) * gathered + (gradients if gathered else 0)
    transfers = passes * of_pass if shards > 1 else 0
    stepping = STEP_BYTES * trained / shards / rates.bandwidth
    if devices > shards:
        stepping += 8 * trained / shards / rates.between(devices)
    return Learned(max(arithmetic, least), transfers / rates.between(shards), stepping * work.steps)


def program_seconds(work: Work, cores: float, assumed: Assumptions) -> float:
    """Return the seconds of programs: J (seconds of one + share that hangs * limit) / cores."""
    program = assumed.program_seconds + assumed.hanging * assumed.hanging_seconds
    return max(work.programs * program / cores, program if work.programs else 0.0)


def publish_seconds(model: Model, assumed: Assumptions) -> float:
    """Return the seconds until servers have the new weights, in float32 files: 4 P / folder, or 4 A / folder."""
    if not model.trained:
        return 0.0
    weights = model.shape.parameters if model.full else model.adapters
    return 4 * weights / (1e9 * assumed.folder)
