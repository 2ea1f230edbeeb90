"""The panel of tasks: the team's reward on each, evaluation by evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, TaskColumn, headings
from llm_decpomdp.benchmarks.report.elements.page import (
    Cell,
    Heading,
    box,
    heat_cell,
    link,
    table,
    tag,
)
from llm_decpomdp.benchmarks.runs.results import compute_task_means, pairs
from llm_decpomdp.utils.text import number


def tasks(experiments: Sequence[Experiment]) -> str:
    """Draw a heat map of tasks and evaluations; empty where nothing was evaluated."""
    columns = rewards_by_task(experiments)
    if not columns:
        return ""
    gains = task_gains(experiments)
    names = list(dict.fromkeys(task for column in columns for task in column.rewards))
    names.sort(key=lambda task: -gains.get(task, 0.0))
    top = max((value for column in columns for value in column.rewards.values()), default=0.0)
    rows = [_row(task, columns, gains.get(task), top) for task in names]
    head = ["task", *map(_heading, columns), *(["gain"] if gains else [])]
    return "\n".join(
        [
            tag("p", _lead(experiments, gains)),
            box("div", [table("tasks", head, rows)], "heat"),
            tag("p", "Choose a number to read what the agents wrote.", "small"),
        ]
    )


def rewards_by_task(experiments: Sequence[Experiment]) -> list[TaskColumn]:
    """Return every evaluation of a single experiment, or the first and last of several."""
    if len(experiments) == 1:
        updates = experiments[0].series("eval", "reward_mean").updates
        return [_column(experiments[0], update, "", ()) for update in updates]
    lines = headings(experiments)
    return [
        _column(experiment, update, experiment.name, lines[experiment.name])
        for experiment in experiments
        for update in _ends(experiment.series("eval", "reward_mean").updates)
    ]


def _ends(updates: list[int]) -> list[int]:
    return updates if len(updates) < 3 else [updates[0], updates[-1]]


def _column(experiment: Experiment, update: int, name: str, lines: tuple[str, ...]) -> TaskColumn:
    return TaskColumn(name, lines, _title(experiment, update), update, _rewards(experiment, update))


def _heading(column: TaskColumn) -> str | Heading:
    if not column.experiment:
        return column.title
    return Heading((*column.lines, column.title), f"{column.experiment}: {column.title}")


def task_gains(experiments: Sequence[Experiment]) -> dict[str, float]:
    """Return the mean gain of each task over all runs that played it before and after training."""
    gains: dict[str, list[float]] = {}
    for experiment in experiments:
        for run in experiment.runs:
            for pair in pairs(run):
                gains.setdefault(pair.task, []).append(pair.gain)
    return {task: fmean(values) for task, values in gains.items()}


def _rewards(experiment: Experiment, update: int) -> dict[str, float]:
    rewards_of: dict[str, list[float]] = {}
    for run in experiment.runs:
        for task, reward in compute_task_means(run.select_scores("eval", update)).items():
            rewards_of.setdefault(task, []).append(reward)
    return {task: fmean(rewards) for task, rewards in rewards_of.items()}


def _title(experiment: Experiment, update: int) -> str:
    if not experiment.has_training:
        return "evaluation"
    return "before" if update == 0 else f"update {update}"


def _lead(experiments: Sequence[Experiment], gains: dict[str, float]) -> str:
    seeds = max(len(experiment.runs) for experiment in experiments)
    text = "Mean team reward on each evaluation task" + (", over the seeds" if seeds > 1 else "")
    if not gains:
        return f"{text}."
    rose = sum(gain > 0 for gain in gains.values())
    fell = sum(gain < 0 for gain in gains.values())
    return f"{text}, by falling gain: {rose} rose, {fell} fell, {len(gains) - rose - fell} stayed."


def _row(
    task: str, columns: Sequence[TaskColumn], gain: float | None, top: float
) -> list[str | Cell]:
    cells: list[str | Cell] = [task]
    for column in columns:
        if (reward := column.rewards.get(task)) is None:
            cells.append("")
            continue
        text = link(number(reward), task=task, phase="eval", update=column.update)
        cells.append(heat_cell(text, reward, top))
    if gain is not None:
        kind = "gain" if gain > 0 else "loss" if gain < 0 else ""
        cells.append(Cell(number(gain, sign=True), kind))
    return cells
