"""The files of checkpoints: the state that a run continues from, and its best policies.

A checkpoint is a folder with `counters.json` and `state.pt`. It gets its name once both are on the disk, so a
folder with the name of a checkpoint is complete unless the disk damages it.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import TrainerOptions
from llm_decpomdp.options import former_names
from llm_decpomdp.policy import Team

logger = logging.getLogger(__name__)

# Keys of nested counters that checkpoints of earlier versions lack, with the values that these versions had.
ADDED_KEYS: Mapping[str, Mapping[str, Any]] = {
    "warm_start": {"samples": 8, "rounds": 1, "min_reward": None, "disjoint": False}
}

RENAMED_KEYS = {
    "starts_per_bundle": "rollout_batch_size",
    **former_names(TrainerOptions),
    **former_names(LearnerOptions),
}
"""Keys of the counters in checkpoints of earlier versions, and their present names."""

NAME = re.compile(r"(update|best)-(\d{6,})(?:\.\d{6,})?")


def save(
    folder: Path, counters: Mapping[str, Any], state: Mapping[str, Any], keep: int = 2
) -> Path:
    """Write `folder/update-<n>/`, or `update-<n>.<m>/` within a warm start; keep the `keep` newest of them.

    Args:
        folder: The run's `checkpoints/`; it is made where it is missing.
        counters: JSON-able numbers and names; `counters["update"]` is n, and the optional `counters["lessons"]` m.
        state: Tensors, numbers, strings and containers of them.
        keep: Number of checkpoints to keep, at least 1.
    """
    target = _path(folder, "update", counters)
    # An existing one is equal: the state after an update is a function of the run.
    if not target.exists():
        _write(target, counters, state)
    for old in _all(folder, "update")[:-keep]:
        _remove(old)
    return target


def save_best(folder: Path, counters: Mapping[str, Any], state: Mapping[str, Any]) -> Path:
    """Write `folder/best-<n>/` in place of any other that is best so far; arguments as in `save`.

    `counters["reward_mean"]` says how good it is.
    """
    target = _path(folder, "best", counters)
    if target.exists():
        _remove(target)
    # The new one is written before the old one is removed, so that one is always complete.
    _write(target, counters, state)
    for path in _all(folder, "best"):
        if path != target:
            _remove(path)
    return target


def load(checkpoint: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Load the counters and the state of a checkpoint; tensors are on the CPU."""
    import torch

    # `weights_only`: a checkpoint of somebody else must not run code.
    state = torch.load(checkpoint / "state.pt", map_location="cpu", weights_only=True)
    return read_counters(checkpoint), state


def require_loadable(owner: str, state: Mapping[str, Any]) -> None:
    """Raise a `TypeError` if a state holds objects that `load` would refuse, such as numbers of numpy."""
    import torch

    file = io.BytesIO()
    torch.save(dict(state), file)
    file.seek(0)
    _require_loadable_file(owner, file)


def _require_loadable_file(owner: str, file: Any) -> None:
    from torch.serialization import get_unsafe_globals_in_checkpoint

    if types := get_unsafe_globals_in_checkpoint(file):
        raise TypeError(
            f"state_dict() of {owner} has objects of {', '.join(sorted(types))}, which cannot be loaded from a "
            "checkpoint: return tensors, numbers, texts, and lists and dictionaries of them, such as float(value) "
            "and values.tolist()"
        )


def restore_policies(team: Team, checkpoint: Path) -> None:
    """Give the policies of a team that can be trained the weights of a checkpoint.

    Raises:
        ValueError: If the checkpoint has other policies.
    """
    from llm_decpomdp.algorithms.learning.base_learner import trainable_policies

    _, state = load(checkpoint)
    policies = trainable_policies(team)
    if set(policies) != set(state["policies"]):
        raise ValueError(
            f"{checkpoint} has the policies {', '.join(state['policies'])}, and the configuration has "
            f"{', '.join(policies)}"
        )
    for name, policy in policies.items():
        policy.load_state_dict(state["policies"][name])


def read_counters(checkpoint: Path) -> dict[str, Any]:
    """Read the counters alone."""
    counters: dict[str, Any] = json.loads((checkpoint / "counters.json").read_text("utf-8"))
    return counters


def translate_counters(counters: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the counters of a checkpoint of an earlier version to the present keys."""
    added = {key: {**new, **counters[key]} for key, new in ADDED_KEYS.items() if key in counters}
    renamed = {RENAMED_KEYS.get(key, key): value for key, value in counters.items()}
    return {**renamed, **added}


def latest(folder: Path) -> Path | None:
    """Find the newest complete checkpoint of `save` in `folder`, if there is one; warn of damaged newer ones."""
    for path in reversed(_all(folder, "update")):
        problem = damage(path)
        if problem is None:
            return path
        logger.warning(
            "the checkpoint %s is damaged (%s): the previous checkpoint is used", path, problem
        )
    return None


def set_damaged_aside(folder: Path) -> None:
    """Rename damaged checkpoints that are newer than the newest complete one, so that updates can be saved again.

    Only the process that writes to the run may do so.
    """
    for path in reversed(_all(folder, "update")):
        problem = damage(path)
        if problem is None:
            return
        aside = path.with_name(f"damaged-{path.name}")
        if aside.exists():
            shutil.rmtree(aside)
        path.rename(aside)
        logger.warning(
            "the checkpoint %s is damaged (%s): it is renamed to %s", path, problem, aside.name
        )


def damage(checkpoint: Path, checksums: bool = True) -> str | None:
    """Describe the damage of a checkpoint; `None` if it is complete. `checksums` reads the whole file."""
    try:
        counters = read_counters(checkpoint)
        if not isinstance(counters, dict) or "update" not in counters:
            return "counters.json: no counters"
        # `torch.save` writes a zip archive, whose checksums `torch.load` does not compare.
        with zipfile.ZipFile(checkpoint / "state.pt") as archive:
            part = archive.testzip() if checksums else None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        return f"{type(error).__name__}: {error}"
    return None if part is None else f"state.pt: wrong checksum of {part}"


def best(folder: Path) -> Path | None:
    """Find the complete checkpoint of `save_best` in `folder`, if there is one."""
    paths = []  # several if a process was killed between the two steps of `save_best`
    for path in _all(folder, "best"):
        problem = damage(path, checksums=False)
        if problem is None:
            paths.append(path)
        else:
            logger.warning("the checkpoint %s is damaged (%s) and is ignored", path, problem)
    return max(paths, key=lambda path: read_counters(path)["reward_mean"], default=None)


def _path(folder: Path, kind: str, counters: Mapping[str, Any]) -> Path:
    lessons = counters.get("lessons", 0) if kind == "update" else 0
    return folder / (f"{kind}-{counters['update']:06d}" + (f".{lessons:06d}" if lessons else ""))


def _all(folder: Path, kind: str) -> list[Path]:
    """List the checkpoints of a kind, oldest first."""
    names = ((NAME.fullmatch(path.name), path) for path in folder.glob("*"))
    # Of equal updates the path decides: the steps of a warm start have leading zeros.
    numbered = sorted((int(name[2]), path) for name, path in names if name and name[1] == kind)
    return [path for _, path in numbered]


def _write(target: Path, counters: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    import torch

    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("update", "best", "old"):
        for unfinished in folder.glob(f".{kind}-*"):  # of a process that was killed
            shutil.rmtree(unfinished)
    temporary = folder / f".{target.name}"
    temporary.mkdir()
    try:
        with (temporary / "state.pt").open("wb") as file:
            torch.save(dict(state), file)
            _to_disk(file)
        _require_loadable_file("a policy or a callback", temporary / "state.pt")
        with (temporary / "counters.json").open("w", encoding="utf-8") as text:
            text.write(json.dumps(counters, indent=2, sort_keys=True) + "\n")
            _to_disk(text)
        temporary.rename(target)  # atomic, on one file system
    except (OSError, RuntimeError) as error:  # of a full disk torch makes a RuntimeError
        shutil.rmtree(temporary, ignore_errors=True)
        raise OSError(f"cannot write {target}, perhaps the disk is full: {error}") from error


def _to_disk(file: IO[Any]) -> None:
    """Wait until a file is on the disk, and not in memory that a power cut would empty."""
    file.flush()
    os.fsync(file.fileno())


def _remove(checkpoint: Path) -> None:
    # Renamed first: if the process is killed, half a checkpoint must not have the name of a complete one.
    hidden = checkpoint.rename(checkpoint.with_name(f".old-{checkpoint.name}"))
    shutil.rmtree(hidden)
