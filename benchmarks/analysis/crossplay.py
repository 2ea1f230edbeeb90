"""Teams with exchanged agents: cross-play between trainings, and swapped roles within a team.

Cross-play (ad-hoc teamwork): in the cell of row A and column B one agent is from B, and all others are from A. The
diagonal is self-play. Agents that have agreed on arbitrary conventions have a lower reward off the diagonal (Hu et
al. 2020, arXiv 2003.02979). The folder has an evaluation for each cell in `cells/<A>+<B>/`, `matrix.json` and
`matrix.csv`.

Role swap: two agents of a team exchange their policies. A team whose agents learned the parts of their roles loses
its reward. A team that keeps it has agents that can do either part, or roles that ask for the same. AT-GRPO (arXiv
2510.11062) reports that a trained caller and planner solve 96 % of the tasks of Plan-Path, and 6 % with swapped
roles. The folder has the evaluations `cells/<A>+own/` and `cells/<A>+swapped/` of each team, and `role_swap.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from llm_decpomdp.algorithms import Start
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.folder import (
    EvaluationResult,
    estimate_text,
    is_share,
    read_estimates,
)
from llm_decpomdp.benchmarks.evaluation.play import REWARD
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder, write_atomically, write_csv
from llm_decpomdp.validation import unknown

FILE, SWAP_FILE = "matrix.json", "role_swap.json"

MEASURES = (REWARD, "return", "pass@1", "tests_passed")
"""Measures with a matrix; `return` only where rewards are increases of a score, `tests_passed` only if all tasks
have tests."""

SCORE = "reward/score"
"""Component of the rewards that are increases of a score, whose sum is the final score."""

OWN, SWAPPED = "own", "swapped"
ROLES = {OWN: "own roles", SWAPPED: "swapped roles"}
"""Titles of the two evaluations of a role swap."""

Cells = Mapping[str, Mapping[str, Estimate]]
"""Estimates by row, then column, with intervals over tasks."""

Scores = Mapping[tuple[str, str], Mapping[str, float]]
"""Means of a measure by row and column, then task."""


@dataclass(frozen=True)
class Matrix:
    """One measure of all cells of a cross-play. All but `cells` have intervals over runs and tasks."""

    cells: Cells
    self_play: Estimate
    """Mean over the diagonal."""
    cross_play: Estimate
    difference: Estimate
    """Cross-play minus self-play, paired by run and task."""

    @property
    def means(self) -> dict[str, Estimate]:
        """Means of the compared cells, by what they are."""
        return {"self-play": self.self_play, "cross-play": self.cross_play}


@dataclass(frozen=True)
class CrossPlay:
    """The matrices of teams with an exchanged agent."""

    teams: tuple[str, ...]
    agent: str
    """Id of the agent that comes from the column's team."""
    matrices: Mapping[str, Matrix]


@dataclass(frozen=True)
class SwapEffect:
    """One measure with own and with swapped roles. All but `cells` have intervals over teams and tasks."""

    cells: Cells
    own: Estimate
    swapped: Estimate
    difference: Estimate
    """Swapped minus own roles, paired by team and task."""

    @property
    def means(self) -> dict[str, Estimate]:
        """Means of the compared cells, by what they are."""
        return {ROLES[OWN]: self.own, ROLES[SWAPPED]: self.swapped}


@dataclass(frozen=True)
class RoleSwap:
    """The effects of swapped roles on several teams."""

    teams: tuple[str, ...]
    agents: tuple[str, str]
    """The agents that exchange their policies."""
    effects: Mapping[str, SwapEffect]


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
    agents = env.possible_agents
    # Checked before the first cell is played, which takes minutes.
    if len(teams) < 2 or len(agents) < 2:
        raise ConfigError(
            f"cross-play needs two teams of two agents at least, got {len(teams)} of {len(agents)}"
        )
    _check_members(agents, teams, agent)
    agent = agent or agents[-1]
    evaluations = {}
    # One lock for all cells: two commands would play the same cells twice.
    with RunFolder(folder).exclusive_access():
        for row, column in product(teams, teams):
            sources = {member: column if member == agent else row for member in agents}
            evaluations[row, column] = evaluate(
                env,
                {member: teams[name][member] for member, name in sources.items()},
                starts,
                folder=folder / "cells" / f"{row}+{column}",
                # A cell has the identity of its teams, so that cells of other trainings are refused.
                about={member: (about or {}).get(name, name) for member, name in sources.items()},
                samples=samples,
                seed=seed,
                at_a_time=at_a_time,
            )
        matrices = {
            measure: matrix(tuple(teams), scores, is_share(measure))
            for measure, scores in _scores_by_measure(evaluations).items()
        }
        result = CrossPlay(tuple(teams), agent, matrices)
        write_atomically(folder / FILE, json.dumps(asdict(result), indent=2) + "\n")
        lines = [
            [measure, row, column, estimate.value, estimate.low, estimate.high]
            for measure, of in matrices.items()
            for row, columns in of.cells.items()
            for column, estimate in columns.items()
        ]
        head = ["measure", "row", "column", "value", "low", "high"]
        write_csv(folder / "matrix.csv", head, lines)
    return result


def swap_roles(
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
) -> RoleSwap:
    """Evaluate teams with own and with swapped roles, except for the evaluations in the folder.

    Arguments and errors are those of `cross_play`, but one team is enough, `agent` exchanges its policy with the
    first agent, and a team is refused whose two agents have one policy.
    """
    first, second = _pair(env.possible_agents, agent)
    _check_members(env.possible_agents, teams)
    for name, team in teams.items():
        if team[first] is team[second]:
            raise ConfigError(
                f"{first} and {second} of {name} have one policy, so swapping their roles changes nothing: name a "
                "team in which each has its own, such as one trained with model.shared=false"
            )
    place = {first: second, second: first}
    evaluations = {}
    with RunFolder(folder).exclusive_access():
        for (name, team), case in product(teams.items(), ROLES):
            sources = {a: place.get(a, a) if case == SWAPPED else a for a in team}
            identity = (about or {}).get(name, name)
            evaluations[name, case] = evaluate(
                env,
                {member: team[source] for member, source in sources.items()},
                starts,
                folder=folder / "cells" / f"{name}+{case}",
                # Both cases have the same policies, so their roles belong to the identity.
                about={member: [identity, source] for member, source in sources.items()},
                samples=samples,
                seed=seed,
                at_a_time=at_a_time,
            )
    effects = {}
    for measure, scores in _scores_by_measure(evaluations).items():
        values = _tabulate(scores)
        cells = _estimate_cells(teams, ROLES, values, is_share(measure))
        own, swapped = (np.array([values[name, case] for name in teams]) for case in ROLES)
        effects[measure] = SwapEffect(cells, *_compare(own, swapped, is_share(measure)))
    result = RoleSwap(tuple(teams), (first, second), effects)
    write_atomically(folder / SWAP_FILE, json.dumps(asdict(result), indent=2) + "\n")
    return result


def _check_members(
    agents: Sequence[str], teams: Mapping[str, Team], agent: str | None = None
) -> None:
    for name, team in teams.items():
        if set(team) != set(agents):
            raise ConfigError(
                f"{name} plays {', '.join(team)}, and the environment has {', '.join(agents)}"
            )
    if agent is not None and agent not in agents:
        raise ConfigError(unknown("agent", agent, agents))


def _pair(agents: Sequence[str], agent: str | None) -> tuple[str, str]:
    if len(agents) < 2:
        raise ConfigError(f"a role swap needs two agents at least, and the team is {list(agents)}")
    _check_members(agents, {}, agent)
    if agent == agents[0]:
        raise ConfigError(
            f"{agent} is the first agent, which exchanges its policy with another: name one of {agents[1:]}"
        )
    return agents[0], agent or agents[-1]


def _scores_by_measure(
    evaluations: Mapping[tuple[str, str], EvaluationResult],
) -> dict[str, Scores]:
    """Return the means by cell, then task, of the measures that all tasks of all cells have."""
    tables: dict[str, Scores] = {}
    for measure in MEASURES:
        # The return is a measure of its own only where shaping adds to the score; otherwise it repeats the reward.
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
    values = _tabulate(scores)
    self_play = np.array([values[name, name] for name in teams])
    mixed = []
    for name in teams:
        partners = [partner for partner in teams if partner != name]
        pairs = [pair for partner in partners for pair in ((name, partner), (partner, name))]
        mixed.append(np.mean([values[pair] for pair in pairs], axis=0))
    cells = _estimate_cells(teams, teams, values, of_shares)
    return Matrix(cells, *_compare(self_play, np.array(mixed), of_shares))


Values = Mapping[tuple[str, str], NDArray[np.float64]]


def _tabulate(scores: Scores) -> Values:
    # Sorted by task, so that all cells are paired.
    return {key: np.array([of[task] for task in sorted(of)]) for key, of in scores.items()}


def _estimate_cells(
    rows: Iterable[str], columns: Iterable[str], values: Values, of_shares: bool
) -> Cells:
    estimate = share if of_shares else bootstrap
    return {row: {column: estimate(values[row, column]) for column in columns} for row in rows}


def _compare(
    first: NDArray[np.float64], second: NDArray[np.float64], of_shares: bool
) -> tuple[Estimate, Estimate, Estimate]:
    """Estimate two tables (teams, tasks), and the second minus the first."""
    estimate = share if of_shares else bootstrap
    # The difference of two shares is between -1 and 1.
    limits = (-1.0, 1.0) if of_shares else (-math.inf, math.inf)
    return estimate(first), estimate(second), bootstrap(second - first).within(*limits)


def read_crossplay(folder: Path) -> CrossPlay | None:
    """Read `matrix.json` of a folder; `None` if there is none."""
    path = folder / FILE
    if not path.is_file():
        return None
    content = read_estimates(path)
    matrices = {measure: Matrix(**of) for measure, of in content["matrices"].items()}
    return CrossPlay(tuple(content["teams"]), content["agent"], matrices)


def read_role_swap(folder: Path) -> RoleSwap | None:
    """Read `role_swap.json` of a folder; `None` if there is none."""
    path = folder / SWAP_FILE
    if not path.is_file():
        return None
    content = read_estimates(path)
    effects = {measure: SwapEffect(**of) for measure, of in content["effects"].items()}
    first, second = content["agents"]
    return RoleSwap(tuple(content["teams"]), (first, second), effects)


def tables(result: CrossPlay | RoleSwap) -> list[Table]:
    """Return each measure for a terminal."""
    effects: Mapping[str, Matrix | SwapEffect]
    if isinstance(result, CrossPlay):
        effects, columns = result.matrices, result.teams
        corner, title = f"others \\ {result.agent}", f"{result.agent} from the column's run"
        minus = "cross-play minus self-play"
    else:
        effects, columns = result.effects, tuple(ROLES.values())
        corner, title = "", f"{' and '.join(result.agents)} swapped"
        minus = "swapped minus own"
    grids = []
    for measure, effect in effects.items():
        grid = Table(corner, *columns, title=f"{measure}: {title}")
        for row, estimates in effect.cells.items():
            grid.add_row(row, *map(estimate_text, estimates.values()))
        words = {**effect.means, minus: effect.difference}
        grid.caption = "; ".join(f"{name} {estimate_text(mean)}" for name, mean in words.items())
        grids.append(grid)
    return grids
