"""Relative paths: those of a file start at its folder, those of a command line at the current one.

They are absolute from then on, so that a stored run is found from anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.models.local_models import LOCAL_MODELS
from llm_decpomdp.algorithms.learning.preference_options import CURRENT, HISTORY
from llm_decpomdp.envs.datasets.loading import ENDINGS

DATA_KEYS = (
    "dataset.source",
    "dataset.train_source",
    "dataset.eval_source",
    "warm_start.source",
    "algorithm.preferences.source",
    "algorithm.reward_model.path",
)

OPPONENT = "algorithm.preferences.opponent"

PREFIXES = ("./", "../", "~/", "/")
"""Beginnings of texts that only paths have."""


def placed(layer: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the dotted keys of a layer, with absolute paths.

    Args:
        layer: Keys and values of a configuration.
        folder: The start of relative paths.
    """
    values = dict(layer)
    for key in DATA_KEYS:
        if key in values:
            values[key] = data_place(values[key], folder)
    opponent = values.get(OPPONENT, CURRENT)
    if opponent not in (CURRENT, HISTORY):
        values[OPPONENT] = _place(opponent, folder, Path.is_dir)
    if "model.name" in values:
        values["model.name"] = model_place(values["model.name"], folder)
    if isinstance(policies := values.get("policies"), dict):
        values["policies"] = type(policies)(
            {name: _policy(spec, folder) for name, spec in policies.items()}
        )
    return values


def _policy(spec: Any, folder: Path) -> Any:
    if not isinstance(spec, dict) or "name" not in spec or spec.get("kind", "model") != "model":
        return spec
    return type(spec)({**spec, "name": model_place(spec["name"], folder)})


def data_place(source: Any, folder: Path) -> Any:
    """Return a source of problems: the absolute path of a file, or any other as it is."""
    return _place(source, folder, lambda path: path.suffix in ENDINGS or path.is_file())


def model_place(name: Any, folder: Path) -> Any:
    """Return a model's name: the absolute path of a folder, or any other as it is."""
    return name if str(name).lower() in LOCAL_MODELS else _place(name, folder, Path.is_dir)


def _place(value: Any, folder: Path, is_path: Callable[[Path], bool]) -> Any:
    if not isinstance(value, str) or "://" in value or "${" in value:
        return value
    path = Path(os.path.abspath(folder / Path(value).expanduser()))
    return str(path) if value.startswith(PREFIXES) or is_path(path) else value
