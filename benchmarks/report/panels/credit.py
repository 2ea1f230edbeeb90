"""The panel of credit: shares of agents in the team's reward, from the files of `llm-decpomdp analyze credit`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llm_decpomdp.benchmarks.analysis.credit_summary import (
    MEASURES,
    NAMES,
    TITLES,
    MeasurementPoint,
    lines,
    read,
)
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, format_estimate
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate
from llm_decpomdp.benchmarks.report.elements.page import definitions, details_block, table, tag
from llm_decpomdp.benchmarks.report.panels.headline import beginning

MEANINGS: Mapping[str, str] = {
    "shapley": "the agent's part of what the team earned beyond silence: parts add up",
    "difference": "what the team would lose if the agent said nothing",
    "gold": "what the team would gain, perhaps less than nothing, if the agent gave the data's own answer",
    "choice": "how far the reward moves with which of its answers the agent gives, while the others stay",
    "lazy": "share of answers without which the team would have earned as much, where it earned anything",
    "dispensable": "share of what passed that would have passed without the agent",
}


def credit(experiments: Sequence[Experiment]) -> str:
    """Draw the measures of each agent at the first and last evaluation; empty where there are none."""
    points = [(title, point) for experiment in experiments for title, point in _points(experiment)]
    if not points:
        return ""
    titles = len(points) > 1
    rows = [
        (f"{title}: {agent}" if titles else agent, of)
        for title, point in points
        for agent, of in lines(point)
    ]
    names = [name for name in MEASURES if any(name in of for _, of in rows)]
    cells = [[label, *(_cell(of.get(name)) for name in names)] for label, of in rows]
    lead = f"Completions were replaced, and what came of them was graded again. {_team(points)}"
    meanings = {TITLES[name]: MEANINGS[name] for name in names}
    return "\n".join(
        [
            tag("p", lead),
            table("credit", ["agent", *(TITLES[name] for name in names)], cells),
            details_block("What the columns say", definitions(meanings)),
        ]
    )


def _points(experiment: Experiment) -> Iterator[tuple[str, MeasurementPoint]]:
    """Yield the first and the last point of each run, under a name that tells them apart."""
    for run in experiment.runs:
        for phase in NAMES:
            points = read(run.path, phase)
            for point in points if len(points) < 3 else (points[0], points[-1]):
                yield ", ".join([run.path.name, *_when(point, experiment)]), point


def _when(point: MeasurementPoint, experiment: Experiment) -> list[str]:
    if not experiment.has_training:
        return []
    if point.phase == "train":
        return [f"training, update {point.update}"]
    return [beginning(experiment) if point.update == 0 else f"after update {point.update}"]


def _team(points: Sequence[tuple[str, MeasurementPoint]]) -> str:
    """Return the rewards of the teams, and those of silence, in words."""
    parts = []
    for title, point in points:
        reward, silent = (format_estimate(point.team[name]) for name in ("reward", "silent"))
        parts.append(f"{title}: reward {reward}, in silence {silent}.")
    return " ".join(parts) if len(parts) < 4 else "In brackets: 95 % intervals over tasks."


def _cell(estimate: Estimate | None) -> str:
    return "—" if estimate is None else format_estimate(estimate)
