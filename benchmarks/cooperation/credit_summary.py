"""The credit of agents over many episodes: means with intervals over tasks, as JSON, as CSV and as tables."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from llm_decpomdp.benchmarks.cooperation.credit import Credit
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.benchmarks.evaluation.summary import as_text
from llm_decpomdp.benchmarks.runs.results import stored_rows
from llm_decpomdp.utils.storage import write_atomically, write_csv

NAMES = {"eval": "credit", "train": "credit-train"}
"""The files of each phase, without their endings."""

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
"""What is told of each agent, in the order of the tables.

An agent's answers are drawn alike, so the mean of `own` is 0 but for chance: its size is what tells.
"""

TITLES = {
    "shapley": "Shapley",
    "difference": "difference",
    "gold": "gold gains",
    "choice": "own choice",
    "lazy": "lazy",
    "dispensable": "dispensable",
}
"""The heads of the columns."""

SHARES = ("lazy", "dispensable")

OF_TEAM: Mapping[str, Measure] = {
    "reward": lambda credit: credit.reward,
    "silent": lambda credit: credit.silent,
}
"""What is the same for all agents of a joint sample."""


@dataclass(frozen=True)
class Moment:
    """The credit at one evaluation, or in one update."""

    phase: str
    update: int
    tasks: int
    samples: int
    """Joint samples."""
    team: Mapping[str, Estimate]
    """`reward` and `silent`."""
    agents: Mapping[str, Mapping[str, Estimate]]
    """The measures of each agent; those that no joint sample has are missing."""
    turns: tuple[Mapping[str, Mapping[str, Estimate]], ...]
    """The same, turn by turn; empty where there is a single turn."""


def moments(found: Sequence[Credit]) -> list[Moment]:
    """One for each phase and update."""
    groups: dict[tuple[str, int], list[Credit]] = {}
    for credit in found:
        groups.setdefault((credit.phase, credit.update), []).append(credit)
    return [_moment(phase, update, groups[phase, update]) for phase, update in sorted(groups)]


def _moment(phase: str, update: int, found: Sequence[Credit]) -> Moment:
    turns = sorted({credit.turn for credit in found})
    of_turns = [[credit for credit in found if credit.turn == turn] for turn in turns]
    return Moment(
        phase,
        update,
        tasks=len({credit.task for credit in found}),
        samples=len({(credit.line, credit.group, credit.sample) for credit in found}),
        team={name: bootstrap(list(by_task(found, of).values())) for name, of in OF_TEAM.items()},
        agents=_agents(found),
        turns=tuple(map(_agents, of_turns)) if len(turns) > 1 else (),
    )


def _agents(found: Sequence[Credit]) -> dict[str, dict[str, Estimate]]:
    estimates: dict[str, dict[str, Estimate]] = {}
    for agent in dict.fromkeys(credit.agent for credit in found):
        own = [credit for credit in found if credit.agent == agent]
        values = {name: list(by_task(own, of).values()) for name, of in MEASURES.items()}
        estimates[agent] = {
            name: (share if name in SHARES else bootstrap)(of_tasks)
            for name, of_tasks in values.items()
            if of_tasks
        }
    return estimates


def by_task(found: Sequence[Credit], measure: Measure) -> dict[str, float]:
    """The mean of a measure for each task that has it.

    Over the agents and joint samples of a group, then the groups of a turn, the turns of an episode, and the
    episodes of the task, so that each of them counts the same.
    """
    values: dict[tuple[Any, ...], float] = {}
    for credit in found:
        value = measure(credit)
        if value is not None:
            place = (credit.task, credit.line, credit.turn, credit.group)
            values[(*place, credit.sample, credit.agent)] = value
    for length in (4, 3, 2, 1):
        merged: dict[tuple[Any, ...], list[float]] = {}
        for key, value in values.items():
            merged.setdefault(key[:length], []).append(value)
        values = {key: fmean(some) for key, some in merged.items()}
    return {key[0]: value for key, value in values.items()}


def write(folder: Path, found: Sequence[Credit], about: Mapping[str, Any]) -> list[Moment]:
    """Write `credit.json` and `credit.csv`, or `credit-train.*`, into a folder; what they say.

    Args:
        folder: That of the episodes.
        found: All credits, of one phase.
        about: What else the JSON file is to hold.
    """
    told_at = moments(found)
    content = {**about, "moments": [asdict(moment) for moment in told_at]}
    name = NAMES[found[0].phase]
    write_atomically(folder / f"{name}.json", json.dumps(content, indent=2) + "\n")
    names = [*(field.name for field in fields(Credit)), *SHARES]
    lines = [[vars_of(credit)[name] for name in names] for credit in found]
    write_csv(folder / f"{name}.csv", names, lines)
    return told_at


def vars_of(credit: Credit) -> dict[str, Any]:
    """All fields of a credit, with those that follow from others."""
    return {**asdict(credit), **{name: MEASURES[name](credit) for name in SHARES}}


def read(folder: Path, phase: str = "eval") -> list[Moment]:
    """What `write` has left in a folder; empty where nothing is there, or what is there is of other episodes."""
    path = folder / f"{NAMES[phase]}.json"
    if not path.is_file():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    episodes = sum(row["phase"] == phase for _, row in stored_rows(folder / "episodes.jsonl"))
    if content["episodes"] != episodes:
        logger.warning(
            "%s is of %d episodes, and there are %d now: run llm-decpomdp credit again",
            *(path, content["episodes"], episodes),
        )
        return []
    return [
        Moment(
            **{key: moment[key] for key in ("phase", "update", "tasks", "samples")},
            team=_estimates(moment["team"]),
            agents={agent: _estimates(of) for agent, of in moment["agents"].items()},
            turns=tuple(
                {agent: _estimates(of) for agent, of in turn.items()} for turn in moment["turns"]
            ),
        )
        for moment in content["moments"]
    ]


def _estimates(content: Mapping[str, Mapping[str, Any]]) -> dict[str, Estimate]:
    return {name: Estimate(**estimate) for name, estimate in content.items()}


def table(moment: Moment) -> Table:
    """A moment for a terminal."""
    title = f"{moment.phase}, update {moment.update}: {moment.tasks} tasks, {moment.samples} joint samples"
    names = [name for name in MEASURES if any(name in of for of in moment.agents.values())]
    shown = Table(title=title, title_justify="left")
    shown.add_column("agent")
    for name in names:
        shown.add_column(TITLES[name], justify="right")
    for who, of in lines(moment):
        shown.add_row(who, *(as_text(of[name]) if name in of else "none" for name in names))
    team = moment.team
    shown.caption = f"team {as_text(team['reward'])}; silent team {as_text(team['silent'])}"
    return shown


def lines(moment: Moment) -> list[tuple[str, Mapping[str, Estimate]]]:
    """The rows of a table: every agent, then every agent on every turn if there are several."""
    found = list(moment.agents.items())
    for turn, agents in enumerate(moment.turns, 1):
        found += [(f"{agent}, turn {turn}", of) for agent, of in agents.items()]
    return found
