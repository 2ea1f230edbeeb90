"""The results in the folder of a run or an evaluation: its metrics, and every rollout as a score."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from sys import intern
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.utils.storage import RunFolder, numbered_rows, read_json_lines

logger = logging.getLogger(__name__)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Score:
    """A row of `episodes.jsonl` in numbers; means are over joint samples, groups, then turns.

    Where the rewards of an episode sum to its score, `reward` and `points` are sums over the turns.
    """

    phase: str
    update: int
    task: str
    reward: float
    solved: float | None
    """Share of solved joint samples; `None` where the environment does not tell."""
    points: Mapping[str, float]
    """Mean points of each component of the reward."""
    earned: Mapping[str, float]
    """Share of joint samples in which a component is not zero."""
    turns: tuple[float, ...]
    characters: Mapping[str, float]
    """Mean length of each agent's completions."""
    line: int
    outcomes: tuple[bool, ...] = ()
    """The tests of the last turn, True for passed; empty where the environment has none."""
    sequential_tokens: float | None = None
    """Tokens that were sampled one after the other; `None` where they were not counted."""

    @property
    def tests_passed(self) -> float | None:
        """Share of the tests of the last turn that pass; `None` where the environment has none."""
        return fmean(self.outcomes) if self.outcomes else None


@dataclass(frozen=True)
class Results:
    """The contents of a folder that a report needs; missing files read as empty."""

    path: Path
    manifest: Row
    config_text: str
    train: tuple[Row, ...]
    """The rows of `metrics.jsonl` of the updates."""
    evaluations: tuple[Row, ...]
    """The rows of `metrics.jsonl` of the evaluations."""
    scores: tuple[Score, ...]
    lessons: tuple[Row, ...] = ()
    """The rows of `metrics.jsonl` of the steps of a warm start."""
    untrained: tuple[Row, ...] = ()
    """The row of `metrics.jsonl` of the evaluation before a warm start."""

    def rows(self, kind: str) -> tuple[Row, ...]:
        """Return the metrics of a kind: `train` or `eval`."""
        return self.train if kind == "train" else self.evaluations

    def select_scores(self, kind: str, update: int) -> list[Score]:
        """Return the scores of one update or evaluation."""
        return [score for score in self.scores if (score.phase, score.update) == (kind, update)]

    def ends(self, kind: str) -> tuple[list[Score], list[Score]]:
        """Return the scores of the first and of the last row of a kind; empty where there are not two."""
        rows = self.rows(kind)
        if len(rows) < 2:
            return [], []
        return (
            self.select_scores(kind, rows[0]["update"]),
            self.select_scores(kind, rows[-1]["update"]),
        )

    @property
    def trained_tasks(self) -> frozenset[str]:
        """Every task that was trained on."""
        return frozenset(score.task for score in self.scores if score.phase == "train")


def read_results(folder: RunFolder) -> Results:
    """Read a run folder, or an evaluation folder, which has episodes and no metrics.

    Raises:
        ValueError: If nothing was measured in it yet.
    """
    # Rows of JSON have keys of their own, which would need more memory than the numbers.
    metrics = [
        {intern(key): value for key, value in row.items()}
        for row in read_json_lines(folder.metrics)
    ]
    manifest = folder.read_manifest() if folder.manifest.exists() else {}
    cumulative = is_cumulative(manifest)
    scores = tuple(
        _make_score(line, _with_groups(folder.episodes, line, row), cumulative)
        for line, row in unique_rows(folder.episodes)
    )
    if not metrics and not scores:
        raise ValueError(f"{folder.metrics} has no rows: train first, then write the report")
    train, evaluations, steps, untrained = (
        tuple(row for row in metrics if row["kind"] == kind)
        for kind in ("train", "eval", "warm_start", "untrained")
    )
    if cumulative:
        episodes: dict[tuple[str, int], list[Score]] = {}
        for score in scores:
            episodes.setdefault((score.phase, score.update), []).append(score)
        train, evaluations = (
            tuple(_with_sums(row, episodes.get((row["kind"], row["update"]), ())) for row in rows)
            for rows in (train, evaluations)
        )
    return Results(
        path=folder.path,
        manifest=manifest,
        config_text=folder.config.read_text(encoding="utf-8") if folder.config.exists() else "",
        train=train,
        evaluations=evaluations if metrics else _make_evaluation_rows(scores),
        scores=scores,
        lessons=steps,
        untrained=untrained,
    )


def is_cumulative(manifest: Row) -> bool:
    """Check whether the rewards of an episode sum to its score."""
    return bool(manifest.get("description", {}).get("reward", {}).get("cumulative"))


def _with_sums(row: Row, scores: Sequence[Score]) -> Row:
    """Return a row of metrics whose rewards are means of the scores of its episodes, where they are stored."""
    if not scores:
        return row
    points = {f"reward/{name}": fmean(s.points[name] for s in scores) for name in scores[0].points}
    return {**row, "reward_mean": fmean(score.reward for score in scores), **points}


def _make_score(line: int, row: Row, cumulative: bool = False) -> Score:
    groups = row["groups"]
    infos = groups[0]["infos"][0] if groups[0]["infos"] else {}
    names = [intern(key.removeprefix("reward/")) for key in infos if key.startswith("reward/")]

    def values(key: str, of: type = float) -> Callable[[Row], Sequence[float]]:
        return lambda group: [of(info[key]) for info in group["infos"]]

    over_turns = sum_of_episode if cumulative else _mean_over_turns

    turns = range(1 + groups[-1]["turn"])
    rewards = [[fmean(g["rewards"]) for g in groups if g["turn"] == turn] for turn in turns]
    return Score(
        phase=intern(row["phase"]),
        update=row["update"],
        task=intern(task_name(row)),
        reward=over_turns(groups, get_rewards),
        solved=_mean_over_turns(groups, values("solved")) if "solved" in infos else None,
        points={name: over_turns(groups, values(f"reward/{name}")) for name in names},
        earned={name: _mean_over_turns(groups, values(f"reward/{name}", bool)) for name in names},
        turns=tuple(map(fmean, rewards)),
        characters={agent: fmean(map(len, texts)) for agent, texts in _completions(groups).items()},
        line=line,
        outcomes=_last_tests(row),
        sequential_tokens=sequential_tokens(row.get("tokens", ())),
    )


def sequential_tokens(turns: Sequence[Mapping[str, int | None]]) -> float | None:
    """Return the number of tokens that must be sampled one after the other; `None` where one is not counted.

    Agents that act in the same turn write at the same time, so that the longest answer decides. Agents that act in
    order have turns of their own.

    Args:
        turns: The number of tokens of each agent, by turn.
    """
    counts = [[*turn.values()] for turn in turns]
    if not counts or any(None in turn for turn in counts):
        return None
    return float(sum(max(map(int, filter(None, turn)), default=0) for turn in counts))


def _last_tests(row: Row) -> tuple[bool, ...]:
    turns = (row["final"] or {}).get("turns") or [{}]
    details = turns[-1].get("verdict", {}).get("details", {})
    return tuple(bool(test["passed"]) for test in details.get("tests", ()))


def _completions(groups: Sequence[Row]) -> dict[str, list[str]]:
    by_agent: dict[str, list[str]] = {}
    for group in groups:
        for agent, texts in group["completions"].items():
            by_agent.setdefault(intern(agent), []).extend(texts)
    return by_agent


def _mean_over_turns(groups: Sequence[Row], of: Callable[[Row], Sequence[float]]) -> float:
    """Compute the mean over the joint samples of a group, then over the groups of a turn, then over the turns."""
    turns: dict[int, list[float]] = {}
    for group in groups:
        turns.setdefault(group["turn"], []).append(fmean(of(group)))
    return fmean(map(fmean, turns.values()))


def get_rewards(group: Row) -> Sequence[float]:
    """Return the rewards of a group's joint samples."""
    rewards: Sequence[float] = group["rewards"]
    return rewards


def sum_of_episode(
    groups: Sequence[Row], of: Callable[[Row], Sequence[float]] = get_rewards
) -> float:
    """Compute the mean sum over the turns of the episodes of a rollout.

    The joint samples of a group go on in groups of their own. In a chain a single one goes on, and stands for all.
    """
    sums = [fmean(of(group)) for group in groups]
    for number in reversed(range(len(groups))):  # a group comes after that of the turn before
        if parent := groups[number]["parent"]:
            before = groups[parent["group"]]
            # Where all samples go on, each has a group, and the sums of these groups are averaged.
            share = len(before["rewards"]) if before["chosen"] is None else 1
            sums[parent["group"]] += sums[number] / share
    return sums[0]


def make_episode_key(row: Mapping[str, Any]) -> tuple[int, tuple[Any, Any]]:
    """Identify an episode of an evaluation by the number of its sample and by its start."""
    return row["sample"], make_start_key(row["start"])


def make_start_key(start: Mapping[str, Any]) -> tuple[Any, Any]:
    """Identify a start."""
    return start["seed"], start["task_id"]


def unique_rows(path: Path, lines: Container[int] | None = None) -> Iterator[tuple[int, Row]]:
    """Yield the rows of an `episodes.jsonl` with their line numbers; for an evaluation one row for each episode.

    Rows that repeat an episode, which a second process has written, are left out with a warning.

    Raises:
        DamagedFile: If a line is no row.
    """
    places: set[Any] = set()
    repeats = 0
    for line, row in numbered_rows(path, lines=lines):
        if "sample" in row:
            place = make_episode_key(row)
            if place in places:
                repeats += 1
                continue
            places.add(place)
        yield line, row
    if repeats and path not in _repeating:  # a report reads the file several times
        _repeating.add(path)
        logger.warning("%s: %d rows repeat an episode and are left out", path, repeats)


_repeating: set[Path] = set()
"""Files whose repeated rows a warning has counted."""


def stored_rows(path: Path, lines: Container[int] | None = None) -> Iterator[tuple[int, Row]]:
    """Read the rows of an `episodes.jsonl`, each with its line, counted from 1.

    Args:
        path: The file.
        lines: The lines that are read; all if `None`.

    Raises:
        ConfigError: If a row has no groups, or verdicts no details, as in early versions.
    """
    for line, row in unique_rows(path, lines):
        turns = (_with_groups(path, line, row)["final"] or {}).get("turns", ())
        if any("details" not in turn["verdict"] for turn in turns):
            raise ConfigError(
                f"{path}: line {line} has verdicts without details, as of an early version; train again"
            )
        yield line, row


def _with_groups(path: Path, line: int, row: Row) -> Row:
    """Return a row; raise a `ConfigError` if it has no groups."""
    if "groups" not in row:
        raise ConfigError(f"{path}: line {line} has no groups, as of an early version; train again")
    return row


def task_name(episode: Row) -> str:
    """Name the task of an episode: its id, or else its seed."""
    final, start = episode["final"] or {}, episode["start"]
    return str(final.get("task_id") or start["task_id"] or f"seed {start['seed']}")


def get_reward(score: Score) -> float:
    """Return the reward."""
    return score.reward


def compute_task_means(
    scores: Iterable[Score], value: Callable[[Score], float] = get_reward
) -> dict[str, float]:
    """Compute the mean reward, or another value, of each task, in the order in which they were played."""
    tasks: dict[str, list[float]] = {}
    for score in scores:
        tasks.setdefault(score.task, []).append(value(score))
    return {task: fmean(values) for task, values in tasks.items()}


def _make_evaluation_rows(scores: Sequence[Score]) -> tuple[Row, ...]:
    """Build rows of evaluations, as in `metrics.jsonl`, for a folder that has only episodes."""
    rows = []
    for update in sorted({score.update for score in scores if score.phase == "eval"}):
        evaluated = [score for score in scores if (score.phase, score.update) == ("eval", update)]
        # Tasks are the units of the standard error, as samples of one task are not independent.
        means = list(compute_task_means(evaluated).values())
        error = stdev(means) / math.sqrt(len(means)) if len(means) > 1 else None
        row: Row = {"update": update, "kind": "eval", "n": len(evaluated)}
        row |= {"reward_mean": fmean(means), "reward_standard_error": error}
        if all(score.solved is not None for score in evaluated):
            row["solved"] = fmean(score.solved or 0.0 for score in evaluated)
        row |= {f"reward/{k}": fmean(s.points[k] for s in evaluated) for k in evaluated[0].points}
        rows.append(row)
    return tuple(rows)


@dataclass(frozen=True)
class TaskGain:
    """The mean reward of one task, played before and after training."""

    task: str
    before: float
    after: float

    @property
    def gain(self) -> float:
        """After minus before."""
        return self.after - self.before


def pairs(results: Results) -> list[TaskGain]:
    """Pair the tasks of the first and last evaluation, if both played the same ones, by falling gain."""
    before, after = map(compute_task_means, results.ends("eval"))
    if before.keys() != after.keys():
        return []
    tasks = [TaskGain(task, before[task], after[task]) for task in before]
    return sorted(tasks, key=lambda pair: -pair.gain)


def data_sets(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Row]]:
    """Find the descriptions of data anywhere in a manifest, each with its key."""
    for key, value in manifest.items():
        if isinstance(value, dict) and "fingerprint" in value:
            yield key, value
        elif isinstance(value, dict):
            yield from data_sets(value)


def component_names(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Split the components of the reward into those ever nonzero and others, in the environment's order."""
    keys = list(dict.fromkeys(key for row in rows for key in row if key.startswith("reward/")))
    nonzero = [key for key in keys if any(row.get(key) for row in rows)]
    zero = [key for key in keys if key not in nonzero]
    return [k.removeprefix("reward/") for k in nonzero], [k.removeprefix("reward/") for k in zero]
