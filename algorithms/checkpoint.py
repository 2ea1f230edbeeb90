"""Checkpoints: what a run continues from, written so that there is always a whole one."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

NAME = re.compile(r"update-(\d{6,})")


def save(
    folder: Path, counters: Mapping[str, Any], state: Mapping[str, Any], keep: int = 2
) -> Path:
    """Write `folder/update-<n>/`, then remove all but the `keep` newest checkpoints.

    A checkpoint of the same update that is already there stays as it is: a run's state after an
    update is a function of the run.

    Args:
        folder: The run's `checkpoints/`; it is made where it is missing.
        counters: JSON-able numbers and names; `counters["update"]` is n.
        state: Tensors, numbers, strings and containers of them.
        keep: Number of checkpoints to keep, at least 1.

    Returns:
        The checkpoint's folder.
    """
    target = folder / f"update-{counters['update']:06d}"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{target.name}.{os.getpid()}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        torch.save(dict(state), temporary / "state.pt")
        text = json.dumps(counters, indent=2, sort_keys=True) + "\n"
        (temporary / "counters.json").write_text(text, encoding="utf-8")
        temporary.rename(target)
    for old in _all(folder)[:-keep]:
        shutil.rmtree(old)
    return target


def load(checkpoint: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The counters and the state of a checkpoint; tensors are on the CPU."""
    counters: dict[str, Any] = json.loads((checkpoint / "counters.json").read_text("utf-8"))
    state = torch.load(checkpoint / "state.pt", map_location="cpu", weights_only=True)
    return counters, state


def latest(folder: Path) -> Path | None:
    """The newest checkpoint in `folder`, or `None`."""
    found = _all(folder)
    return found[-1] if found else None


def _all(folder: Path) -> list[Path]:
    """The checkpoints, oldest first."""
    found = [(int(m[1]), path) for path in folder.glob("*") if (m := NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]
