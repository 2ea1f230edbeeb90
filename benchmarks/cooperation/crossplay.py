"""Cross-play: the teams of several trainings with one agent exchanged, as a matrix (ad-hoc teamwork).

In the cell of row A and column B one agent is taken from B, and all others are from A. For teams of two this is
the usual matrix: one agent of A with the other of B. The diagonal is self-play: the teams as they were trained.
Agents that have agreed on conventions of their own earn less off the diagonal (Hu et al. 2020, arXiv 2003.02979).

A cross-play is a folder: `cells/<A>+<B>/` are evaluations, `matrix.json` and `matrix.csv` what they say together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.folder import Evaluation
from llm_decpomdp.benchmarks.evaluation.measures import REWARD, is_share
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import write_atomically, write_csv
from llm_decpomdp.validation import unknown

FILE = "matrix.json"

MEASURES = (REWARD, "pass@1", "tests_passed")
"""What matrices are made of; `tests_passed` where all tasks have tests."""

Scores = Mapping[tuple[str, str], Mapping[str, float]]
"""For each row and column the mean of a measure, by task."""


@dataclass(frozen=True)
class Matrix:
    """One measure of all cells."""

    cells: Mapping[str, Mapping[str, Estimate]]
    """By row, then column; tasks are resampled."""
    self_play: Estimate
    """The mean over the diagonal; runs and tasks are resampled here and below."""
    cross_play: Estimate
    """The mean over all other cells."""
    difference: Estimate
    """Cross-play minus self-play, paired by run and task."""


@dataclass(frozen=True)
class CrossPlay:
    """What teams with an exchanged agent earn."""

    teams: tuple[str, ...]
    agent: str
    """The one that comes from the column's team."""
    matrices: Mapping[str, Matrix]
    """By measure."""


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
    """Evaluate every pair of teams, as far as their cells are not there yet, and write the matrices.

    Args:
        env: The environment, of two agents at least.
        teams: Two teams or more, by name.
        starts: How the episodes begin.
        folder: Where to; that of the same cross-play, to go on.
        agent: Who comes from the column's team; the last one if none is named.
        samples: Episodes of each start.
        seed: Decides all that is sampled.
        at_a_time: Episodes in a batch.
        about: What each team is, by name and JSON-able: a cell of other teams is not gone on with.

    Raises:
        ConfigError: If an argument is out of its range, or the folder holds something else.
        Exception: What policies and environments raise.
    """
    agent = _check(env, teams, agent)
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    found = {}
    for row, column in product(teams, teams):
        whose = {one: column if one == agent else row for one in env.possible_agents}
        found[row, column] = evaluate(
            env,
            {one: teams[name][one] for one, name in whose.items()},
            starts,
            samples=samples,
            folder=folder / "cells" / f"{row}+{column}",
            seed=seed,
            at_a_time=at_a_time,
            about={one: (about or {}).get(name, name) for one, name in whose.items()},
        )
    result = compare_cells(tuple(teams), agent, found)
    write(result, folder)
    return result


def _check(env: DecPOMDPEnv, teams: Mapping[str, Team], agent: str | None) -> str:
    """The agent that is exchanged, if all is well."""
    if len(teams) < 2 or len(env.possible_agents) < 2:
        raise ConfigError(
            f"cross-play needs two teams of two agents at least, got {len(teams)} of {len(env.possible_agents)}"
        )
    for name, team in teams.items():
        if set(team) != set(env.possible_agents):
            raise ConfigError(
                f"{name} plays {', '.join(team)}, and the environment has {', '.join(env.possible_agents)}"
            )
    if agent is not None and agent not in env.possible_agents:
        raise ConfigError(unknown("agent", agent, env.possible_agents))
    return agent or env.possible_agents[-1]


def compare_cells(
    teams: tuple[str, ...], agent: str, found: Mapping[tuple[str, str], Evaluation]
) -> CrossPlay:
    """The matrices of evaluations of all pairs, by row and column."""
    matrices = {}
    for measure in MEASURES:
        if measure == "pass@1":
            scores: Scores = {key: one.pass_at_k(1) for key, one in found.items()}
        elif all(len(one.values.get(measure, ())) == len(one.tasks) for one in found.values()):
            scores = {key: one.means(measure) for key, one in found.items()}
        else:
            continue
        matrices[measure] = matrix(teams, scores, is_share(measure))
    return CrossPlay(teams, agent, matrices)


def matrix(teams: Sequence[str], scores: Scores, of_shares: bool = False) -> Matrix:
    """The matrix of one measure.

    The cross-play of a team is the mean of all cells in which it plays with another one, in either role.

    Args:
        teams: Names of rows and columns.
        scores: All cells, with the same tasks.
        of_shares: Whether the scores are shares, in [0, 1].
    """
    estimate = share if of_shares else bootstrap
    values = {key: np.array([of[task] for task in sorted(of)]) for key, of in scores.items()}
    own: NDArray[np.float64] = np.array([values[name, name] for name in teams])  # (S, T)
    others = np.array([_with_others(name, teams, values) for name in teams])  # (S, T)
    return Matrix(
        {row: {column: estimate(values[row, column]) for column in teams} for row in teams},
        estimate(own),
        estimate(others),
        bootstrap(others - own),
    )


def _with_others(
    name: str, teams: Sequence[str], values: Mapping[tuple[str, str], NDArray[np.float64]]
) -> NDArray[np.float64]:
    cells = [values[pair] for o in teams if o != name for pair in ((name, o), (o, name))]
    return np.asarray(np.mean(cells, axis=0))


def write(found: CrossPlay, folder: Path) -> None:
    """Write `matrix.json` and `matrix.csv`."""
    write_atomically(folder / FILE, json.dumps(asdict(found), indent=2) + "\n")
    lines = [
        [measure, row, column, one.value, one.low, one.high]
        for measure, of in found.matrices.items()
        for row, columns in of.cells.items()
        for column, one in columns.items()
    ]
    head = ["measure", "row", "column", "value", "low", "high"]
    write_csv(folder / "matrix.csv", head, lines)


def read(folder: Path) -> CrossPlay | None:
    """What `write` has left in a folder, if anything."""
    path = folder / FILE
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    matrices = {
        measure: Matrix(
            {
                row: {column: Estimate(**one) for column, one in columns.items()}
                for row, columns in of.pop("cells").items()
            },
            **{name: Estimate(**one) for name, one in of.items()},
        )
        for measure, of in content["matrices"].items()
    }
    return CrossPlay(tuple(content["teams"]), content["agent"], matrices)
