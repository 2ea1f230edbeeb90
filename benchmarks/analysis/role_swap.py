"""Role swap: two agents of a team exchange their policies, and the team plays the same problems as before.

A team whose agents learned the parts of their roles loses its reward. A team that keeps it has agents that can do
either part, or roles that ask for the same. AT-GRPO (arXiv 2510.11062) reports that a trained caller and planner
solve 96 % of the tasks of Plan-Path, and 6 % with swapped roles.

The folder of a role swap has an evaluation of each team with its own and with swapped roles, `cells/<A>+own/` and
`cells/<A>+swapped/`, and `role_swap.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.benchmarks.analysis.crossplay import check_members, scores_by_measure
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.folder import estimate_text, read_estimates
from llm_decpomdp.benchmarks.evaluation.play import is_share
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder, write_atomically
from llm_decpomdp.validation import unknown

FILE = "role_swap.json"

OWN, SWAPPED = "own", "swapped"
CASES = {OWN: "own roles", SWAPPED: "swapped roles"}
"""Titles of the two evaluations of a team."""


@dataclass(frozen=True)
class SwapEffect:
    """One measure with own and with swapped roles."""

    cells: Mapping[str, Mapping[str, Estimate]]
    """Estimates by team, then case, with intervals over tasks."""
    own: Estimate
    """Mean over the teams with their own roles; this and the next ones have intervals over teams and tasks."""
    swapped: Estimate
    """Mean over the teams with swapped roles."""
    difference: Estimate
    """Swapped minus own roles, paired by team and task."""


@dataclass(frozen=True)
class RoleSwap:
    """The effects of swapped roles on several teams."""

    teams: tuple[str, ...]
    agents: tuple[str, str]
    """The agents that exchange their policies."""
    effects: Mapping[str, SwapEffect]
    """Effects by measure."""


def swap_roles(
    env: DecPOMDPEnv,
    teams: Mapping[str, Team],
    starts: Sequence[Start],
    *,
    folder: Path,
    agent: str | None = None,
    about: Mapping[str, Any] | None = None,
    **options: Any,
) -> RoleSwap:
    """Evaluate teams with own and with swapped roles, except for the evaluations in the folder.

    Args:
        env: The environment, with at least two agents.
        teams: One team or more, by name.
        starts: Episode starts.
        folder: A new folder, or that of the same role swap.
        agent: The agent that exchanges its policy with the first one; by default the last one.
        about: JSON-able identity of each team, by name; evaluations of other teams are refused.
        **options: `samples`, `seed` and `at_a_time`, as of `cross_play`.

    Raises:
        ConfigError: If an argument is out of its range, the two agents of a team have one policy, or the folder
            holds something else.
        FolderInUse: If another process writes to it.
        Exception: What policies and environments raise.
    """
    first, second = _pair(env.possible_agents, agent)
    check_members(env, teams)
    for name, team in teams.items():
        if team[first] is team[second]:
            raise ConfigError(
                f"{first} and {second} of {name} have one policy, so swapping their roles changes nothing: name a "
                "team in which each has its own, such as one trained with model.shared=false"
            )
    place = {first: second, second: first}
    evaluations = {}
    with RunFolder(folder).exclusive_access():
        for name, team in teams.items():
            for case in CASES:
                sources = {a: place.get(a, a) if case == SWAPPED else a for a in team}
                identity = (about or {}).get(name, name)
                evaluations[name, case] = evaluate(
                    env,
                    {member: team[source] for member, source in sources.items()},
                    starts,
                    folder=folder / "cells" / f"{name}+{case}",
                    **options,
                    about={member: [identity, source] for member, source in sources.items()},
                )
    effects = {
        measure: _effect(tuple(teams), scores, is_share(measure))
        for measure, scores in scores_by_measure(evaluations).items()
    }
    result = RoleSwap(tuple(teams), (first, second), effects)
    write_atomically(folder / FILE, json.dumps(asdict(result), indent=2) + "\n")
    return result


def _pair(agents: Sequence[str], agent: str | None) -> tuple[str, str]:
    """Return the two agents that exchange their policies."""
    if len(agents) < 2:
        raise ConfigError(f"a role swap needs two agents at least, and the team is {list(agents)}")
    if agent is not None and agent not in agents:
        raise ConfigError(unknown("agent", agent, agents))
    if agent == agents[0]:
        raise ConfigError(
            f"{agent} is the first agent, which exchanges its policy with another: name one of {agents[1:]}"
        )
    return agents[0], agent or agents[-1]


def _effect(
    teams: Sequence[str], scores: Mapping[tuple[str, str], Mapping[str, float]], of_shares: bool
) -> SwapEffect:
    """Return the effect on one measure from the means by team and case, then task."""
    estimate = share if of_shares else bootstrap
    # Sorted by task, so that both cases are paired.
    values = {key: np.array([of[task] for task in sorted(of)]) for key, of in scores.items()}
    own, swapped = (np.array([values[name, case] for name in teams]) for case in CASES)  # (S, T)
    limits = (-1.0, 1.0) if of_shares else (-math.inf, math.inf)
    return SwapEffect(
        {name: {case: estimate(values[name, case]) for case in CASES} for name in teams},
        estimate(own),
        estimate(swapped),
        bootstrap(swapped - own).within(*limits),
    )


def read_role_swap(folder: Path) -> RoleSwap | None:
    """Read `role_swap.json` of a folder; `None` if there is none."""
    path = folder / FILE
    if not path.is_file():
        return None
    content = read_estimates(path)
    effects = {measure: SwapEffect(**of) for measure, of in content["effects"].items()}
    first, second = content["agents"]
    return RoleSwap(tuple(content["teams"]), (first, second), effects)


def table(result: RoleSwap, measure: str) -> Table:
    """Return one measure of all teams for a terminal."""
    effect = result.effects[measure]
    grid = Table("", *CASES.values(), title=f"{measure}: {' and '.join(result.agents)} swapped")
    for name, cases in effect.cells.items():
        grid.add_row(name, *map(estimate_text, cases.values()))
    grid.caption = (
        f"own roles {estimate_text(effect.own)}; swapped roles {estimate_text(effect.swapped)}; "
        f"swapped minus own {estimate_text(effect.difference)}"
    )
    return grid
