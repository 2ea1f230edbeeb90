"""The panel of cooperation: rates of the reward's components, and gains from turn to turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, headings
from llm_decpomdp.benchmarks.report.elements.page import Heading, plain, table_of_columns, tag
from llm_decpomdp.benchmarks.runs.results import Results, Score
from llm_decpomdp.utils.text import number


def cooperation(experiments: Sequence[Experiment]) -> str:
    """Draw rates before and after training, on evaluation tasks where there are any."""
    kinds = {_kind(experiment) for experiment in experiments}
    columns: dict[str | Heading, Mapping[str, str]] = {}
    lines = headings(experiments)
    for experiment in experiments:
        name = experiment.name
        for title, scores in _points(experiment).items():
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


def _kind(experiment: Experiment) -> str:
    return "eval" if experiment.rows("eval") else "train"


def _points(experiment: Experiment) -> dict[str, list[Score]]:
    """Return the scores of all seeds at the first and last evaluation, or else update."""
    kind = _kind(experiment)
    points: dict[str, list[Score]] = {}
    for run in experiment.runs:
        for title, scores in _ends(run, kind).items():
            if scores:
                points.setdefault(title, []).extend(scores)
    return points


def _ends(run: Results, kind: str) -> dict[str, list[Score]]:
    rows = run.rows(kind)
    if len(rows) == 1:
        return {"now": run.select_scores(kind, rows[0]["update"])}
    first, last = run.ends(kind)
    names = ("before", "after") if kind == "eval" else ("first update", "last update")
    return dict(zip(names, (first, last), strict=True))
