"""Panels of a training: curves, rewards by task, components of the reward, costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from markupsafe import Markup

from llm_decpomdp.benchmarks.evaluation.experiments import (
    Experiment,
    TaskColumn,
    headings,
    interval_units,
)
from llm_decpomdp.benchmarks.report.charts import (
    colours,
    component_charts,
    component_lists,
    inline,
    learning_curve,
    window,
)
from llm_decpomdp.benchmarks.report.page import (
    Cell,
    Heading,
    box,
    heat_cell,
    link,
    plain,
    render,
    table,
    table_of_columns,
    tag,
)
from llm_decpomdp.benchmarks.report.summary import glossary
from llm_decpomdp.benchmarks.runs.results import Results, Row, Score, compute_task_means, pairs
from llm_decpomdp.utils.text import duration, number


def learning(experiments: Sequence[Experiment]) -> str:
    """Draw the mean team reward, with a legend and an explanation; empty where nothing was trained."""
    if not any(experiment.rows("train") for experiment in experiments):
        return ""
    text = Markup("{}<br>{}").format(_legend(experiments), _explanation(experiments))
    return box("figure", [inline(learning_curve(experiments)), tag("figcaption", text)])


def components(experiments: Sequence[Experiment]) -> str:
    """Draw the points of each component; empty for environments without components."""
    nonzero, zero = component_lists(experiments)
    words = glossary(experiments, [*nonzero, *zero])
    if not nonzero:
        return f"{tag('p', 'No component ever counted.')}\n{words}" if words else ""
    text = "Mean points of each component by update, all on one scale; they add up to the team's reward."
    if zero:
        text += f" Always zero, and not drawn: {', '.join(map(plain, zero))}."
    figure = box("figure", [inline(component_charts(experiments)), tag("figcaption", text)])
    return f"{figure}\n{words}"


def _legend(experiments: Sequence[Experiment]) -> Markup:
    if len(experiments) > 1:
        names = [experiment.name for experiment in experiments]
        series = [train for train, _ in colours(experiments)]
    else:
        kinds = {"training": "train", "evaluation": "eval"}
        present = [name for name, kind in kinds.items() if experiments[0].rows(kind)]
        names, series = present, [list(kinds).index(name) for name in present]
    return render("legend", [(name, i + 1) for name, i in zip(names, series, strict=True)])


def _explanation(experiments: Sequence[Experiment]) -> str:
    runs = max(len(experiment.runs) for experiment in experiments)
    updates = max(len(e.series("train", "reward_mean").updates) for e in experiments)
    parts = []
    if updates:
        mean = f"mean of the last {window(updates)} updates"
        if runs > 1:
            parts.append(f"Line: {mean}, over the seeds; band: lowest to highest seed ({runs}).")
        elif len(experiments) == 1:
            parts.append(f"Thin: each update; thick: {mean}.")
        else:
            parts.append(f"Lines: {mean}.")
    if any(experiment.rows("eval") for experiment in experiments):
        parts.append(f"Diamonds: evaluations, with 95 % intervals {interval_units(experiments)}.")
    return " ".join(parts)


def tasks(experiments: Sequence[Experiment]) -> str:
    """Draw a heat map of tasks and evaluations; empty where nothing was evaluated."""
    columns = rewards_by_task(experiments)
    if not columns:
        return ""
    gains = task_gains(experiments)
    names = list(dict.fromkeys(task for column in columns for task in column.rewards))
    names.sort(key=lambda task: -gains.get(task, 0.0))
    top = max((value for column in columns for value in column.rewards.values()), default=0.0)
    rows = [_task_row(task, columns, gains.get(task), top) for task in names]
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
        return [_task_column(experiments[0], update, "", ()) for update in updates]
    lines = headings(experiments)
    return [
        _task_column(experiment, update, experiment.name, lines[experiment.name])
        for experiment in experiments
        for update in _first_and_last(experiment.series("eval", "reward_mean").updates)
    ]


def _first_and_last(updates: list[int]) -> list[int]:
    return updates if len(updates) < 3 else [updates[0], updates[-1]]


def _task_column(
    experiment: Experiment, update: int, name: str, lines: tuple[str, ...]
) -> TaskColumn:
    return TaskColumn(
        name, lines, _evaluation_title(experiment, update), update, _rewards(experiment, update)
    )


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


def _evaluation_title(experiment: Experiment, update: int) -> str:
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


def _task_row(
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


def cooperation(experiments: Sequence[Experiment]) -> str:
    """Draw rates before and after training, on evaluation tasks where there are any."""
    kinds = {_metrics_kind(experiment) for experiment in experiments}
    columns: dict[str | Heading, Mapping[str, str]] = {}
    lines = headings(experiments)
    for experiment in experiments:
        name = experiment.name
        for title, scores in _scores_by_point(experiment).items():
            above = Heading((*lines[name], title), f"{name}: {title}")
            columns[title if len(experiments) == 1 else above] = measures(scores)
    if not columns:
        return ""
    where = " and ".join(sorted("evaluation" if kind == "eval" else "training" for kind in kinds))
    text = f"Shares of all joint samples on {where} tasks in which a component of the reward is not zero."
    return tag("p", text) + table_of_columns("cooperation", columns)


def measures(scores: Sequence[Score]) -> dict[str, str]:
    """Return the measures of rollouts by their names."""
    values = {}
    names = list(dict.fromkeys(name for score in scores for name in score.earned))
    for name in names:
        rate = fmean(score.earned.get(name, 0.0) for score in scores)
        values[plain(name)] = f"{rate:.0%}"
    solved = [score.solved for score in scores if score.solved is not None]
    if solved:
        values["solved"] = f"{fmean(solved):.0%}"
    for agent in dict.fromkeys(agent for score in scores for agent in score.characters):
        length = fmean(score.characters[agent] for score in scores if agent in score.characters)
        values[f"{agent}, characters a completion"] = f"{length:.0f}"
    for turn in range(1, max(len(score.turns) for score in scores)):
        steps = [s.turns[turn] - s.turns[turn - 1] for s in scores if len(s.turns) > turn]
        values[f"gain from turn {turn} to {turn + 1}"] = number(fmean(steps), sign=True)
    return values


def _metrics_kind(experiment: Experiment) -> str:
    return "eval" if experiment.rows("eval") else "train"


def _scores_by_point(experiment: Experiment) -> dict[str, list[Score]]:
    """Return the scores of all seeds at the first and last evaluation, or else update."""
    kind = _metrics_kind(experiment)
    points: dict[str, list[Score]] = {}
    for run in experiment.runs:
        for title, scores in _end_scores(run, kind).items():
            if scores:
                points.setdefault(title, []).extend(scores)
    return points


def _end_scores(run: Results, kind: str) -> dict[str, list[Score]]:
    rows = run.rows(kind)
    if len(rows) == 1:
        return {"now": run.select_scores(kind, rows[0]["update"])}
    first, last = run.ends(kind)
    names = ("before", "after") if kind == "eval" else ("first update", "last update")
    return dict(zip(names, (first, last), strict=True))


ACTIVITIES = {
    "sampling": "sampling (the models write)",
    "stepping": "stepping (environment and sandbox)",
    "learning": "learning (gradients and optimizer)",
}


def costs(experiments: Sequence[Experiment]) -> str:
    """Draw time and tokens of each experiment, a mean over its runs; empty where no update was made."""
    experiments = [experiment for experiment in experiments if experiment.rows("train")]
    if not experiments:
        return ""
    if len(experiments) == 1:
        name = "mean over runs" if len(experiments[0].runs) > 1 else "this run"
        return table_of_columns("costs", {name: _cost_column(experiments[0])})
    lines = headings(experiments)
    return table_of_columns(
        "costs", {Heading(lines[e.name], e.name): _cost_column(e) for e in experiments}
    )


def _cost_column(experiment: Experiment) -> dict[str, str]:
    train = experiment.rows("train")
    column = {"updates": f"{fmean(len(run.train) for run in experiment.runs):.0f}"}
    seconds = {key: fmean(row.get(key, 0.0) for row in train) for key in _second_keys(train)}
    total = sum(seconds.values())
    for key, value in seconds.items():
        activity = key.removesuffix("_seconds")
        share = f", {value / total:.0%}" if total else ""
        column[ACTIVITIES.get(activity, plain(activity))] = f"{value:.2f} s an update{share}"
    for name, kind in (("training in all", "train"), ("evaluation in all", "eval")):
        total_seconds = fmean(_seconds(run, kind) for run in experiment.runs)
        column[name] = duration(total_seconds) if total_seconds else "—"
    if all("tokens" in row for row in train):
        tokens = fmean(sum(row["tokens"] for row in run.train) for run in experiment.runs)
        column["sampled tokens of training"] = f"{tokens:,.0f}"
    if all("tokens_per_second" in row for row in train):
        speed = fmean(row["tokens_per_second"] for row in train)
        column["sampled tokens per second of a whole update"] = f"{speed:,.0f}"
    column |= _signal_rows(train)
    return column


def _signal_rows(train: Sequence[Row]) -> dict[str, str]:
    """Return the amounts of training without signal, and of cut text."""
    values = {}
    if all("groups_without_signal" in row for row in train):
        groups, silent = (
            sum(row[key] for row in train) for key in ("groups", "groups_without_signal")
        )
        values["groups without signal: all rewards equal"] = f"{silent:,.0f} of {groups:,.0f}"
    shares = [value for row in train for key, value in row.items() if key.startswith("truncated/")]
    if shares:
        values["completions cut off at the token limit"] = f"{fmean(shares):.0%}"
    long = sum(v for row in train for key, v in row.items() if key.startswith("long_prompts/"))
    if long:
        values["prompts that were too long, cut or skipped"] = f"{long:,.0f}"
    return values


def _second_keys(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row if key.endswith("_seconds")))


def _seconds(run: Results, kind: str) -> float:
    rows = run.rows(kind)
    return float(sum(row.get(key, 0.0) for row in rows for key in _second_keys(rows)))
