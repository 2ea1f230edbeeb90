"""Panels of a training: curves, rewards by task, components of the reward, time and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from markupsafe import Markup

from llm_decpomdp.benchmarks.evaluation.experiments import (
    Experiment,
    TaskColumn,
    headings,
    interval_units,
    last_estimate,
)
from llm_decpomdp.benchmarks.report.charts import (
    ENOUGH_SEEDS,
    Chart,
    Point,
    colors,
    component_charts,
    component_lists,
    inline,
    learning_curve,
    moving_window,
    plane,
)
from llm_decpomdp.benchmarks.report.descriptions import component_texts
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
from llm_decpomdp.benchmarks.runs.results import Row, Score, compute_task_means, pairs
from llm_decpomdp.utils.text import duration, number

ACTIVITIES = {
    "sampling": "sampling (models)",
    "stepping": "stepping (environment and sandbox)",
    "learning": "learning (gradients and optimizer)",
}


def learning(experiments: Sequence[Experiment]) -> str:
    """Draw the mean team reward, with a legend and an explanation; empty without training."""
    if not any(experiment.rows("train") for experiment in experiments):
        return ""
    if len(experiments) > 1:
        names = {
            e.name: train for e, (train, _) in zip(experiments, colors(experiments), strict=True)
        }
    else:
        kinds = {"training": "train", "evaluation": "eval"}
        names = {
            name: index
            for index, (name, kind) in enumerate(kinds.items())
            if experiments[0].rows(kind)
        }
    legend = render("legend", [(name, index + 1) for name, index in names.items()])
    text = Markup("{}<br>{}").format(legend, _explanation(experiments))
    return box("figure", [inline(learning_curve(experiments)), tag("figcaption", text)])


def _explanation(experiments: Sequence[Experiment]) -> str:
    runs = max(len(experiment.runs) for experiment in experiments)
    updates = max(len(e.series("train", "reward_mean").updates) for e in experiments)
    parts = []
    if updates:
        mean = f"mean of the last {moving_window(updates)} updates"
        if runs > 1:
            band = "95 % interval of the mean" if runs >= ENOUGH_SEEDS else "range"
            parts.append(f"Line: {mean}, averaged over seeds. Band: {band} over {runs} seeds.")
        elif len(experiments) == 1:
            parts.append(f"Thin line: each update. Thick line: {mean}.")
        else:
            parts.append(f"Lines: {mean}.")
    if any(experiment.rows("eval") for experiment in experiments):
        parts.append(f"Diamonds: evaluations, with 95 % intervals {interval_units(experiments)}.")
    return " ".join(parts)


def components(experiments: Sequence[Experiment]) -> str:
    """Draw each component of the reward; empty for environments without components."""
    nonzero, zero = component_lists(experiments)
    texts = component_texts(experiments, [*nonzero, *zero])
    if not nonzero:
        return f"{tag('p', 'All components were always 0.')}\n{texts}" if texts else ""
    caption = (
        "Mean of each component by update, on one scale. The components add up to the team reward."
    )
    if zero:
        caption += f" Always 0 and not drawn: {', '.join(map(plain, zero))}."
    figure = box("figure", [inline(component_charts(experiments)), tag("figcaption", caption)])
    return f"{figure}\n{texts}"


def tasks(experiments: Sequence[Experiment]) -> str:
    """Draw a heat map of tasks and evaluations; empty without evaluations."""
    columns = rewards_by_task(experiments)
    if not columns:
        return ""
    all_gains: dict[str, list[float]] = {}
    for run in (run for experiment in experiments for run in experiment.runs):
        for pair in pairs(run):
            all_gains.setdefault(pair.task, []).append(pair.gain)
    gains = {task: fmean(values) for task, values in all_gains.items()}
    names = list(dict.fromkeys(task for column in columns for task in column.rewards))
    names.sort(key=lambda task: -gains.get(task, 0.0))
    top = max((value for column in columns for value in column.rewards.values()), default=0.0)
    rows = [_task_row(task, columns, gains.get(task), top) for task in names]
    head: list[str | Heading] = ["task"]
    for column in columns:
        whole = f"{column.experiment}: {column.title}"
        lines = (*column.lines, column.title)
        head.append(Heading(lines, whole) if column.experiment else column.title)
    text = "Mean team reward on each evaluation task"
    if any(len(experiment.runs) > 1 for experiment in experiments):
        text += ", over the seeds"
    if gains:
        head.append("gain")
        rose, fell = (sum(sign * gain > 0 for gain in gains.values()) for sign in (1, -1))
        text += (
            f", sorted by gain: {rose} rose, {fell} fell, {len(gains) - rose - fell} did not change"
        )
    note = tag("p", "Select a number to read the transcripts.", "small")
    return "\n".join([tag("p", f"{text}."), box("div", [table("tasks", head, rows)], "heat"), note])


def rewards_by_task(experiments: Sequence[Experiment]) -> list[TaskColumn]:
    """Return every evaluation of a single experiment, or the first and last of several."""
    lines = headings(experiments)
    columns = []
    for experiment in experiments:
        updates = experiment.series("eval", "reward_mean").updates
        name = experiment.name if len(experiments) > 1 else ""
        # Many experiments with all evaluations do not fit the width of a screen.
        if name and len(updates) > 2:
            updates = [updates[0], updates[-1]]
        for update in updates:
            values: dict[str, list[float]] = {}
            for run in experiment.runs:
                for task, reward in compute_task_means(run.select_scores("eval", update)).items():
                    values.setdefault(task, []).append(reward)
            title = "before" if update == 0 else f"update {update}"
            columns.append(
                TaskColumn(
                    name,
                    lines[experiment.name] if name else (),
                    title if experiment.has_training else "evaluation",
                    update,
                    {task: fmean(rewards) for task, rewards in values.items()},
                )
            )
    return columns


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
    """Draw rates before and after training, on evaluation tasks if there are any."""
    columns: dict[str | Heading, Mapping[str, str]] = {}
    lines, kinds = headings(experiments), set()
    for experiment in experiments:
        kind = "eval" if experiment.rows("eval") else "train"
        kinds.add(kind)
        points: dict[str, list[Score]] = {}
        for run in experiment.runs:
            rows, ends = run.rows(kind), run.ends(kind)
            names = ("before", "after") if kind == "eval" else ("first update", "last update")
            if len(rows) == 1:
                names, ends = ("now", ""), (run.select_scores(kind, rows[0]["update"]), [])
            for title, scores in zip(names, ends, strict=True):
                if scores:
                    points.setdefault(title, []).extend(scores)
        for title, scores in points.items():
            heading = Heading((*lines[experiment.name], title), f"{experiment.name}: {title}")
            columns[title if len(experiments) == 1 else heading] = _rates(scores)
    if not columns:
        return ""
    words = {"eval": "evaluation", "train": "training"}
    where = " and ".join(sorted(words[kind] for kind in kinds))
    text = f"Share of joint samples on {where} tasks in which a component of the reward is not 0."
    return tag("p", text) + table_of_columns("cooperation", columns)


def _rates(scores: Sequence[Score]) -> dict[str, str]:
    values = {}
    for name in dict.fromkeys(name for score in scores for name in score.earned):
        values[plain(name)] = f"{fmean(score.earned.get(name, 0.0) for score in scores):.0%}"
    solved = [score.solved for score in scores if score.solved is not None]
    if solved:
        values["solved"] = f"{fmean(solved):.0%}"
    for agent in dict.fromkeys(agent for score in scores for agent in score.characters):
        lengths = [score.characters[agent] for score in scores if agent in score.characters]
        values[f"{agent}, characters per completion"] = f"{fmean(lengths):.0f}"
    for turn in range(1, max(len(score.turns) for score in scores)):
        steps = [s.turns[turn] - s.turns[turn - 1] for s in scores if len(s.turns) > turn]
        values[f"gain from turn {turn} to {turn + 1}"] = number(fmean(steps), sign=True)
    return values


def costs(experiments: Sequence[Experiment]) -> str:
    """Draw time and tokens of each experiment, a mean over its runs; empty without updates."""
    experiments = [experiment for experiment in experiments if experiment.rows("train")]
    if not experiments:
        return ""
    lines = headings(experiments)
    columns: dict[str | Heading, Mapping[str, str]] = {
        Heading(lines[e.name], e.name): _cost_column(e) for e in experiments
    }
    if len(experiments) == 1:
        name = "mean over runs" if len(experiments[0].runs) > 1 else "this run"
        columns = {name: _cost_column(experiments[0])}
    return table_of_columns("costs", columns)


def answer_times(experiments: Sequence[Experiment]) -> list[Point]:
    """Return tests passed and sequential tokens of the last evaluation of each team that has both."""
    points = []
    for experiment in experiments:
        if not all(run.evaluations for run in experiment.runs):
            continue
        ends = [(run, run.evaluations[-1]["update"]) for run in experiment.runs]
        scores = [score for run, update in ends for score in run.select_scores("eval", update)]
        if any(s.sequential_tokens is None or s.tests_passed is None for s in scores):
            continue
        tokens = last_estimate(experiment, lambda score: score.sequential_tokens or 0.0)
        tests = last_estimate(experiment, lambda score: score.tests_passed or 0.0)
        if tokens is not None and tests is not None:
            points.append(Point(experiment.name or experiment.runs[0].path.name, tokens, tests))
    return points


def answer_time_chart(points: Sequence[Point]) -> Chart:
    """Return the figure of tests passed against sequential tokens."""
    label = "Tests passed against sequential tokens"
    return plane("time", label, points, ("sequential tokens", "tests passed"))


def answer_time(experiments: Sequence[Experiment]) -> str:
    """Draw the tests that each team passes against its time to answer; empty with fewer than two teams."""
    points = answer_times(experiments)
    if len(points) < 2:
        return ""
    caption = (
        "Each point: the last evaluation of a team. Sequential tokens: those of the longest answer of each turn, "
        f"as agents of a turn write at the same time. Bars: 95 % intervals {interval_units(experiments)}."
    )
    return box("figure", [inline(answer_time_chart(points)), tag("figcaption", caption)])


def _cost_column(experiment: Experiment) -> dict[str, str]:
    train, runs = experiment.rows("train"), experiment.runs
    column = {"updates": f"{fmean(len(run.train) for run in runs):.0f}"}
    seconds = {key: fmean(row.get(key, 0.0) for row in train) for key in _seconds_keys(train)}
    total = sum(seconds.values())
    for key, value in seconds.items():
        activity = key.removesuffix("_seconds")
        share = f", {value / total:.0%}" if total else ""
        column[ACTIVITIES.get(activity, plain(activity))] = f"{value:.2f} s per update{share}"
    for name, kind in (("training, total", "train"), ("evaluation, total", "eval")):
        rows = [row for run in runs for row in run.rows(kind)]
        keys = _seconds_keys(rows)  # once: there may be a million rows
        whole = sum(row.get(key, 0.0) for row in rows for key in keys) / len(runs)
        column[name] = duration(whole) if whole else "—"
    # Runs of early versions lack some of the metrics.
    if all("tokens" in row for row in train):
        column["sampled tokens of training"] = f"{sum(r['tokens'] for r in train) / len(runs):,.0f}"
    if all("tokens_per_second" in row for row in train):
        speed = fmean(row["tokens_per_second"] for row in train)
        column["sampled tokens per second of an update"] = f"{speed:,.0f}"
    if all("groups_without_signal" in row for row in train):
        groups, silent = (sum(row[k] for row in train) for k in ("groups", "groups_without_signal"))
        column["groups with equal rewards (no gradient)"] = f"{silent:,.0f} of {groups:,.0f}"
    truncated, overlong = (
        [value for row in train for key, value in row.items() if key.startswith(prefix)]
        for prefix in ("truncated/", "long_prompts/")
    )
    if truncated:
        column["completions truncated at the token limit"] = f"{fmean(truncated):.0%}"
    if any(overlong):
        column["overlong prompts, truncated or skipped"] = f"{sum(overlong):,.0f}"
    return column


def _seconds_keys(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row if key.endswith("_seconds")))
