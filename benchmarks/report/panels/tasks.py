"""The panel of tasks: what the team earned on each, evaluation by evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import fmean

from llm_decpomdp.benchmarks.evaluation.experiments import Column, Experiment, headings
from llm_decpomdp.benchmarks.report.elements.page import Heading, box, link, table_of, tag
from llm_decpomdp.benchmarks.runs.results import by_task, pairs
from llm_decpomdp.utils.wording import number

SCALE = 58
"""Percent of the heat's colour at the highest reward: text stays readable on it."""


def tasks(found: Sequence[Experiment]) -> str:
    """A heat map of tasks and evaluations; nothing where nothing was evaluated."""
    columns = rewards_by_task(found)
    if not columns:
        return ""
    gains = gains_of(found)
    names = list(dict.fromkeys(task for column in columns for task in column.rewards))
    names.sort(key=lambda task: -gains.get(task, 0.0))
    top = max((value for column in columns for value in column.rewards.values()), default=0.0)
    rows = [_row(task, columns, gains.get(task), top) for task in names]
    head = ["task", *map(_heading, columns), *(["gain"] if gains else [])]
    return "\n".join(
        [
            tag("p", _lead(found, gains)),
            box("div", [table_of("tasks", head, rows)], "heat"),
            tag("p", "Choose a number to read what the agents wrote.", "small"),
        ]
    )


def rewards_by_task(found: Sequence[Experiment]) -> list[Column]:
    """Every evaluation of a single experiment, or the first and last of several."""
    if len(found) == 1:
        updates = found[0].series("eval", "reward_mean").updates
        return [_column(found[0], update, "", ()) for update in updates]
    lines = headings(found)
    return [
        _column(experiment, update, experiment.name, lines[experiment.name])
        for experiment in found
        for update in _ends(experiment.series("eval", "reward_mean").updates)
    ]


def _ends(updates: list[int]) -> list[int]:
    return updates if len(updates) < 3 else [updates[0], updates[-1]]


def _column(experiment: Experiment, update: int, name: str, lines: tuple[str, ...]) -> Column:
    return Column(name, lines, _title(experiment, update), update, _rewards(experiment, update))


def _heading(column: Column) -> str | Heading:
    if not column.experiment:
        return column.title
    return Heading((*column.lines, column.title), f"{column.experiment}: {column.title}")


def gains_of(found: Sequence[Experiment]) -> dict[str, float]:
    """The mean gain of each task over all runs that played it before and after training."""
    gains: dict[str, list[float]] = {}
    for experiment in found:
        for run in experiment.runs:
            for pair in pairs(run):
                gains.setdefault(pair.task, []).append(pair.gain)
    return {task: fmean(values) for task, values in gains.items()}


def _rewards(experiment: Experiment, update: int) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for run in experiment.runs:
        for task, reward in by_task(run.scores_at("eval", update)).items():
            found.setdefault(task, []).append(reward)
    return {task: fmean(rewards) for task, rewards in found.items()}


def _title(experiment: Experiment, update: int) -> str:
    if not experiment.trained:
        return "evaluation"
    return "before" if update == 0 else f"update {update}"


def _lead(found: Sequence[Experiment], gains: dict[str, float]) -> str:
    seeds = max(len(experiment.runs) for experiment in found)
    text = "Mean team reward on each evaluation task" + (", over the seeds" if seeds > 1 else "")
    if not gains:
        return f"{text}."
    rose = sum(gain > 0 for gain in gains.values())
    fell = sum(gain < 0 for gain in gains.values())
    return f"{text}, by falling gain: {rose} rose, {fell} fell, {len(gains) - rose - fell} stayed."


def _row(task: str, columns: Sequence[Column], gain: float | None, top: float) -> str:
    cells = [f'<th scope="row">{escape(task)}</th>']
    for column in columns:
        if (reward := column.rewards.get(task)) is None:
            cells.append("<td></td>")
            continue
        share = round(SCALE * max(reward, 0.0) / top) if top > 0 else 0
        text = link(number(reward), task=task, phase="eval", update=column.update)
        cells.append(f'<td class="cell" style="--heat: {share}%">{text}</td>')
    if gain is not None:
        kind = "gain" if gain > 0 else "loss" if gain < 0 else ""
        cells.append(tag("td", number(gain, sign=True), kind))
    return "".join(cells)
