"""Cross-play (ad-hoc teamwork): the teams of several trainings with one agent exchanged, as a matrix.

In the cell of row A and column B one agent is from B, and all others are from A. The diagonal is self-play. Agents
that have agreed on arbitrary conventions have a lower reward off the diagonal (Hu et al. 2020, arXiv 2003.02979).

The folder of a cross-play has an evaluation for each cell in `cells/<A>+<B>/`, and `matrix.json` and `matrix.csv`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.folder import (
    EvaluationResult,
    estimate_text,
    read_estimates,
)
from llm_decpomdp.benchmarks.evaluation.play import REWARD, is_share
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder, write_atomically, write_csv
from llm_decpomdp.validation import unknown

FILE = "matrix.json"

MEASURES = (REWARD, "return", "pass@1", "tests_passed")
"""Measures with a matrix; `return` only where rewards are increases of a score, `tests_passed` only if all tasks
have tests."""

SCORE = "reward/score"
"""Component of the rewards that are increases of a score, whose sum is the final score."""

Scores = Mapping[tuple[str, str], Mapping[str, float]]
"""Means of a measure by row and column, then task."""


@dataclass(frozen=True)
class Matrix:
    """One measure of all cells."""

    cells: Mapping[str, Mapping[str, Estimate]]
    """Estimates by row, then column, with intervals over tasks."""
    self_play: Estimate
    """Mean over the diagonal; this and the next ones have intervals over runs and tasks."""
    cross_play: Estimate
    """Mean over all other cells."""
    difference: Estimate
    """Cross-play minus self-play, paired by run and task."""


@dataclass(frozen=True)
class CrossPlay:
    """The matrices of teams with an exchanged agent."""

    teams: tuple[str, ...]
    agent: str
    """Id of the agent that comes from the column's team."""
    matrices: Mapping[str, Matrix]
    """Matrices by measure."""


def cross_play(
    env: DecPOMDPEnv,
    teams: Mapping[str, Team],
    starts: Sequence[Start],
    *,
    folder: Path,
    agent: str | None = None,
    samples: int = 1,
    seed: int = 0,
    at_a_time: int = 64,
    about: Mapping[str, Any] | None = None,
) -> CrossPlay:
    """Evaluate every pair of teams, except those in the folder, and write the matrices.

    Args:
        env: The environment, with at least two agents.
        teams: At least two teams, by name.
        starts: Episode starts.
        folder: A new folder, or that of the same cross-play.
        agent: The agent from the column's team; by default the last one.
        samples: Episodes of each start.
        seed: Seed of all sampling.
        at_a_time: Episodes in a batch.
        about: JSON-able identity of each team, by name; cells of other teams are refused.

    Raises:
        ConfigError: If an argument is out of its range, or the folder holds something else.
        FolderInUse: If another process writes to it.
        Exception: What policies and environments raise.
    """
    # Checked before the first cell is played, which takes minutes.
    if len(teams) < 2 or len(env.possible_agents) < 2:
        raise ConfigError(
            f"cross-play needs two teams of two agents at least, got {len(teams)} of {len(env.possible_agents)}"
        )
    check_members(env, teams)
    if agent is not None and agent not in env.possible_agents:
        raise ConfigError(unknown("agent", agent, env.possible_agents))
    agent = agent or env.possible_agents[-1]
    place = RunFolder(folder)
    evaluations = {}
    # One lock for all cells: two commands would play the same cells twice.
    with place.exclusive_access():
        for row, column in product(teams, teams):
            sources = {member: column if member == agent else row for member in env.possible_agents}
            evaluations[row, column] = evaluate(
                env,
                {member: teams[name][member] for member, name in sources.items()},
                starts,
                samples=samples,
                folder=folder / "cells" / f"{row}+{column}",
                seed=seed,
                at_a_time=at_a_time,
                # A cell has the identity of its teams, so that cells of other trainings are
                # refused.
                about={member: (about or {}).get(name, name) for member, name in sources.items()},
            )
        result = compare_cells(tuple(teams), agent, evaluations)
        write(result, folder)
    return result


def check_members(env: DecPOMDPEnv, teams: Mapping[str, Team]) -> None:
    """Raise a `ConfigError` unless each team has a policy for every agent, and for no other."""
    for name, team in teams.items():
        if set(team) != set(env.possible_agents):
            raise ConfigError(
                f"{name} plays {', '.join(team)}, and the environment has {', '.join(env.possible_agents)}"
            )


def compare_cells(
    teams: tuple[str, ...], agent: str, evaluations: Mapping[tuple[str, str], EvaluationResult]
) -> CrossPlay:
    """Return the matrices of the evaluations of all pairs, which are by row and column."""
    matrices = {
        measure: matrix(teams, scores, is_share(measure))
        for measure, scores in scores_by_measure(evaluations).items()
    }
    return CrossPlay(teams, agent, matrices)


def scores_by_measure(
    evaluations: Mapping[tuple[str, str], EvaluationResult],
) -> dict[str, Scores]:
    """Return the means by cell, then task, of the measures that all tasks of all cells have."""
    tables: dict[str, Scores] = {}
    for measure in MEASURES:
        if measure == "return" and all(SCORE in cell.values for cell in evaluations.values()):
            tables[measure] = {key: cell.returns() for key, cell in evaluations.items()}
        elif measure == "pass@1":
            tables[measure] = {key: cell.pass_at_k(1) for key, cell in evaluations.items()}
        elif all(len(c.values.get(measure, ())) == len(c.tasks) for c in evaluations.values()):
            tables[measure] = {key: cell.means(measure) for key, cell in evaluations.items()}
    return tables


def matrix(teams: Sequence[str], scores: Scores, of_shares: bool = False) -> Matrix:
    """Return the matrix of one measure.

    The cross-play of a team is the mean of its cells with other teams, in either role.

    Args:
        teams: Names of rows and columns.
        scores: All cells, with the same tasks.
        of_shares: True for scores that are shares, in [0, 1].
    """
    estimate = share if of_shares else bootstrap
    # Sorted by task, so that all cells are paired.
    values = {key: np.array([of[task] for task in sorted(of)]) for key, of in scores.items()}
    self_play: NDArray[np.float64] = np.array([values[name, name] for name in teams])  # (S, T)
    mixed = []
    for name in teams:
        partners = [partner for partner in teams if partner != name]
        pairs = [pair for partner in partners for pair in ((name, partner), (partner, name))]
        mixed.append(np.mean([values[pair] for pair in pairs], axis=0))
    cross_play = np.array(mixed)  # (S, T)
    return Matrix(
        {row: {column: estimate(values[row, column]) for column in teams} for row in teams},
        estimate(self_play),
        estimate(cross_play),
        # The difference of two shares is between -1 and 1.
        bootstrap(cross_play - self_play).within(
            *((-1.0, 1.0) if of_shares else (-math.inf, math.inf))
        ),
    )


def write(result: CrossPlay, folder: Path) -> None:
    """Write `matrix.json` and `matrix.csv`."""
    write_atomically(folder / FILE, json.dumps(asdict(result), indent=2) + "\n")
    lines = [
        [measure, row, column, estimate.value, estimate.low, estimate.high]
        for measure, of in result.matrices.items()
        for row, columns in of.cells.items()
        for column, estimate in columns.items()
    ]
    head = ["measure", "row", "column", "value", "low", "high"]
    write_csv(folder / "matrix.csv", head, lines)


def read_crossplay(folder: Path) -> CrossPlay | None:
    """Read `matrix.json` of a folder; `None` if there is none."""
    path = folder / FILE
    if not path.is_file():
        return None
    content = read_estimates(path)
    matrices = {measure: Matrix(**of) for measure, of in content["matrices"].items()}
    return CrossPlay(tuple(content["teams"]), content["agent"], matrices)


def table(result: CrossPlay, measure: str) -> Table:
    """Return a matrix for a terminal."""
    matrix = result.matrices[measure]
    grid = Table(
        f"others \\ {result.agent}",
        *result.teams,
        title=f"{measure}: {result.agent} from the column's run",
    )
    for row, columns in matrix.cells.items():
        grid.add_row(row, *map(estimate_text, columns.values()))
    grid.caption = (
        f"self-play {estimate_text(matrix.self_play)}; cross-play {estimate_text(matrix.cross_play)}; "
        f"cross-play minus self-play {estimate_text(matrix.difference)}"
    )
    return grid
