"""The cards of the summary: reward and its maximum, gain, and solved tasks."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from llm_decpomdp.benchmarks.evaluation.estimates import evaluated, gained, interval
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate
from llm_decpomdp.benchmarks.report.elements.page import box, tag
from llm_decpomdp.benchmarks.report.panels.about import out_of
from llm_decpomdp.benchmarks.report.panels.claims import solved, units
from llm_decpomdp.benchmarks.runs.results import Row
from llm_decpomdp.utils.wording import number


def facts(experiment: Experiment) -> str:
    """Draw the cards of the first and the last evaluation and of the gain, or of a single evaluation."""
    return box("div", _cards(experiment), "facts")


def _cards(experiment: Experiment) -> Iterator[str]:
    rows = experiment.runs[0].evaluations
    most = out_of([experiment])
    if len(rows) == 1:
        yield _estimate("mean team reward", evaluated(experiment, 0), most)
    else:
        yield _estimate(moment(rows[0]), evaluated(experiment, 0), most)
        yield _estimate(moment(rows[-1]), evaluated(experiment, -1), most)
        yield _estimate("gain", gained(experiment), "", sign=True)
    counts = [solved(experiment, position) for position in ((0, -1) if len(rows) > 1 else (0,))]
    if None not in counts:
        yield _card(f"{units(experiment)} solved", " → ".join(map(str, counts)), "")


def moment(row: Row) -> str:
    """Return the point of training at which an evaluation was made, in words."""
    update = row["update"]
    if update == 0:
        return "before training"
    return f"after {update} update{'s' if update > 1 else ''}"


def _estimate(name: str, value: Estimate, most: str, *, sign: bool = False) -> str:
    text = number(value.value, sign=sign) + (f" of {most}" if most else "")
    return _card(name, text, interval(value, sign=sign))


def _card(name: str, value: str, note: str) -> str:
    return f"<div>{tag('span', name)}<b>{escape(value)}</b>{tag('small', note)}</div>"
