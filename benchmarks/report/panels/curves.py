"""The panels of curves over the updates."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from llm_decpomdp.benchmarks.evaluation.estimates import over
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.elements.charts import (
    colours,
    component_charts,
    inline,
    learning_curve,
    window,
)
from llm_decpomdp.benchmarks.report.elements.page import box, plain, tag
from llm_decpomdp.benchmarks.report.panels.about import glossary
from llm_decpomdp.benchmarks.runs.results import component_names


def learning(found: Sequence[Experiment]) -> str:
    """The mean team reward, with a legend and what the lines and bands are; nothing where nobody was trained."""
    if not any(experiment.rows("train") for experiment in found):
        return ""
    caption = f"<figcaption>{_legend(found)}<br>{escape(_explanation(found))}</figcaption>"
    return box("figure", [inline(learning_curve(found)), caption])


def components(found: Sequence[Experiment]) -> str:
    """The points of each component; nothing for environments without components."""
    rows = [row for e in found for kind in ("train", "eval") for row in e.rows(kind)]
    counted, silent = component_names(rows)
    words = glossary(found, [*counted, *silent])
    if not counted:
        return f"{tag('p', 'No component ever counted.')}\n{words}" if words else ""
    text = "Mean points of each component by update, all on one scale; they add up to the team's reward."
    if silent:
        text += f" Always zero, and not drawn: {', '.join(map(plain, silent))}."
    figure = box("figure", [inline(component_charts(found)), tag("figcaption", text)])
    return f"{figure}\n{words}"


def _legend(found: Sequence[Experiment]) -> str:
    if len(found) > 1:
        names = [experiment.name for experiment in found]
        series = [train for train, _ in colours(found)]
    else:
        kinds = {"training": "train", "evaluation": "eval"}
        present = [name for name, kind in kinds.items() if found[0].rows(kind)]
        names, series = present, [list(kinds).index(name) for name in present]
    return "".join(
        f'<span class="key" style="--color: var(--series-{i + 1})">{escape(name)}</span>'
        for name, i in zip(names, series, strict=True)
    )


def _explanation(found: Sequence[Experiment]) -> str:
    runs = max(len(experiment.runs) for experiment in found)
    updates = max(len(e.series("train", "reward_mean").updates) for e in found)
    parts = []
    if updates:
        mean = f"mean of the last {window(updates)} updates"
        if runs > 1:
            parts.append(f"Line: {mean}, over the seeds; band: lowest to highest seed ({runs}).")
        elif len(found) == 1:
            parts.append(f"Thin: each update; thick: {mean}.")
        else:
            parts.append(f"Lines: {mean}.")
    if any(experiment.rows("eval") for experiment in found):
        parts.append(f"Diamonds: evaluations, with 95 % intervals {over(found)}.")
    return " ".join(parts)
