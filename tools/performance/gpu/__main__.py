"""All that is to be known on a machine with a GPU: `python -m tools.performance.gpu`.

Random weights in real shapes, and no hub. Each step survives the failure of another, and prints its table when it
ends; none begins after `--minutes`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import torch
import typer

from llm_decpomdp.benchmarks.doctor import memory
from tools.performance.gpu.settings import (
    SIZES,
    GpuSettings,
    Skipped,
    StepOutcome,
    write_model,
)
from tools.performance.gpu.steps import CHECKED, STEPS, failures
from tools.performance.harness import trials


def main(
    size: Annotated[list[str], typer.Option(help=f"{', '.join(SIZES)}; give it again.")] = [  # noqa: B006
        "0.5b",
        "1.5b",
    ],
    step: Annotated[
        list[str], typer.Option(help=f"{', '.join(STEPS)}; give it again. By default all.")
    ] = [*STEPS],  # noqa: B006
    device: trials.Device = "cuda",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "bfloat16",
    group_size: Annotated[int, typer.Option(min=2, help="Completions of a group (G).")] = 8,
    rows: Annotated[
        list[int], typer.Option(min=1, help="Completions that are sampled together; give it again.")
    ] = [16, 64],  # noqa: B006
    new_tokens: trials.NewTokens = 256,
    updates: Annotated[int, typer.Option(min=1, help="Updates of the short training.")] = 100,
    rounds: trials.Rounds = 1,
    peers: trials.Peers = None,
    minutes: Annotated[float, typer.Option(min=0, help="No step begins after them.")] = 10.0,
    threads: trials.Threads = None,
    json_file: trials.JsonFile = None,
) -> None:
    """Measure everything on a device, and print ratios."""
    for names, valid in ((size, SIZES), (step, STEPS)):
        for name in names:
            if name not in valid:
                raise SystemExit(f"error: unknown {name}; there are {', '.join(valid)}")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit(
            "error: torch sees no GPU here; --device cpu tries the steps with --size tiny"
        )
    with TemporaryDirectory() as scratch:
        trials.progress("writing models with random weights")
        folders, unwritten = write_models({*size, CHECKED}, Path(scratch), device)
        setting = GpuSettings(
            folders=folders,
            sizes=[name for name in size if name in folders],
            device=device,
            devices=torch.cuda.device_count(),
            gigabytes=_gigabytes(device),
            dtype=dtype,
            group_size=group_size,
            rows=rows,
            new_tokens=new_tokens,
            updates=updates,
            rounds=rounds,
            peers=peers,
            variables=trials.environment(True, threads),
        )
        outcomes = {**unwritten, **measure(setting, step, minutes)}
    complete = [outcome for outcome in outcomes.values() if isinstance(outcome, StepOutcome)]
    report = trials.Report(
        f"on {_about(device)}",
        {"size": ", ".join(size), "dtype": dtype, "G": group_size, "new tokens": new_tokens},
        setting.variables,
        [section for outcome in complete for section in outcome.sections],
        [judgement for outcome in complete for judgement in outcome.judgements],
    )
    header = {**trials.about(), "device": _about(device)}
    trials.show(header, [trials.goal_table(report.judgements)])
    if json_file is not None:
        json_file.write_text(json.dumps(report.content(), indent=1) + "\n", encoding="utf-8")
    lines = list(failures(outcomes))
    print("\n".join(lines))
    if any("failed" in line for line in lines):
        raise SystemExit(1)


def write_models(
    sizes: Collection[str], scratch: Path, device: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Write models; return the folder of each size, and by `model <size>` why one could not be written."""
    folders, unwritten = {}, {}
    for size in sizes:
        try:
            folders[size] = str(write_model(size, scratch, device))
        except (OSError, RuntimeError) as error:  # no room on the disk, or on the device
            unwritten[f"model {size}"] = f"failed: {type(error).__name__}: {error}"
    return folders, unwritten


def measure(
    setting: GpuSettings, steps: Sequence[str], minutes: float
) -> dict[str, StepOutcome | str]:
    """Run steps one after the other; in place of the figures of one that fails or is skipped, say why."""
    begin = time.perf_counter()
    outcomes: dict[str, StepOutcome | str] = {}
    for name in steps:
        if time.perf_counter() - begin > 60 * minutes:
            outcomes[name] = f"skipped: {minutes:g} minutes are over"
            continue
        trials.progress(f"step {name}")
        try:
            outcome = STEPS[name](setting)
            trials.show({}, [trials.table(name, "tokens", outcome.sections)])
            outcomes[name] = outcome
        except Skipped as reason:
            outcomes[name] = f"skipped: {reason}"
        except Exception as error:  # of any kind: the others are to be measured
            outcomes[name] = f"failed: {type(error).__name__}: {error}"
    return outcomes


def _gigabytes(device: str) -> float:
    if device.startswith("cuda"):
        return torch.cuda.get_device_properties(device).total_memory / 1e9
    return memory.total() * memory.GIB / 1e9


def _about(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


if __name__ == "__main__":
    trials.run(main)
