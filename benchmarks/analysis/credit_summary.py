"""The credit of agents over many episodes: means with intervals over tasks, as JSON, as CSV and as tables."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from llm_decpomdp.benchmarks.analysis.credit import Credit, credits
from llm_decpomdp.benchmarks.analysis.replay import (
    Replayed,
    find_differences,
    open_episodes,
    replay,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError, raise_run_errors
from llm_decpomdp.benchmarks.evaluation.folder import estimate_text, read_estimates
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.benchmarks.runs.results import stored_rows
from llm_decpomdp.branching import require_simultaneous
from llm_decpomdp.utils.storage import write_atomically, write_csv
from llm_decpomdp.validation import unknown

NAMES = {"eval": "credit", "train": "credit-train"}
"""Phases of stored episodes, and the names of their files; the default is the first phase in the folder."""

logger = logging.getLogger(__name__)

Measure = Callable[[Credit], float | None]

MEASURES: Mapping[str, Measure] = {
    "shapley": lambda credit: credit.shapley,
    "difference": lambda credit: credit.difference,
    "gold": lambda credit: credit.gold,
    "choice": lambda credit: None if credit.own is None else abs(credit.own),
    "lazy": lambda credit: credit.lazy,
    "dispensable": lambda credit: credit.dispensable,
}
"""Measures of each agent, in the order of the tables.

The samples of an agent are identically distributed, so the expectation of `own` is 0, and only its size is
informative.
"""

TITLES = {
    "shapley": "Shapley",
    "difference": "difference",
    "gold": "gold gains",
    "choice": "own choice",
    "lazy": "lazy",
    "dispensable": "dispensable",
}

SHARES = ("lazy", "dispensable")

OF_TEAM: Mapping[str, Measure] = {
    "reward": lambda credit: credit.reward,
    "silent": lambda credit: credit.silent,
}


@dataclass(frozen=True)
class MeasurementPoint:
    """The credit at one evaluation or update."""

    phase: str
    update: int
    tasks: int
    samples: int
    team: Mapping[str, Estimate]
    """`reward` and `silent`."""
    agents: Mapping[str, Mapping[str, Estimate]]
    """The measures of each agent that any joint sample has."""
    turns: tuple[Mapping[str, Mapping[str, Estimate]], ...]
    """The measures of `agents`, turn by turn; empty for a single turn."""


def measurement_points(credits: Sequence[Credit]) -> list[MeasurementPoint]:
    """Summarize credits by phase and update."""
    groups: dict[tuple[str, int], list[Credit]] = {}
    for credit in credits:
        groups.setdefault((credit.phase, credit.update), []).append(credit)
    return [_measurement_point(*key, groups[key]) for key in sorted(groups)]


def _measurement_point(phase: str, update: int, credits: Sequence[Credit]) -> MeasurementPoint:
    turns = sorted({credit.turn for credit in credits})
    of_turns = [[credit for credit in credits if credit.turn == turn] for turn in turns]
    return MeasurementPoint(
        phase,
        update,
        tasks=len({credit.task for credit in credits}),
        samples=len({(credit.line, credit.group, credit.sample) for credit in credits}),
        team={
            name: bootstrap(list(task_means(credits, of).values())) for name, of in OF_TEAM.items()
        },
        agents=_agents(credits),
        turns=tuple(map(_agents, of_turns)) if len(turns) > 1 else (),
    )


def _agents(credits: Sequence[Credit]) -> dict[str, dict[str, Estimate]]:
    estimates: dict[str, dict[str, Estimate]] = {}
    for agent in dict.fromkeys(credit.agent for credit in credits):
        rows = [credit for credit in credits if credit.agent == agent]
        values = {name: list(task_means(rows, of).values()) for name, of in MEASURES.items()}
        estimates[agent] = {
            # A share of 0 on all tasks has an upper bound above 0, which a bootstrap does not
            # give.
            name: (share if name in SHARES else bootstrap)(means)
            for name, means in values.items()
            if means
        }
    return estimates


def task_means(credits: Sequence[Credit], measure: Measure) -> dict[str, float]:
    """Return the mean of a measure for each task that has it.

    Means are over the agents and joint samples of a group, then over the groups of a turn, the turns of an episode
    and the episodes of the task.
    """
    values: dict[tuple[Any, ...], float] = {}
    for credit in credits:
        value = measure(credit)
        if value is not None:
            place = (credit.task, credit.line, credit.turn, credit.group)
            values[(*place, credit.sample, credit.agent)] = value
    # Each level is averaged before the next, so that long episodes do not weigh more.
    for length in (4, 3, 2, 1):
        groups: dict[tuple[Any, ...], list[float]] = {}
        for key, value in values.items():
            groups.setdefault(key[:length], []).append(value)
        values = {key: fmean(members) for key, members in groups.items()}
    return {key[0]: value for key, value in values.items()}


def write(
    folder: Path, credits: Sequence[Credit], about: Mapping[str, Any]
) -> list[MeasurementPoint]:
    """Write `credit.json` and `credit.csv`, or `credit-train.*`, of credits of one phase; return their content."""
    points = measurement_points(credits)
    # The key of the first stored files, which stay readable.
    content = {**about, "moments": [asdict(point) for point in points]}
    name = NAMES[credits[0].phase]
    write_atomically(folder / f"{name}.json", json.dumps(content, indent=2) + "\n")
    # The shares are properties, which `fields` does not list.
    names = [*(field.name for field in fields(Credit)), *SHARES]
    lines = [[getattr(credit, name) for name in names] for credit in credits]
    write_csv(folder / f"{name}.csv", names, lines)
    return points


def read_credit(folder: Path, phase: str = "eval") -> list[MeasurementPoint]:
    """Read the points that `write` has written into a folder; empty if there are none of its present episodes."""
    path = folder / f"{NAMES[phase]}.json"
    if not path.is_file():
        return []
    content = read_estimates(path)
    episodes = sum(row["phase"] == phase for _, row in stored_rows(folder / "episodes.jsonl"))
    # An evaluation that went on has more episodes than the credit file describes.
    if content["episodes"] != episodes:
        logger.warning(
            "%s is from %d episodes, and there are %d now: run llm-decpomdp analyze credit again",
            path,
            content["episodes"],
            episodes,
        )
        return []
    points = content["moments"]
    return [MeasurementPoint(**{**point, "turns": tuple(point["turns"])}) for point in points]


def table(point: MeasurementPoint) -> Table:
    """Return the measures of a point for a terminal."""
    title = (
        f"{point.phase}, update {point.update}: {point.tasks} tasks, {point.samples} joint samples"
    )
    names = [name for name in MEASURES if any(name in of for of in point.agents.values())]
    grid = Table(title=title, title_justify="left")
    grid.add_column("agent")
    for name in names:
        grid.add_column(TITLES[name], justify="right")
    for label, of in lines(point):
        grid.add_row(label, *(estimate_text(of[name]) if name in of else "none" for name in names))
    team = point.team
    grid.caption = (
        f"team {estimate_text(team['reward'])}; silent team {estimate_text(team['silent'])}"
    )
    return grid


def lines(point: MeasurementPoint) -> list[tuple[str, Mapping[str, Estimate]]]:
    """Return the rows of a table: every agent, then every agent in every turn if there are several."""
    rows = list(point.agents.items())
    for turn, agents in enumerate(point.turns, 1):
        rows += [(f"{agent}, turn {turn}", of) for agent, of in agents.items()]
    return rows


@dataclass(frozen=True)
class FolderCredit:
    """The credit of the agents in a folder, with its files."""

    points: list[MeasurementPoint]
    files: tuple[Path, Path]
    """The complete results as JSON and CSV."""
    warnings: tuple[str, ...]
    """Differences between stored and replayed episodes."""


def credit_folder(folder: Path, phase: str | None = None, seed: int = 0) -> FolderCredit:
    """Measure the credit of each agent for the rewards of a folder, and write it there.

    Args:
        folder: The folder of a run or an evaluation.
        phase: `eval` or `train`.
        seed: See `llm_decpomdp.benchmarks.analysis.credit.credits`.

    Raises:
        ConfigError: If there are no such episodes, their environment is unknown, or its agents take turns.
        RunError: If the data cannot be loaded, or programs cannot be run.
    """
    episodes = open_episodes(folder)
    try:
        for env in episodes.envs.values():
            require_simultaneous(env, "credit")
    except ValueError as error:
        raise ConfigError(f"{folder}: {error}") from None
    if phase not in (None, *NAMES):
        raise ConfigError(unknown("phase", phase, NAMES))
    # Runs have both phases, evaluations only one.
    candidates = [phase] if phase else [*NAMES]
    phase = next((name for name in candidates if next(episodes.rows((name,)), None)), None)
    if phase is None:
        raise ConfigError(f"{episodes.path} holds no episodes of {' or '.join(candidates)}")
    changed_lines: list[int] = []
    with raise_run_errors():
        count = sum(1 for _ in episodes.rows((phase,)))
        rows = track(
            episodes.rows((phase,)),
            "playing counterfactuals",
            total=count,
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )

        def replayed() -> Iterator[Replayed]:
            for group in replay(episodes.envs, rows):
                # Counterfactuals compare with present rewards, so a changed rule is only worth a warning.
                if find_differences(group, episodes):
                    changed_lines.append(group.place.line)
                if isinstance(group, Replayed):
                    yield group

        # A list, since generators would play outside this context, which makes their errors messages.
        agents = list(credits(replayed(), seed))
    if not agents:
        raise ConfigError(
            f"{folder}: no episode can be played again; llm-decpomdp check rewards says why"
        )
    about = {"phase": phase, "episodes": count, "changed_groups": len(changed_lines), "seed": seed}
    points = write(folder, agents, about)
    warnings = episodes.changes_of_data()
    if changed_lines:
        warnings.append(
            f"{len(changed_lines)} groups, the first in line {changed_lines[0]}, differ from the stored ones; the "
            "numbers are of the present ones. llm-decpomdp check rewards lists the differences"
        )
    files = folder / f"{NAMES[phase]}.json", folder / f"{NAMES[phase]}.csv"
    return FolderCredit(points, files, tuple(warnings))
