"""The panel of costs: seconds and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, headings
from llm_decpomdp.benchmarks.report.elements.page import Heading, plain, table_of_columns
from llm_decpomdp.benchmarks.runs.results import Results, Row
from llm_decpomdp.utils.text import duration

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
        return table_of_columns("costs", {name: _column(experiments[0])})
    lines = headings(experiments)
    return table_of_columns(
        "costs", {Heading(lines[e.name], e.name): _column(e) for e in experiments}
    )


def _column(experiment: Experiment) -> dict[str, str]:
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
    column |= _signal(train)
    return column


def _signal(train: Sequence[Row]) -> dict[str, str]:
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
