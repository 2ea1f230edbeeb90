"""Trials that are whole runs of the command line, in processes of their own (see `host.py`)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

FIGURES = ("sampling_seconds", "learning_seconds")
AGES = ("lag", "older_tokens", "mixed_completions")

SHARED: Mapping[str, Any] = {
    "algorithm.train_batch_size": 4,
    "algorithm.rollout.rollout_batch_size": 1,
    "cluster.rollout_workers": 2,
    "evaluation.num_tasks": 0,
    "output.save_final_model": False,
}
"""Options of all runs: four prompts of an update, and two workers."""

LAG: Mapping[str, Any] = {
    "algorithm.rollout.max_async_level": 2,
    "algorithm.importance_sampling.mode": "truncate",
}


def run(
    model: str,
    device: str,
    dtype: str,
    group_size: int,
    new_tokens: int,
    updates: int,
    options: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Train `demo_tldr` for some updates, and tell their time, and means of metrics after the first two.

    Args:
        model: Folder of the model.
        device: Where it learns.
        dtype: Number format of its computations.
        group_size: Completions of a prompt (G).
        new_tokens: Most tokens of a completion.
        updates: Number of updates, at least 3.
        options: Further keys of the configuration.
    """
    yield {"units": 1}
    with TemporaryDirectory() as folder:
        target = Path(folder, "run")
        values = {
            "model.name": model,
            "model.device": device,
            "model.compute_dtype": dtype,
            "model.max_new_tokens": new_tokens,
            "policies.summarizer.max_new_tokens": new_tokens,
            "algorithm.num_generations": group_size,
            "algorithm.max_updates": updates,
            "output.base_dir": folder,
            **SHARED,
            **options,
        }
        overrides = [f"{key}={json.dumps(value)}" for key, value in values.items()]
        command = ["-m", "llm_decpomdp.benchmarks", "train", "--config", "demo_tldr"]
        command += ["--output", str(target), "--override", *overrides]
        process = subprocess.run([sys.executable, *command], cwd=ROOT)
        if process.returncode:
            raise RuntimeError(f"the run ended with code {process.returncode}")
        lines = Path(target, "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "train"]
    # Without the time in which the run starts.
    seconds = sum(row["tokens"] / row["tokens_per_second"] for row in rows)
    yield {
        "units": sum(row["tokens"] for row in rows),
        "parts": {"updates": seconds},
        "figures": figures(rows[2:]),
    }


def figures(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the means of the metrics of updates that are compared."""
    names = [name for name in (*FIGURES, *AGES) if any(name in row for row in rows)]
    names += sorted({name for row in rows for name in row if name.startswith("mismatch/")})
    return {name: mean(row[name] for row in rows if name in row) for name in names}


def shards(
    device: str, dtype: str, processes: int, hidden: int, layers: int
) -> Iterator[dict[str, Any]]:
    """Share a random model between processes, and tell peaks of memory in GB, of one process and of each."""
    yield {"units": 1}
    words = ["--device", device, "--dtype", dtype, "--processes", str(processes)]
    words += ["--hidden", str(hidden), "--layers", str(layers), "--json"]
    process = subprocess.run(
        [sys.executable, "-m", "tools.performance.models.shards", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.returncode:
        raise RuntimeError(f"the processes ended with code {process.returncode}")
    yield {"units": 1, "figures": json.loads(process.stdout.splitlines()[-1])}
