"""Memory of a run on given devices, in words, and what would make it fit, for the command `plan`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.doctor.memory_plan import (
    ASSUMED,
    CHANGES,
    GPUS,
    MemoryPlan,
    plan_memory,
)
from llm_decpomdp.validation import unknown

SHARES = ("usable_memory", "length")
"""Assumptions that are shares."""


@dataclass(frozen=True)
class DeviceEstimate:
    """The memory that a run needs on each of some devices."""

    devices: str
    count: int
    plan: MemoryPlan
    parts: Mapping[str, float]
    """Bytes of a device by their use."""
    usable: float
    assumed: Mapping[str, float]
    dtype: str

    @property
    def need(self) -> float:
        """Gigabytes of a device."""
        return sum(self.parts.values()) / 1e9


def estimate_devices(config: Config, gpus: str, numbers: Mapping[str, float]) -> DeviceEstimate:
    """Estimate the memory of a run on given devices."""
    count, kind = _read_devices(gpus)
    shards = config.learner.fsdp_size
    if shards > 1 and kind != "cpu" and count != shards:
        raise ConfigError(
            f"--gpus {gpus}: a run with learner.fsdp_size={shards} has {shards} processes with a GPU each: give "
            f"--gpus {shards}x{kind}, or --override learner.fsdp_size={count}"
        )
    assumed = {**ASSUMED, "memory": _device_memory(kind), **numbers}
    dtype, usable = _compute_dtype(kind), assumed["memory"] * assumed["usable_memory"]
    counted = plan_memory(config, assumed, dtype, 0 if kind == "cpu" else count)
    weights = numbers.get("parameters")
    # A number that was needed is the size of a model now.
    if weights is not None and round(weights) not in [of.shape.parameters for of in counted.models]:
        known = ", ".join(dict.fromkeys(str(of.name) for of in counted.models))
        raise ConfigError(
            f"--parameters {weights:g} changes nothing: the size of {known} is known; leave it out"
        )
    devices = kind if kind == "cpu" else f"{count}x{kind}"
    parts = counted.parts(max(count, shards))
    if kind == "cpu":  # all processes share the memory of the machine
        parts = {part: size * shards for part, size in parts.items()}
    return DeviceEstimate(devices, count, counted, parts, usable, assumed, dtype)


def plan_lines(config: Config, estimate: DeviceEstimate) -> list[str]:
    """Return the estimate of a run as lines; raise a `ConfigError` with remedies if it does not fit."""
    parts, usable, need = estimate.parts, estimate.usable, estimate.need
    if need <= usable:
        return [
            f"{config.algorithm.name}, {config.algorithm.rollout.mode}, on {config.env.id}, on {estimate.devices}",
            *_count_lines(estimate.plan),
            *(f"left out: {text}" for text in _left_out(config)),
            f"gigabytes of each device, of {usable:.1f} that may be used:",
            *(f"  {part:<14} {size / 1e9:8.2f}" for part, size in parts.items() if size),
            f"  {'in all':<14} {need:8.2f}",
            "assumed; change with --assume: "
            + ", ".join(f"{k}={v:g}" for k, v in estimate.assumed.items()),
            "compared with runs on a CPU; no GPU has confirmed it",
        ]
    largest = sorted(parts.items(), key=lambda item: -item[1])
    # Parts below 0.05 GB would be printed as 0.0.
    sizes = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in largest if size > 5e7)
    lines = [
        f"it does not fit on {estimate.devices}: a device needs {need:.1f} GB of the {usable:.1f} that may be "
        f"used ({sizes}), and {need - usable:.1f} are missing"
    ]
    variants: dict[str, dict[str, Mapping[str, Any]]] = {
        text: {"model": keys} for text, keys in CHANGES.items()
    }
    if estimate.count > 1 and config.learner.fsdp_size == 1:
        variants[f"learner.fsdp_size={estimate.count} output.checkpoint_every=1"] = {
            "learner": {"fsdp_size": estimate.count},
            "output": {"checkpoint_every": 1},
        }
    for text, changes in variants.items():
        with suppress(ConfigError):  # such as that of a critic in shards
            sections = {k: replace(getattr(config, k), **keys) for k, keys in changes.items()}
            changed = plan_memory(replace(config, **sections), estimate.assumed, estimate.dtype)
            less = sum(changed.parts(estimate.count).values()) / 1e9
            if less <= usable:
                lines.append(f"  --override {text} needs {less:.1f} GB of a device")
    if len(lines) == 1:
        lines.append("  take a smaller model, or more devices with learner.fsdp_size")
    raise ConfigError("\n".join(lines))


def _count_lines(plan: MemoryPlan) -> Iterable[str]:
    for model in plan.models:
        kind = "all weights trained" if model.full else "frozen"
        if model.trained and not model.full:
            kind = f"adapters of {model.adapters / 1e6:,.1f} M weights trained"
        kind += f", {model.shards} shards" if model.shards > 1 else ""
        kind += f", {model.quantization}" if model.quantization != "none" else ""
        yield (
            f"  {', '.join(model.policies)}: {model.name}, {model.shape.parameters / 1e9:.2f} billion weights, "
            f"{kind}, {model.dtype}, prompts of up to {max(model.prompts):,.0f} tokens"
        )
    yield (
        f"an update, at most: {plan.starts:,} starts, {plan.completions:,} completions of each agent, "
        f"{plan.joint_samples:,} joint samples, {plan.tokens:,.0f} tokens, {plan.programs:,} programs"
    )


def _left_out(config: Config) -> Iterable[str]:
    """Yield what a configuration loads besides the team and its learning."""
    from llm_decpomdp.benchmarks.runs.setup import team_spec

    workers, opponent = config.cluster.rollout_workers, config.algorithm.named_opponent
    if config.inference.engine == "vllm":
        yield "servers of vLLM, which hold keys and values instead of this process"
    if opponent is not None:
        yield f"the opponent, another team in {opponent}"
    yield from team_spec(config, config.make_eval_env().possible_agents).describe_cost()
    if workers:
        yield f"{workers} cop{'y' if workers == 1 else 'ies'} of the team in rollout workers"
    critic = config.algorithm.critic
    if critic is not None and critic.trunk != "frozen":
        yield "passes with gradients of the critic's adapter"


def _read_devices(text: str) -> tuple[int, str]:
    # A kind may be digits alone, such as 4090.
    match = re.fullmatch(r"(?:(\d+)x)?(\d*[a-z]\w*|\d+)", text.lower())
    if match is None or match[1] == "0" or (match[2] == "cpu" and match[1]):
        raise ConfigError(
            f"--gpus: needs a number and a kind such as 8xh100, or cpu for all of this machine's processors, got "
            f"{text!r}"
        )
    if match[2] not in (*GPUS, "cpu"):
        raise ConfigError(
            f"--gpus: {unknown('kind of GPU', match[2], [*GPUS, 'cpu'])}; for another one take any, with its "
            "gigabytes: --assume memory=.."
        )
    return int(match[1] or 1), match[2]


def read_assumptions(items: Sequence[str]) -> dict[str, float]:
    """Read `name=value` pairs; raise a `ConfigError` for an unknown name, or a value that is no number above 0."""
    valid, values = sorted([*ASSUMED, "memory", "prompt"]), {}
    for item in items:
        name, _, text = item.partition("=")
        if name not in valid:
            raise ConfigError(unknown("assumption", name, valid))
        try:
            values[name] = float(text)
        except ValueError:
            values[name] = math.nan  # which the next check refuses
        most = 1 if name in SHARES else math.inf
        if not 0 < values[name] <= most or values[name] == math.inf:
            rule = "a share above 0, and at most 1" if name in SHARES else "a number above 0"
            raise ConfigError(f"--assume {name}: needs {rule}, got {text!r}")
    return values


def _device_memory(kind: str) -> float:
    from llm_decpomdp.benchmarks.doctor import memory

    # In gigabytes of 10**9 bytes, as in data sheets.
    return memory.total() * memory.GIB / 1e9 if kind == "cpu" else GPUS[kind]


def _compute_dtype(kind: str) -> str:
    """Return the format in which models compute on a device by default."""
    if kind != "cpu":
        return "bfloat16"
    import torch

    from llm_decpomdp.agents.models.weights import resolve_compute_dtype

    return str(resolve_compute_dtype("auto", torch.device("cpu"))).removeprefix("torch.")
