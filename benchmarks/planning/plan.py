"""The plan of a run on given devices: its best layout, or the reason why none fits and what would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.gpu_placement import check_room
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.sharding import check_shards
from llm_decpomdp.benchmarks.planning.assumptions import (
    Assumptions,
    OnCPU,
    declared_numbers,
    read_numbers,
    with_numbers,
)
from llm_decpomdp.benchmarks.planning.devices import Device, Fleet, find_fleet
from llm_decpomdp.benchmarks.planning.layouts import Layout, layouts
from llm_decpomdp.benchmarks.planning.work import Model, Work, work_of
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun, resolve

PROMPT = "prompt"
"""Name of the assumption that replaces the length of prompts as read."""

LORA = {"r": 16}
"""The adapter that a refusal suggests."""

MOST_DEVICES = 512


@dataclass(frozen=True)
class Plan:
    """Needs of a run, and how it is best spread."""

    run: ResolvedRun
    fleet: Fleet
    work: Work
    assumed: Assumptions
    layouts: Sequence[Layout]
    """The best first."""
    set_by_user: frozenset[str]

    @property
    def best(self) -> Layout:
        """The fastest layout that fits."""
        return self.layouts[0]


def plan(
    config: Config,
    gpus: str,
    *,
    assume: Sequence[str] = (),
    parameters: float | None = None,
    lag: int | None = None,
) -> Plan:
    """Plan a run; its data is read for that, and no model is loaded.

    Args:
        config: The configuration.
        gpus: Devices, such as `8xh100` or `cpu`.
        assume: Numbers to replace, as `name=value`: those of `Assumptions` and `Device`, and `prompt`, the tokens
            of a first prompt.
        parameters: Weights of a model whose size nothing tells.
        lag: Updates by which sampling is ahead of learning; `None` for those of the configuration.

    Raises:
        ConfigError: If no layout fits, policies are placed on more devices than there are, a number or kind is
            unknown, or the configuration is wrong.
        RunError: If the data cannot be loaded.
    """
    names = [field.name for numbers in (Assumptions, Device) for field in declared_numbers(numbers)]
    values = read_numbers(assume, [*names, PROMPT])
    fleet = find_fleet(gpus)
    fleet = replace(fleet, device=with_numbers(fleet.device, values))
    assumed = with_numbers(OnCPU() if fleet.on_cpu else Assumptions(), values)
    run = resolve(config)
    work = work_of(
        run, assumed, dtype=fleet.device.dtype, prompt=values.get(PROMPT), parameters=parameters
    )
    work = replace(work, cut_by=_cut_by(run))
    lag = run.config.algorithm.lag if lag is None else lag
    if work.shards not in (1, fleet.count):
        raise ConfigError(
            f"learner.shards={work.shards} needs as many devices, one for each process, and --gpus says {fleet}: "
            "make both equal, or drop learner.shards"
        )
    check_room(run.config, run.team.policies, 0 if fleet.on_cpu else fleet.count)
    ways = layouts(work, fleet, assumed, lag)
    if not ways[0].fits:
        raise ConfigError(refusal(work, fleet, assumed, ways[0]))
    return Plan(run, fleet, work, assumed, ways, frozenset(values))


def _cut_by(run: ResolvedRun) -> str | None:
    """Return what the run needs to be cut into shards, as `Work.cut_by`."""
    config = run.config
    further = "" if config.output.checkpoint_every else " output.checkpoint_every=10"
    output = replace(config.output, checkpoint_every=10)
    declared = ALGORITHMS[config.algorithm.name]
    try:
        check_shards(replace(config, output=output), run.team.policies, declared, run.learner)
    except ConfigError:
        return None
    return further


def refusal(work: Work, fleet: Fleet, assumed: Assumptions, nearest: Layout) -> str:
    """Say what is missing where nothing fits, and what would fit."""
    place, fullest = max(nearest.memory.items(), key=lambda item: item[1].gigabytes)
    parts = sorted(fullest.parts.items(), key=lambda item: -item[1])
    sizes = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in parts if size > 5e7)
    lines = [
        f"it does not fit on {fleet}: at best ({nearest.name}) {place} needs {fullest.gigabytes:.1f} GB "
        f"of the {nearest.usable:.1f} that may be used ({sizes}), and {nearest.missing:.1f} are missing",
        *(f"  {remedy}" for remedy in remedies(work, fleet, assumed)),
    ]
    if len(lines) == 1:
        lines.append(
            "  take a smaller model: neither adapters nor more of these devices are enough"
        )
    return "\n".join(lines)


def remedies(work: Work, fleet: Fleet, assumed: Assumptions) -> Iterator[str]:
    """Yield changes that make a run fit, each tried by itself; then more devices."""
    changes = {
        "train adapters: --override 'model.lora={r: 16}'": with_adapters(work),
        "compute activations twice: --override model.gradient_checkpointing=true": replace(
            work, models=tuple(replace(model, checkpointing=True) for model in work.models)
        ),
    }
    if fleet.count > 1 and not fleet.on_cpu and work.shards == 1 and work.cut_by is not None:
        text = f"cut the weights: --override learner.shards={fleet.count}{work.cut_by}"
        changes[text] = replace(work, shards=fleet.count)
    for text, other in changes.items():
        best = layouts(other, fleet, assumed)[0]
        if best.fits:
            most = max(memory.gigabytes for memory in best.memory.values())
            yield f"{text} needs {most:.1f} GB of a device ({best.name})"
    count = fleet.count
    while not fleet.on_cpu and (count := 2 * count) <= MOST_DEVICES:
        shards = count if work.shards > 1 else 1
        best = layouts(replace(work, shards=shards), fleet.of(count), assumed)[0]
        if best.fits:
            yield f"take more devices: it fits on {fleet.of(count)} ({best.name})"
            return


def with_adapters(work: Work) -> Work:
    """Return the work with a LoRA adapter for each policy that trains all its weights; equal bases are shared."""
    models: dict[str, Model] = {}
    for model in work.models:
        if not model.full:
            models[str(model.policies)] = model
            continue
        adapter = replace(model, adapters=model.shape.adapter(LORA))
        before = models.get(model.name)
        models[model.name] = (
            adapter
            if before is None
            else replace(
                before,
                policies=before.policies + model.policies,
                players=before.players + model.players,
                adapters=before.adapters + adapter.adapters,
            )
        )
    return replace(work, models=tuple(models.values()))
