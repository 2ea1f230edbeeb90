"""Runs that differ by their seed alone, as one experiment."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt
from omegaconf import OmegaConf

from llm_decpomdp.benchmarks.runs.results import Results, Row

OF_A_RUN = ("seed", "output")
"""Keys of a configuration in which runs of one experiment may differ."""

NAMED_KEYS = 3
"""Most keys of its configuration in the name of an experiment."""

LONGEST = 20
"""Characters of a line in the head of a column; longer ones are cut in their middle."""


@dataclass(frozen=True)
class Series:
    """One number of several runs over the updates that all of them have."""

    updates: list[int]
    values: npt.NDArray[np.float64]
    """(runs, updates)"""


@dataclass(frozen=True)
class Column:
    """One evaluation of an experiment, task by task."""

    experiment: str
    """Its name; empty where there is no other."""
    lines: tuple[str, ...]
    """The name as in `headings`."""
    title: str
    update: int
    rewards: dict[str, float]
    """Mean over the seeds, by task."""


@dataclass(frozen=True)
class Experiment:
    """The runs of one configuration, each with a seed of its own."""

    name: str
    runs: tuple[Results, ...]

    @property
    def trained(self) -> bool:
        """True if updates were made, unlike in the folder of an evaluation."""
        return any(run.train for run in self.runs)

    def rows(self, kind: str) -> list[Row]:
        """Return the metrics of all runs, of a kind: `train` or `eval`."""
        return [row for run in self.runs for row in run.rows(kind)]

    def series(self, kind: str, key: str) -> Series:
        """Return a key of the metrics over the updates that all runs have, of a kind: `train` or `eval`."""
        runs = [{r["update"]: r[key] for r in run.rows(kind) if key in r} for run in self.runs]
        updates = sorted(set.intersection(*map(set, runs)))
        return Series(updates, np.array([[run[u] for u in updates] for run in runs], dtype=float))


def experiments(runs: Sequence[Results]) -> list[Experiment]:
    """Put runs together whose configurations are equal but for the seed and the output.

    A run that repeats the seed of another one is no further seed, so it belongs to another experiment. Several
    experiments are named by the keys in which they differ, and evaluations and a single training by their folder.
    """
    groups: dict[tuple[str, int], list[Results]] = {}
    settings: dict[tuple[str, int], dict[str, Any]] = {}
    times: Counter[tuple[str, Any]] = Counter()
    for run in runs:
        flat = _settings(run)
        text = json.dumps(flat, sort_keys=True, default=str)
        seed = run.manifest.get("seed")
        key = text, times[text, seed]
        times[text, seed] += 1
        groups.setdefault(key, []).append(run)
        settings[key] = flat
    names = _names([groups[key][0] for key in groups], list(settings.values()))
    return [
        Experiment(name, tuple(of_group))
        for name, of_group in zip(names, groups.values(), strict=True)
    ]


def headings(experiments: Sequence[Experiment]) -> dict[str, tuple[str, ...]]:
    """Return the names of experiments as lines that fit above a column, keys without their section.

    Where short ones would be the same, they begin where the names differ.
    """
    names = [experiment.name for experiment in experiments]
    short = {name: _short(name) for name in names}
    if len(set(short.values())) == len(short):
        return short
    letters = zip(*names, strict=False)
    shared = sum(1 for _ in takewhile(lambda of: len(set(of)) == 1, letters))
    return {name: _short(f"…{name[shared:]}") for name in names}


def _short(name: str) -> tuple[str, ...]:
    return tuple(map(_shortened, name.split(", ")))


def _shortened(line: str) -> str:
    line = re.sub(r"^[\w.]+\.(?=\w+=)", "", line)
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]}…{line[1 - half :]}"


def _settings(run: Results) -> dict[str, Any]:
    """Return the configuration of a run, or the identity of an evaluation, as flat keys."""
    if run.config_text:
        tree: Any = OmegaConf.to_container(OmegaConf.create(run.config_text))
        return _flat({key: value for key, value in tree.items() if key not in OF_A_RUN})
    if "identity" not in run.manifest:
        return {"folder": str(run.path)}
    return _flat({key: v for key, v in run.manifest["identity"].items() if key not in OF_A_RUN})


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= (
            _flat(value, f"{prefix}{key}.")
            if isinstance(value, dict)
            else {prefix + str(key): value}
        )
    return flat


def _names(firsts: Sequence[Results], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    trained = [of_one for run, of_one in zip(firsts, settings, strict=True) if run.config_text]
    keys = list(dict.fromkeys(key for of_one in trained for key in of_one))
    differing = [key for key in keys if len({str(of_one.get(key)) for of_one in trained}) > 1]
    names: list[str] = []
    for run, of_one in zip(firsts, settings, strict=True):
        name = run.path.name
        if run.config_text and differing:
            name = ", ".join(f"{key}={of_one.get(key)}" for key in differing[:NAMED_KEYS])
        names.append(name if name not in names else f"{name} ({run.path.name})")
    return names
