"""The steps of the command, each of which measures one thing, and the models of random weights that they use."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.models.local_models import tiny_model
from llm_decpomdp.benchmarks.doctor.memory_plan import TABLE, Shape
from tools.performance.harness.trials import (
    Goal,
    Judgement,
    Measured,
    Spread,
    Variant,
    compare,
    speed,
)
from tools.performance.models import workload
from tools.performance.models.update import installed_versions

SIZES = {
    "tiny": Shape(2, 64, 128, 4, 2, 512, tied=True),
    "0.5b": TABLE["qwen2.5-0.5b"],
    "1.5b": TABLE["qwen2.5-1.5b"],
    "7b": TABLE["qwen2.5-7b"],
}
"""Shapes by name: `tiny` for tests, the others are those of Qwen2.5."""

CONTEXT = 32_768


def write_model(size: str, folder: Path, device: str = "cpu") -> Path:
    """Write a Qwen2 of a size, with weights in bfloat16 and a tokenizer of bytes; texts hardly ever end.

    Args:
        size: One of `SIZES`.
        folder: Parent of the folder that is returned.
        device: Where the weights are drawn: 7B take minutes on a CPU.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape, target = SIZES[size], folder / f"qwen2-{size}"
    target.mkdir()
    for path in tiny_model().iterdir():
        if path.name.startswith(("tokenizer", "special_tokens")):
            shutil.copy(path, target)
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=256,  # of the tokenizer of bytes
    )
    config.dtype = torch.bfloat16
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        kind: Any = Qwen2ForCausalLM  # whose constructors have no types
        model = kind._from_config(config)
        model.save_pretrained(target)
    return target


FILE = "gpu/trials.py"

CHECKED = "tiny"
"""The model whose gradients are compared, small enough for a CPU."""

DISTANCE = {"float32": 1e-3, "bfloat16": 0.1}
"""Maximum relative distance of gradients from those of a CPU in float32."""

SAMPLING_BYTES, LEARNING_BYTES, UPDATE_BYTES = 7, 14, 20
"""Maximum bytes per weight of a step, with a margin: weights and copy, then gradients, then moments."""

TEAMS = {"adapters": ("two adapters", 6), "own": ("two own models", 2 * UPDATE_BYTES)}
"""Name of a team by its weights, and the maximum bytes per weight of its update; frozen weights have one copy."""

SYNCHRONIZATIONS = {"sampling": 0.125, "update, adapters": None, "update, own": None}
"""What may wait for the device, and its maximum: for each further token of sampling, and in an update."""


class Skipped(Exception):
    """A step is not possible here, for the reason in the text."""


@dataclass(frozen=True)
class GpuSettings:
    """What all steps share."""

    folders: Mapping[str, str]
    """Folder of each model, by its size; with that of `CHECKED`."""
    sizes: Sequence[str]
    """Sizes that are measured."""
    device: str
    devices: int
    """Number of GPUs."""
    gigabytes: float
    """Memory of one."""
    dtype: str
    group_size: int
    rows: Sequence[int]
    """Numbers of completions that are sampled together."""
    new_tokens: int
    updates: int
    """Updates of the short training."""
    rounds: int
    variables: Mapping[str, str]
    peers: Path | None = None
    """Interpreter that may have TRL."""

    def fitting(self, bytes_a_weight: int, at_least: int = 1) -> list[str]:
        """List the sizes that fit the device.

        Raises:
            Skipped: If there are fewer than `at_least`.
        """
        need = {size: SIZES[size].parameters * bytes_a_weight / 1e9 for size in self.sizes}
        fitting = [size for size in self.sizes if need[size] <= self.gigabytes]
        if len(fitting) < at_least:
            least = min(need.values())
            raise Skipped(f"needs {least:.0f} GB, and the device has {self.gigabytes:.0f}")
        return fitting

    def case(self, size: str) -> dict[str, object]:
        """Return the arguments of a trial of models."""
        return {
            "model": self.folders[size],
            "group_size": self.group_size,
            "new_tokens": self.new_tokens,
            "dtype": self.dtype,
        }

    def compare(self, variants: Sequence[Variant]) -> list[Measured]:
        """Run variants in turn; errors as of `compare`."""
        return list(compare(variants, self.rounds, self.variables).values())


@dataclass(frozen=True)
class StepOutcome:
    """Figures of a step, in sections of variants that took turns."""

    sections: Sequence[Sequence[Measured]]
    judgements: Sequence[Judgement]


def _on_device(setting: GpuSettings, name: str, size: str, **arguments: object) -> Variant:
    case = {**setting.case(size), "device": setting.device, **arguments}
    return Variant(f"{name}, {size}", FILE, "on_device", case)


def _race(setting: GpuSettings, races: Iterable[Sequence[Variant]]) -> StepOutcome:
    """Let the variants of each race take turns, and judge the speed of the first against the others."""
    sections, judgements = [], []
    for variants in races:
        first, *rivals = section = setting.compare(variants)
        sections.append(section)
        for rival in rivals:
            goal = Goal(f"{first.variant.name} against {rival.variant.name}")
            judgements.append(speed(goal, first, rival))
    return StepOutcome(sections, judgements)


def sampling(setting: GpuSettings) -> StepOutcome:
    """Compare our sampling with `generate` and with continuous batching of transformers, by number of rows."""
    ways: dict[str, dict[str, object]] = {
        "ours, static cache": {"work": "sampling", "static_cache": True},
        "ours": {"work": "sampling"},
        "generate": {"work": "generate"},
        "continuous batching": {"work": "continuous"},
    }
    if setting.device == "cpu":
        del ways["continuous batching"]  # transformers refuses it there
    prompts = _prompts()[0][:1]

    def variants(size: str, rows: int) -> list[Variant]:
        case: dict[str, object] = {"prompts": prompts, "group_size": rows}
        return [
            _on_device(setting, f"{name}, {rows} rows", size, **way, **case)
            for name, way in ways.items()
        ]

    sizes = setting.fitting(SAMPLING_BYTES)
    return _race(setting, (variants(size, rows) for size in sizes for rows in setting.rows))


def learning(setting: GpuSettings) -> StepOutcome:
    """Compare packed learning with a padded batch a group."""
    case: dict[str, object] = {"prompts": _prompts()[0]}

    def variants(size: str) -> list[Variant]:
        return [
            _on_device(setting, "packed", size, work="packed", **case),
            _on_device(setting, "padded", size, work="padded", together=False, **case),
        ]

    return _race(setting, map(variants, setting.fitting(LEARNING_BYTES)))


def _prompts() -> list[list[str]]:
    """Return the prompts of all agents for two tasks."""
    env = workload.environment()
    tasks = workload.task_ids(env, 2)
    return [list(workload.prompts(env, task).values()) for task in tasks]


def update(setting: GpuSettings) -> StepOutcome:
    """Measure updates of MAGRPO with adapters and with own weights, each for the sizes that fit."""
    case: dict[str, object] = {"work": "update", "tasks": _tasks()}
    return StepOutcome(
        [
            setting.compare([_on_device(setting, name, size, weights=weights, **case)])
            for weights, (name, bytes_a_weight) in TEAMS.items()
            for size in setting.fitting(bytes_a_weight, at_least=0)
        ],
        [],
    )


def trl(setting: GpuSettings) -> StepOutcome:
    """Compare an update of own weights with one of TRL's GRPO for the prompt of either agent."""
    version = installed_versions(setting.peers)["trl"]
    if not version:
        raise Skipped("needs --peers, an interpreter that has trl")

    def variants(size: str) -> list[Variant]:
        case = {**setting.case(size), "device": setting.device, "prompts": _prompts()}
        case |= {"bf16": case.pop("dtype") == "bfloat16", "gradient_checkpointing": False}
        python = str(setting.peers)
        return [
            _on_device(setting, "ours", size, work="update", tasks=_tasks(), weights="own"),
            Variant(f"TRL {version}, {size}", "models/trl_update.py", "grpo", case, python),
        ]

    return _race(setting, map(variants, setting.fitting(2 * UPDATE_BYTES)))


def synchronizations(setting: GpuSettings) -> StepOutcome:
    """Count how often sampling and an update wait for the device."""
    size = setting.fitting(2 * UPDATE_BYTES)[0]
    case = {**setting.case(size), "device": setting.device, "tasks": _tasks()}
    sections, judgements = [], []
    for name, at_most in SYNCHRONIZATIONS.items():
        variant = Variant(name, FILE, "synchronizations", {**case, "work": name})
        (figures,) = section = setting.compare([variant])
        sections.append(section)
        count = figures.spread(lambda trial: trial.figures["waits"])
        judgements.append(Judgement(Goal(f"synchronizations, {name}", "", at_most=at_most), count))
    return StepOutcome(sections, judgements)


def equal_bytes(setting: GpuSettings) -> StepOutcome:
    """Compare the weights of two processes after equal updates, with deterministic kernels and without."""
    size = setting.fitting(2 * UPDATE_BYTES)[0]
    case = {**setting.case(size), "device": setting.device, "tasks": _tasks()}
    sections, judgements = [], []
    for weights, (team, _) in TEAMS.items():
        for switch in (True, False):
            name = f"{team}, deterministic={str(switch).lower()}"
            arguments = {**case, "weights": weights, "switch": switch}
            pair = [Variant(f"{name}, {n}", FILE, "digest", arguments) for n in ("first", "second")]
            section = setting.compare(pair)
            sections.append(section)
            digests = {trial.figures["digest"] for one in section for trial in one.trials}
            goal = Goal(f"different weights, {name}", "", at_most=1 if switch else None)
            judgements.append(Judgement(goal, Spread.from_values([len(digests)])))
    return StepOutcome(sections, judgements)


def _tasks() -> list[str]:
    """Return the tasks of two updates."""
    return workload.task_ids(workload.environment(), 2)


def gradients(setting: GpuSettings) -> StepOutcome:
    """Compare gradients on the device with those of the CPU, in both formats and with both attentions."""
    sections, judgements = [], []
    for dtype, most in DISTANCE.items():
        for attention in ("sdpa", "eager"):
            name = f"gradient, {dtype}, {attention}"
            case = {**setting.case(CHECKED), "device": setting.device}
            case |= {"dtype": dtype, "attention": attention}
            (figures,) = setting.compare([Variant(name, FILE, "gradients", case)])
            sections.append([figures])
            distance = figures.spread(lambda trial: trial.figures["distance"])
            goal = Goal(f"{name}: distance from the CPU's", "", at_most=most)
            judgements.append(Judgement(goal, distance))
    return StepOutcome(sections, judgements)


def probe(setting: GpuSettings) -> StepOutcome:
    """Train on a probe: rewards rise."""
    case = {"device": setting.device, "updates": setting.updates, "group_size": 32}
    (figures,) = setting.compare([Variant("training on a probe", FILE, "probe", case)])
    gain: Spread = figures.spread(lambda trial: trial.figures["last"] - trial.figures["first"])
    goal = Goal("probe: rise of the mean reward", "", at_least=0.2)
    return StepOutcome([[figures]], [Judgement(goal, gain)])


def devices(setting: GpuSettings) -> StepOutcome:
    """Compare two policies on two devices with both on one."""
    if setting.devices < 2:
        raise Skipped(
            f"needs two GPUs, and there {'is' if setting.devices == 1 else 'are'} {setting.devices}"
        )
    size = setting.fitting(LEARNING_BYTES)[0]
    case = {**setting.case(size), "tasks": _tasks()}
    variants = [
        Variant(f"policies on {name}, {size}", FILE, "two_policies", {**case, "devices": places})
        for name, places in (("two GPUs", ["cuda:0", "cuda:1"]), ("one GPU", ["cuda:0", "cuda:0"]))
    ]
    two, single = section = setting.compare(variants)
    return StepOutcome([section], [speed(Goal("devices: two GPUs against one"), two, single)])


STEPS: dict[str, Callable[[GpuSettings], StepOutcome]] = {
    "gradients": gradients,
    "probe": probe,
    "synchronizations": synchronizations,
    "equal_bytes": equal_bytes,
    "sampling": sampling,
    "learning": learning,
    "update": update,
    "trl": trl,
    "devices": devices,
}
"""All steps, the most important first."""


def failures(outcomes: Mapping[str, StepOutcome | str]) -> Iterator[str]:
    """Yield a line for each step without figures."""
    for name, outcome in outcomes.items():
        if isinstance(outcome, str):
            yield f"{name}: {outcome}"
