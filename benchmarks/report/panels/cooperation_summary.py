"""The panel that comes first where partners were exchanged: did the agents learn to work together?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from omegaconf import OmegaConf

from llm_decpomdp.algorithms.training.sft_data import GOLD, PASSES
from llm_decpomdp.benchmarks.analysis.partners import (
    CASES,
    helper_call_share,
    read_partners,
    solved_share,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, format_estimate
from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult
from llm_decpomdp.benchmarks.evaluation.play import episode_passes
from llm_decpomdp.benchmarks.evaluation.statistics import share
from llm_decpomdp.benchmarks.report.elements.page import box, render, table, tag
from llm_decpomdp.benchmarks.runs.results import Results, Row, Score, stored_rows, task_name

EXCHANGED = ("untrained", "another")
"""Cases with exchanged partners."""

LESSONS = {GOLD: "references", PASSES: "their own passes"}
"""Sources of a warm start in words."""


def story(experiments: Sequence[Experiment]) -> str:
    """Draw what a team solves before and after training and with exchanged partners, and one task of it."""
    runs = [run for experiment in experiments for run in experiment.runs]
    if len(runs) != 1:
        return ""
    try:
        evaluations = read_partners(runs[0].path)
    except ConfigError as error:
        return tag("p", f"Exchanged partners are left out: {error}")
    if not {"before", "after"} <= evaluations.keys():
        return ""
    return "\n".join(_blocks(runs[0], evaluations))


def _blocks(run: Results, evaluations: Mapping[str, EvaluationResult]) -> Iterator[str]:
    shares = {case: solved_share(evaluation).value for case, evaluation in evaluations.items()}
    before, after = solved_share(evaluations["before"]), solved_share(evaluations["after"])
    gain = after.value - before.value
    apart = None not in (after.low, before.high) and (after.low or 0) > (before.high or 0)
    agents = evaluations["after"].manifest["identity"]["team"]
    imitated = [s.solved or 0.0 for s in _after_lessons(run, len(evaluations["before"].tasks))]
    between = f"{fmean(imitated):.0%} after imitation alone, and " if imitated else "and "
    yield tag(
        "p",
        f"Together they solve {shares['after']:.0%} of the held-out tasks after training, {between}"
        f"{shares['before']:.0%} before.",
        "headline",
    )
    if gain > 0 and apart:
        parts = {c: (after.value - shares[c]) / gain for c in EXCHANGED if c in shares}
        losses = [
            f"{min(1.0, max(0.0, part)):.0%} of the gain is lost {CASES[case].split(', ')[1]}"
            for case, part in parts.items()
        ]
        if losses:
            yield tag("p", f"{'; '.join(losses)}.")
    yield _table(run, evaluations)
    yield tag(
        "p",
        f"Shares of {len(evaluations['after'].tasks)} held-out tasks; in brackets: 95 % intervals over "
        f"tasks. {agents[-1]} stays, and its partners are exchanged. An untrained partner may be unable to "
        "write its part at all; one of another run can, and shows what else the team has agreed on.",
        "small",
    )
    if imitated:
        note = "The row of imitation is of the run's own evaluation, as is the summary below; others are not."
        yield tag("p", note, "small")
    yield from _example(evaluations, agents)


def _table(run: Results, evaluations: Mapping[str, EvaluationResult]) -> str:
    rows = []
    for case, evaluation in evaluations.items():
        calls = helper_call_share(evaluation)
        rows.append(
            (
                CASES[case],
                format_estimate(solved_share(evaluation)),
                format_estimate(calls) if calls else "—",
            )
        )
        if case == "before" and (scores := _after_lessons(run, len(evaluation.tasks))):
            rows.append(_row_of_lessons(run, scores))
    return table("partners", ("", "solved", "main calls a helper that exists"), rows)


def _after_lessons(run: Results, tasks: int) -> list[Score]:
    """Return the scores of the evaluation that followed a warm start, if it is one of as many tasks."""
    scores = run.select_scores("eval", 0) if run.lessons else []
    if len(scores) != tasks or any(score.solved is None for score in scores):
        return []
    return scores


def _row_of_lessons(run: Results, scores: Sequence[Score]) -> tuple[str, str, str]:
    source = OmegaConf.create(run.config_text).warm_start.source
    title = (
        f"after {run.lessons[-1]['step']:.0f} steps of imitating {LESSONS.get(source, 'a file')}"
    )
    calls = [score.earned.get("names_aux") for score in scores]
    rate = "—" if None in calls else format_estimate(share([[call or 0.0 for call in calls]]))
    return title, format_estimate(share([[score.solved or 0.0 for score in scores]])), rate


def _example(evaluations: Mapping[str, EvaluationResult], agents: Sequence[str]) -> Iterator[str]:
    """Yield the first task that was solved after training and not before, with what both teams wrote."""
    before, after = (
        {task_name(row): row for row in _rows(evaluations[c])} for c in ("before", "after")
    )
    task = next(
        (t for t in after if t in before and episode_passes(after[t]) > episode_passes(before[t])),
        None,
    )
    if task is None:
        return
    yield tag("h3", "One task, before and after")
    yield tag("p", f"{task}: the first of the held-out tasks that only the trained team solves.")
    prompts = after[task]["groups"][0]["prompts"]
    requests = (render("writing", f"{agent} is told", prompts[agent]) for agent in agents)
    yield box("div", requests, "pair")
    sides = (("Before training", before[task]), ("After training", after[task]))
    yield box("div", (_side(title, row, agents) for title, row in sides), "pair")


def _rows(evaluation: EvaluationResult) -> list[Row]:
    """Return the first sample of each task."""
    rows = (row for _, row in stored_rows(evaluation.folder / "episodes.jsonl"))
    return [row for row in rows if row["sample"] == 0]


def _side(title: str, row: Row, agents: Sequence[str]) -> str:
    group = row["groups"][-1]
    info = group["infos"][0]
    blocks = [tag("h4", f"{title}: {_verdict(info)}")]
    blocks += [
        render("writing", f"{agent} writes", group["completions"][agent][0]) for agent in agents
    ]
    return box("div", blocks)


def _verdict(info: Mapping[str, float]) -> str:
    if "tests_total" not in info:
        return "solved" if info.get("solved") else "not solved"
    return f"{info['tests_passed']:.0f} of {info['tests_total']:.0f} tests pass"
