"""The panels of curves over the updates."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, interval_units
from llm_decpomdp.benchmarks.report.elements.charts import (
    colours,
    component_charts,
    component_lists,
    inline,
    learning_curve,
    window,
)
from llm_decpomdp.benchmarks.report.elements.page import box, plain, render, tag
from llm_decpomdp.benchmarks.report.panels.overview import glossary


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
