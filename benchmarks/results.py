"""What a run folder says: its rows as they were written, and the team before and after training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from llm_decpomdp.storage import RunFolder, read_json_lines

Row = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """The contents of a run folder that a report needs; files that are missing read as empty."""

    manifest: Row
    config_text: str
    train: tuple[Row, ...]
    """The rows of `metrics.jsonl` of the updates."""
    evaluations: tuple[Row, ...]
    """The rows of `metrics.jsonl` of the evaluations."""
    episodes: Mapping[tuple[str, int], tuple[Row, ...]]
    """The rows of `episodes.jsonl` of the first and last update and evaluation, by phase and update."""
    trained_tasks: frozenset[str]
    """Every task that was trained on."""

    def rows(self, kind: str) -> tuple[Row, ...]:
        """The metrics of a kind: `train` or `eval`."""
        return self.train if kind == "train" else self.evaluations

    def ends(self, kind: str) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        """The episodes of the first and of the last row of a kind; empty where there are not two."""
        rows = self.rows(kind)
        if len(rows) < 2:
            return (), ()
        first, last = rows[0]["update"], rows[-1]["update"]
        return self.episodes.get((kind, first), ()), self.episodes.get((kind, last), ())


def read_results(folder: RunFolder) -> Results:
    """Read a run folder.

    Raises:
        ValueError: If nothing was measured in it yet.
    """
    metrics = list(read_json_lines(folder.metrics))
    if not metrics:
        raise ValueError(f"{folder.metrics} has no rows: train first, then write the report")
    kinds = {
        kind: tuple(row for row in metrics if row["kind"] == kind) for kind in ("train", "eval")
    }
    wanted = {(k, rows[i]["update"]) for k, rows in kinds.items() if rows for i in (0, -1)}
    episodes: dict[tuple[str, int], list[Row]] = {key: [] for key in wanted}
    trained = set()
    for row in read_json_lines(folder.episodes):
        if row["phase"] == "train":
            trained.add(task_name(row))
        if (key := (row["phase"], row["update"])) in episodes:
            episodes[key].append(row)
    return Results(
        manifest=folder.read_manifest() if folder.manifest.exists() else {},
        config_text=folder.config.read_text(encoding="utf-8") if folder.config.exists() else "",
        train=kinds["train"],
        evaluations=kinds["eval"],
        episodes={key: tuple(rows) for key, rows in episodes.items()},
        trained_tasks=frozenset(trained),
    )


def task_name(episode: Row) -> str:
    """The task of an episode: its id, or else the seed that decided it."""
    final, start = episode["final"] or {}, episode["start"]
    return str(final.get("task_id") or start["task_id"] or f"seed {start['seed']}")


def episode_reward(episode: Row) -> float:
    """Mean reward over the turns of an episode, and over the joint samples of each turn."""
    return fmean(fmean(turn["rewards"]) for turn in episode["groups"])


@dataclass(frozen=True)
class Pair:
    """One task, played before and after training."""

    task: str
    before: Row
    after: Row

    @property
    def gain(self) -> float:
        """Mean reward after minus before."""
        return episode_reward(self.after) - episode_reward(self.before)


def pairs(results: Results) -> list[Pair]:
    """The tasks of the first and last evaluation, if both played the same ones, by falling gain."""
    before, after = results.ends("eval")
    if [task_name(row) for row in before] != [task_name(row) for row in after]:
        return []
    found = [Pair(task_name(b), b, a) for b, a in zip(before, after, strict=True)]
    return sorted(found, key=lambda pair: -pair.gain)


ENOUGH_EPISODES = 6
"""With fewer, even a gain on every task is not rarer than 1 in 20 without learning (two-sided sign test)."""


@dataclass(frozen=True)
class Change:
    """A difference of two means, and how far chance in tasks and samples would move it."""

    difference: float
    standard_error: float | None
    """`None` where a mean rests on a single episode."""
    paired: bool
    """Whether the standard error is that of the differences task by task."""
    episodes: int
    """How many episodes each mean rests on."""

    @property
    def clear(self) -> bool:
        """Whether enough episodes show a difference of more than twice its standard error."""
        if self.standard_error is None or self.episodes < ENOUGH_EPISODES:
            return False
        return abs(self.difference) > 2 * self.standard_error


def change(results: Results) -> Change:
    """From the first to the last evaluation, of which there must be two."""
    before, after = results.evaluations[0], results.evaluations[-1]
    gains = [pair.gain for pair in pairs(results)]
    if len(gains) > 1:
        error = stdev(gains) / math.sqrt(len(gains))
        return Change(fmean(gains), error, paired=True, episodes=len(gains))
    difference = after["reward_mean"] - before["reward_mean"]
    errors = before["reward_standard_error"], after["reward_standard_error"]
    both = None if None in errors else math.hypot(*errors)
    return Change(difference, both, paired=False, episodes=min(before["n"], after["n"]))


def data_sets(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Row]]:
    """The descriptions of data anywhere in a manifest, each with the name that it stands under."""
    for key, value in manifest.items():
        if isinstance(value, dict) and "fingerprint" in value:
            yield key, value
        elif isinstance(value, dict):
            yield from data_sets(value)


def component_names(rows: tuple[Row, ...]) -> tuple[list[str], list[str]]:
    """The components of the reward that ever counted and those that never did, in the environment's order."""
    keys = [key for key in rows[0] if key.startswith("reward/")]
    counted = [key for key in keys if any(row[key] for row in rows)]
    silent = [key for key in keys if key not in counted]
    return [k.removeprefix("reward/") for k in counted], [k.removeprefix("reward/") for k in silent]
