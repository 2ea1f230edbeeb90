"""Claims about a gain that the data supports, and its cards: significance, solved tasks, the part that is form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_decpomdp.benchmarks.evaluation.experiments import (
    Experiment,
    component_gain,
    evaluation_mean,
    format_estimate,
    format_interval,
    mean_gain,
)
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate
from llm_decpomdp.benchmarks.report.elements.page import plain, render
from llm_decpomdp.benchmarks.report.panels.overview import declared_components, maximum_reward
from llm_decpomdp.benchmarks.runs.results import Row
from llm_decpomdp.utils.text import number

ENOUGH_TASKS = 6
"""Least number of tasks: with fewer, even a gain on every task has p > 0.05 (two-sided sign test)."""


@dataclass(frozen=True)
class Count:
    """Number of episodes of an evaluation that were solved in some turn."""

    solved: int
    episodes: int

    def __str__(self) -> str:
        return f"{self.solved} of {self.episodes}"


def solved_count(experiment: Experiment, position: int) -> Count | None:
    """Return the count of the first (0) or last (-1) evaluation over all runs; `None` where it is unknown."""
    scores = [
        score.solved
        for run in experiment.runs
        for score in run.select_scores("eval", run.evaluations[position]["update"])
    ]
    if not scores or None in scores:
        return None
    return Count(sum(bool(share) for share in scores), len(scores))


def units(experiment: Experiment) -> str:
    """Return the unit of `solved` in words: tasks, unless some were played several times."""
    (run, *more) = experiment.runs
    tasks = [s.task for s in run.select_scores("eval", run.evaluations[-1]["update"])]
    return "tasks" if not more and len(set(tasks)) == len(tasks) else "episodes"


def headline(experiment: Experiment) -> str:
    """Return the result of training in one line that claims no more than was measured."""
    gain, counts = (
        mean_gain(experiment),
        [solved_count(experiment, position) for position in (0, -1)],
    )
    if not significant(gain, len(experiment.runs)):
        return "What training changed cannot be told from chance."
    if gain.value < 0:
        return f"The team earns less than {beginning(experiment)}."
    before, after = counts
    if before is None or after is None:
        return f"The team earns more than {beginning(experiment)}."
    lead = "Training taught form" if is_form_only(experiment) else "The team earns more"
    # A gain without solved tasks must not read like success.
    if not after.solved:
        return f"{lead}; no task is solved."
    return f"{lead}; {units(experiment)} solved: {_change(experiment, before, after)}."


def beginning(experiment: Experiment) -> str:
    """Return the point of the first evaluation in words: what training changed is told from there on."""
    return "after imitation" if any(run.lessons for run in experiment.runs) else "before training"


def _change(experiment: Experiment, before: Count, after: Count) -> str:
    start = beginning(experiment)
    return f"{before} {start}, {after} after{' training' * start.startswith('after')}"


def significant(gain: Estimate, runs: int) -> bool:
    """Check that the interval of a gain leaves out 0, over enough tasks or several runs."""
    # With few tasks an interval is narrow by chance.
    if gain.low is None or (runs == 1 and gain.units < ENOUGH_TASKS):
        return False
    return gain.excludes(0.0)


def is_form_only(experiment: Experiment) -> bool:
    """Check whether a gain is significant only in components of form, which wrong answers can earn too."""
    forms, rest_names = _kinds(experiment)
    rest = component_gain(experiment, rest_names)
    if not forms or rest is None:
        return False
    return not (rest.value > 0 and significant(rest, len(experiment.runs)))


def parts(experiment: Experiment) -> str:
    """Return the parts of a gain that are form and more than form, in a sentence; empty if undeclared."""
    forms, rest_names = _kinds(experiment)
    of_forms, rest = component_gain(experiment, forms), component_gain(experiment, rest_names)
    if not forms or of_forms is None or rest is None:
        return ""
    names = ", ".join(map(plain, forms))
    text = f"Of the change, {number(of_forms.value, sign=True)} is form, which wrong answers earn too ({names})"
    if not rest_names:
        return f"{text}: this reward looks at nothing else."
    return f"{text}, and {format_estimate(rest, sign=True)} is the rest ({', '.join(map(plain, rest_names))})."


def solved_sentence(experiment: Experiment) -> str:
    """Return the numbers of solved tasks before and after, in a sentence; empty if unknown."""
    before, after = (solved_count(experiment, position) for position in (0, -1))
    if before is None or after is None:
        return ""
    name = units(experiment)
    if not before.solved and not after.solved:
        start = beginning(experiment).removesuffix(" training")
        return f"None of the {after.episodes} {name} was solved, {start} or after training."
    return f"Solved {name}: {_change(experiment, before, after)}."


def _kinds(experiment: Experiment) -> tuple[Sequence[str], Sequence[str]]:
    """Return the components of the runs that are declared to be form, and all others."""
    declarations = declared_components(experiment)
    names = list(dict.fromkeys(n for run in experiment.runs for s in run.scores for n in s.points))
    forms = [name for name in names if name in declarations and declarations[name]["form"]]
    return forms, [name for name in names if name not in forms]


def facts(experiment: Experiment) -> str:
    """Draw the cards of the first and the last evaluation and of the gain, or of a single evaluation."""
    return render("cards", list(_cards(experiment)))


def _cards(experiment: Experiment) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and interval of each card."""
    rows = experiment.runs[0].evaluations
    most = maximum_reward([experiment])
    if len(rows) == 1:
        yield _estimate("mean team reward", evaluation_mean(experiment, 0), most)
    else:
        for position in (0, -1):
            when = moment(rows[position], experiment)
            yield _estimate(when, evaluation_mean(experiment, position), most)
        yield _estimate("gain", mean_gain(experiment), "", sign=True)
    counts = [
        solved_count(experiment, position) for position in ((0, -1) if len(rows) > 1 else (0,))
    ]
    if None not in counts:
        yield f"{units(experiment)} solved", " → ".join(map(str, counts)), ""


def moment(row: Row, experiment: Experiment) -> str:
    """Return the point of training at which an evaluation was made, in words."""
    update = row["update"]
    if update == 0:
        return beginning(experiment)
    return f"after {update} update{'s' if update > 1 else ''}"


def _estimate(name: str, value: Estimate, most: str, *, sign: bool = False) -> tuple[str, str, str]:
    text = number(value.value, sign=sign) + (f" of {most}" if most else "")
    return name, text, format_interval(value, sign=sign)
