"""Episodes that a run or an evaluation has stored, with the environments that they were played in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import ASKS_OUTSIDE, asks_outside, load_stored_config
from llm_decpomdp.benchmarks.evaluation.baselines import TALKING, baseline_of
from llm_decpomdp.benchmarks.runs.manifest import change_of_data, commit_of, load_envs
from llm_decpomdp.benchmarks.runs.results import Row, stored_rows
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import RunFolder


@dataclass(frozen=True)
class Stored:
    """The episodes of a folder."""

    path: Path
    envs: Mapping[str, DecPOMDPEnv]
    """Environments by phase."""
    data: Mapping[str, Mapping[str, Any]]
    """Descriptions of the data by phase, from the manifest; empty where it has none."""
    known_prompts: bool = True
    """False if the prompts of later turns depend on an expert outside, which is not asked again."""
    talking: bool = False
    """True if prompts may go on after what the environment writes."""

    def rows(self, phases: Collection[str] = ("train", "eval")) -> Iterator[tuple[int, Row]]:
        """Yield the rows of `episodes.jsonl`, each with its line, counted from 1.

        Raises:
            ConfigError: If a row has no groups, as in early versions.
        """
        for line, row in stored_rows(self.path / "episodes.jsonl"):
            if row["phase"] in phases:
                yield line, row

    def changes_of_data(self) -> list[str]:
        """Return known changes of the data since the episodes were played, in words."""
        changes = (
            change_of_data(phase, before, self.envs[phase].metadata["data"])
            for phase, before in self.data.items()
        )
        return [change for change in changes if change is not None]


def stored(folder: Path) -> Stored:
    """Open the stored episodes of a run or an evaluation.

    Raises:
        ConfigError: If there are none, or nothing says which environment they were played in.
        RunError: If the data cannot be loaded.
    """
    if not (folder / "episodes.jsonl").is_file():
        raise ConfigError(f"{folder} holds no episodes.jsonl: name a run or an evaluation")
    place = RunFolder(folder)
    manifest = place.read_manifest() if place.manifest.is_file() else {}
    if manifest.get("kind") == "evaluation":
        return _evaluation(folder, manifest)
    if not place.config.is_file():
        raise ConfigError(
            f"{folder} holds episodes, but neither a run's config.yaml nor an evaluation's manifest.json"
        )
    outside = asks_outside(place.config)
    config = load_stored_config(place.config)
    train, held_out = load_envs(config, manifest.get("data"))
    envs = {"train": train, "eval": held_out}
    return Stored(folder, envs, _data(manifest, envs), known_prompts=not outside)


def _evaluation(folder: Path, manifest: Mapping[str, Any]) -> Stored:
    identity = manifest["identity"]
    options = dict(identity["environment"])
    env_id = options.pop("id")
    if not env_id:
        raise ConfigError(
            f"{folder} evaluates {manifest['environment']}, which no registered id names: register the "
            "environment, or pass it to llm_decpomdp.benchmarks.analysis.replay"
        )
    outside = options.get("external_mode") == ASKS_OUTSIDE
    if outside:
        options["external_mode"] = "plain"
        options = {key: v for key, v in options.items() if not key.startswith("expert_")}
    if source := commit_of(manifest.get("data"), "eval"):
        options["source"] = source
    try:
        envs = {"eval": make(env_id, **options)}
    except (KeyError, TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"{folder}: {error.args[0]}") from None
    talking = baseline_of(identity["about"]) in TALKING
    return Stored(folder, envs, _data(manifest, envs), not outside, talking)


def _data(manifest: Mapping[str, Any], envs: Collection[str]) -> dict[str, Mapping[str, Any]]:
    data = manifest.get("data", {})
    return {phase: data.get(phase, {}) for phase in envs}
