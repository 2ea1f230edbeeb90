"""Ways to use devices: which fit, and how long an update takes in each.

- *together*: every device holds the whole team, samples by transformers and learns, on its share of the starts
  (`accelerate launch`, or a single process); or a part of each weight, as `learner.shards` says, and no other way.
- *apart*: some devices are servers (vLLM), the others learn, in shards where a model is too large for one.
- *as placed*: the servers and learners that `policies.<name>.sample_on` and `device` declare, and no other way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from llm_decpomdp.benchmarks.planning import memory as bytes_of
from llm_decpomdp.benchmarks.planning.assumptions import Assumptions
from llm_decpomdp.benchmarks.planning.devices import Fleet
from llm_decpomdp.benchmarks.planning.memory import Memory
from llm_decpomdp.benchmarks.planning.speed import (
    Rates,
    learn_seconds,
    loop_seconds,
    program_seconds,
    publish_seconds,
    server_seconds,
)
from llm_decpomdp.benchmarks.planning.work import Model, Work

PARALLEL = (1, 2, 4, 8)
"""Devices that one server may take for a model."""


@dataclass(frozen=True)
class Layout:
    """One way to use the devices, with its memory and times."""

    sampling: int
    """Devices that sample only; 0: all do everything."""
    learning: int
    shards: int
    usable: float
    """Gigabytes of a device that may be used."""
    memory: dict[str, Memory]
    """Parts of one device, by its work."""
    seconds: dict[str, float]
    """Parts of an update."""
    lag: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """The layout in words."""
        if not self.sampling:
            together = f"together on {self.learning}" if self.learning > 1 else "together"
            return f"{together} in {self.shards} shards" if self.shards > 1 else together
        shards = f" in {self.shards} shards" if self.shards > 1 else ""
        return f"{self.sampling} sample, {self.learning} learn{shards}"

    @property
    def missing(self) -> float:
        """Gigabytes that the fullest device lacks; at most 0 if it fits."""
        return max(memory.gigabytes for memory in self.memory.values()) - self.usable

    @property
    def fits(self) -> bool:
        """True if each device has the memory."""
        return self.missing <= 0

    @property
    def update(self) -> float:
        """Seconds of an update: the sum of its parts; with a lag sampling and learning overlap."""
        total = sum(self.seconds.values())
        if not self.lag or not self.sampling:
            return total
        return total - min(
            self.seconds["sampling"] + self.seconds["programs"], self.seconds["learning"]
        )

    @property
    def bottleneck(self) -> str:
        """The part that takes longest."""
        return max(self.seconds, key=lambda part: self.seconds[part])


def layouts(work: Work, fleet: Fleet, assumed: Assumptions, lag: int = 0) -> list[Layout]:
    """List all layouts, those that fit first, and of them the fastest first; else the nearest to fitting."""
    if any(model.sample_on for model in work.models):
        return [placed(work, fleet, assumed, lag)]
    ways = [together(work, fleet, assumed)]
    if not fleet.on_cpu and work.shards == 1:
        ways += _apart(work, fleet, assumed, lag)
    return sorted(ways, key=lambda one: (not one.fits, one.update if one.fits else one.missing))


def together(work: Work, fleet: Fleet, assumed: Assumptions) -> Layout:
    """Compute the layout in which every device does everything, one model after the other."""
    rates, starts = Rates(fleet, assumed), math.ceil(work.starts / fleet.count)
    trained = [model for model in work.models if model.trained]
    seconds = {
        "sampling": sum(loop_seconds(model, work, starts, rates) for model in work.models),
        "programs": program_seconds(work, fleet.cores, assumed),
        "learning": sum(
            learn_seconds(m, work, fleet.count, work.shards, rates).seconds for m in trained
        ),
    }
    if work.shards > 1:
        memory = {
            "every device": bytes_of.cut_memory(work, starts, work.shards),
            "every device, while loading": bytes_of.loading_memory(work),
        }
        # As many bytes as a pass of all weights gathers, sent once an update.
        seconds["publishing"] = sum(
            model.bytes_in_shards / rates.between(work.shards) for model in trained
        )
    else:
        memory = {"every device": bytes_of.together_memory(work, starts)}
    notes = _idle(work, fleet.count)
    return Layout(
        sampling=0,
        learning=fleet.count,
        shards=work.shards,
        usable=_usable(fleet, assumed),
        memory=memory,
        seconds=seconds,
        notes=notes,
    )


def _apart(work: Work, fleet: Fleet, assumed: Assumptions, lag: int) -> Iterator[Layout]:
    for sampling in range(1, fleet.count):
        learning = fleet.count - sampling
        divisors = [s for s in range(1, learning + 1) if learning % s == 0]
        options = (apart(work, fleet, assumed, sampling, shards, lag) for shards in divisors)
        first = None
        for layout in options:
            first = first if first is not None and first.missing <= layout.missing else layout
            if layout.fits:
                break
        assert first is not None
        yield layout if layout.fits else first


def apart(
    work: Work, fleet: Fleet, assumed: Assumptions, sampling: int, shards: int, lag: int = 0
) -> Layout:
    """Compute the layout with so many devices that sample, the others learning in copies of so many shards.

    Where there are at least as many devices as models, each model has devices of its own; otherwise all models are
    on all of them. Servers hold weights in 16 bits, and the room that is left is for keys and values.
    """
    rates, usable = Rates(fleet, assumed), _usable(fleet, assumed)
    learning = fleet.count - sampling
    alone = sampling >= len(work.models)
    groups = [[model] for model in work.models] if alone else [list(work.models)]
    memory = {"learner": bytes_of.learner_memory(work, shards)}
    if shards > 1:
        memory["learner, while loading"] = bytes_of.loading_memory(work)
    times: list[float] = []
    for index, group in enumerate(groups):
        devices = sampling // len(groups) + (index < sampling % len(groups))
        served, memory[f"server of {_names(group)}"] = _served(group, work, devices, usable, rates)
        times.append(served)
    trained = [model for model in work.models if model.trained]
    seconds = {
        "sampling": max(times),
        "programs": program_seconds(work, fleet.cores, assumed),
        "learning": sum(learn_seconds(m, work, learning, shards, rates).seconds for m in trained),
        "publishing": sum(publish_seconds(model, assumed) for model in trained),
    }
    return Layout(
        sampling,
        learning,
        shards,
        usable,
        memory,
        seconds,
        lag,
        (*_idle(work, learning), *_few(work, sampling)),
    )


def placed(work: Work, fleet: Fleet, assumed: Assumptions, lag: int = 0) -> Layout:
    """Compute the layout that a configuration declares: a server for each model, one process that learns.

    Its models learn one after the other, each on its device; servers sample at the same time.
    """
    rates, usable = Rates(fleet, assumed), _usable(fleet, assumed)
    memory: dict[str, Memory] = {}
    trained = [model for model in work.models if model.trained]
    for device in dict.fromkeys(model.device for model in trained):
        models = [model for model in trained if model.device == device]
        alone = replace(work, models=tuple(models))
        memory[f"learner of {_names(models)}"] = bytes_of.learner_memory(alone, 1)
    loops, servers, notes, gpus = (
        [0.0],
        [],
        [],
        [gpu for model in work.models for gpu in model.sample_on],
    )
    for model in work.models:
        if model.sample_on:
            seconds, served = _served([model], work, len(model.sample_on), usable, rates)
            memory[f"server of {_names([model])}"] = served
            servers.append(seconds)
        else:
            loops.append(loop_seconds(model, work, work.starts, rates))
            notes.append(f"{_names([model])} has no server, and its memory is not counted")
    homes = {int(model.device.partition(":")[2] or 0) for model in trained if model.device != "cpu"}
    if len(set(gpus)) < len(gpus) or homes & set(gpus):
        notes.append("some devices hold several servers or learners: their memory was not added up")
    return Layout(
        sampling=len(set(gpus)),
        learning=len(homes),
        shards=1,
        usable=usable,
        memory=memory,
        seconds={
            "sampling": max(sum(loops), *servers),
            "programs": program_seconds(work, fleet.cores, assumed),
            "learning": sum(learn_seconds(m, work, 1, 1, rates).seconds for m in trained),
            "publishing": sum(publish_seconds(model, assumed) for model in trained),
        },
        lag=lag,
        notes=tuple(notes),
    )


def _served(
    group: list[Model], work: Work, devices: int, usable: float, rates: Rates
) -> tuple[float, Memory]:
    """Return the seconds in which devices sample some models, and the memory of each of them.

    As few devices as hold the weights and one row make a server. Several models sample by turns.
    """
    weights = sum(2 * m.shape.parameters + 4 * m.adapters for m in group)
    contexts = {m.name: m.context(len(work.turns)) for m in group}
    row = max(contexts[m.name] * m.shape.kv_bytes(2) for m in group)
    fitting = [n for n in PARALLEL if n <= devices and (weights + row) / n <= usable * 1e9]
    parallel = fitting[0] if fitting else max(n for n in PARALLEL if n <= devices)
    servers = devices // parallel
    room = max(usable * 1e9 * parallel - weights, row) / len(group)
    seconds, keys = 0.0, 0.0
    for model in group:
        of_token = model.shape.kv_bytes(2)
        served = server_seconds(model, work, servers, room / of_token, rates, parallel)
        seconds += served.seconds
        keys += served.rows * contexts[model.name] * of_token
    return seconds, Memory({"weights": weights / parallel, "keys, values": keys / parallel})


def _usable(fleet: Fleet, assumed: Assumptions) -> float:
    return fleet.device.memory * assumed.usable_memory


def _names(models: list[Model]) -> str:
    return ", ".join(name for model in models for name in model.policies)


def _idle(work: Work, devices: int) -> tuple[str, ...]:
    """Say how many devices have no start to learn from."""
    if devices <= work.starts:
        return ()
    return (
        f"{devices - work.starts} of {devices} learning devices have nothing to do, as an update has "
        f"{work.starts} start{'s' * (work.starts > 1)}: raise algorithm.prompts_per_update",
    )


def _few(work: Work, devices: int) -> tuple[str, ...]:
    """Say how many devices have no completion to sample."""
    rows = work.starts * max(
        sum(work.rows(model, turn) for model in work.models) for turn in work.turns
    )
    if devices <= rows:
        return ()
    return (
        f"{devices - rows} of {devices} sampling devices have nothing to do: {rows} completions at a time",
    )
