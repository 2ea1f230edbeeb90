"""What all steps share: settings, models of random weights, and comparisons that survive a failure."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.models.pretrained import tiny_model
from llm_decpomdp.benchmarks.doctor.memory_plan import TABLE, Shape
from tools.performance.harness.trials import (
    BenchmarkError,
    Goal,
    Judgement,
    Measured,
    Variant,
    compare,
    speed,
)

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


FILE, RUNS = "gpu/trials.py", "gpu/runs.py"

PEAK = "device GB"
"""Figure of a trial: the peak of its device's memory."""


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
    prompts: int = 64
    """Prompts of the evaluation."""
    run_updates: int = 8
    """Updates of whole runs."""

    def fitting(self, bytes_a_weight: int, at_least: int = 1) -> list[str]:
        """List the sizes that fit the device.

        Raises:
            Skipped: If there are fewer than `at_least`.
        """
        if not self.sizes:
            raise Skipped("no model could be written")
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


def on_device(setting: GpuSettings, name: str, size: str, /, **arguments: object) -> Variant:
    """Return a trial of `VARIANTS` (`trials.py`) with a model of a size."""
    case = {**setting.case(size), "device": setting.device, **arguments}
    return Variant(f"{name}, {size}", FILE, "on_device", case)


def race(setting: GpuSettings, races: Iterable[Sequence[Variant]]) -> StepOutcome:
    """Let the variants of each race take turns, and judge the speed of the first against the others.

    Where one fails, the others are measured, and nothing is judged.
    """
    sections: list[Sequence[Measured]] = []
    judgements: list[Judgement] = []
    for variants in races:
        try:
            first, *rivals = section = setting.compare(variants)
        except BenchmarkError:
            outcome = measure_each(setting, variants)
            sections += outcome.sections
            judgements += outcome.judgements
            continue
        sections.append(section)
        for rival in rivals:
            goal = Goal(f"{first.variant.name} against {rival.variant.name}")
            judgements.append(speed(goal, first, rival))
    return StepOutcome(sections, judgements)


def measure_each(setting: GpuSettings, variants: Sequence[Variant]) -> StepOutcome:
    """Measure variants that survive each other; those that fail are judgements with the reason."""
    measured: list[Measured] = []
    judgements: list[Judgement] = []
    for variant in variants:
        try:
            measured += setting.compare([variant])
        except BenchmarkError as error:
            judgements.append(Judgement(Goal(variant.name), None, f"failed: {error}"))
    return StepOutcome([measured], judgements)
