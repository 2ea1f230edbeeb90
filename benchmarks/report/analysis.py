"""Panels of analyses of cooperation: exchanged partners, credit, cross-play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from omegaconf import OmegaConf

from llm_decpomdp.algorithms.training.trainer_options import GOLD, PASSES
from llm_decpomdp.benchmarks.analysis.credit_summary import (
    MEASURES,
    NAMES,
    TITLES,
    MeasurementPoint,
    lines,
    read_credit,
)
from llm_decpomdp.benchmarks.analysis.crossplay import CrossPlay, Matrix, read_crossplay
from llm_decpomdp.benchmarks.analysis.partners import (
    CASES,
    helper_call_share,
    read_partners,
    solved_share,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, format_estimate
from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult
from llm_decpomdp.benchmarks.evaluation.play import REWARD, episode_passes
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, share
from llm_decpomdp.benchmarks.report.page import (
    Cell,
    box,
    definitions,
    details_block,
    heat_cell,
    link,
    render,
    table,
    tag,
)
from llm_decpomdp.benchmarks.report.summary import beginning
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
    return "\n".join(_partner_blocks(runs[0], evaluations))


def _partner_blocks(run: Results, evaluations: Mapping[str, EvaluationResult]) -> Iterator[str]:
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
    yield _partner_table(run, evaluations)
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


def _partner_table(run: Results, evaluations: Mapping[str, EvaluationResult]) -> str:
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


MEANINGS: Mapping[str, str] = {
    "shapley": "the agent's part of what the team earned beyond silence: parts add up",
    "difference": "what the team would lose if the agent said nothing",
    "gold": "what the team would gain, perhaps less than nothing, if the agent gave the data's own answer",
    "choice": "how far the reward moves with which of its answers the agent gives, while the others stay",
    "lazy": "share of answers without which the team would have earned as much, where it earned anything",
    "dispensable": "share of what passed that would have passed without the agent",
}


def credit(experiments: Sequence[Experiment]) -> str:
    """Draw the measures of each agent at the first and last evaluation; empty where there are none."""
    points = [
        (title, point) for experiment in experiments for title, point in _credit_points(experiment)
    ]
    if not points:
        return ""
    titles = len(points) > 1
    rows = [
        (f"{title}: {agent}" if titles else agent, of)
        for title, point in points
        for agent, of in lines(point)
    ]
    names = [name for name in MEASURES if any(name in of for _, of in rows)]
    cells = [[label, *(_cell(of.get(name)) for name in names)] for label, of in rows]
    lead = f"Completions were replaced, and what came of them was graded again. {_team_rewards(points)}"
    meanings = {TITLES[name]: MEANINGS[name] for name in names}
    return "\n".join(
        [
            tag("p", lead),
            table("credit", ["agent", *(TITLES[name] for name in names)], cells),
            details_block("What the columns say", definitions(meanings)),
        ]
    )


def _credit_points(experiment: Experiment) -> Iterator[tuple[str, MeasurementPoint]]:
    """Yield the first and the last point of each run, under a name that tells them apart."""
    for run in experiment.runs:
        for phase in NAMES:
            points = read_credit(run.path, phase)
            for point in points if len(points) < 3 else (points[0], points[-1]):
                yield ", ".join([run.path.name, *_when(point, experiment)]), point


def _when(point: MeasurementPoint, experiment: Experiment) -> list[str]:
    if not experiment.has_training:
        return []
    if point.phase == "train":
        return [f"training, update {point.update}"]
    return [beginning(experiment) if point.update == 0 else f"after update {point.update}"]


def _team_rewards(points: Sequence[tuple[str, MeasurementPoint]]) -> str:
    """Return the rewards of the teams, and those of silence, in words."""
    parts = []
    for title, point in points:
        reward, silent = (format_estimate(point.team[name]) for name in ("reward", "silent"))
        parts.append(f"{title}: reward {reward}, in silence {silent}.")
    return " ".join(parts) if len(parts) < 4 else "In brackets: 95 % intervals over tasks."


def _cell(estimate: Estimate | None) -> str:
    return "—" if estimate is None else format_estimate(estimate)


WORDS = {REWARD: "reward", "pass@1": "pass@1", "tests_passed": "tests passed"}
"""Names of the measures of a cross-play."""


def crossplay(experiments: Sequence[Experiment]) -> str:
    """Draw the matrices of the cross-plays that the shown evaluations are cells of."""
    paths = [run.path for experiment in experiments for run in experiment.runs]
    places = {path: number for number, path in enumerate(paths)}
    blocks: list[str] = []
    for folder in dict.fromkeys(path.resolve().parents[1] for path in paths):
        play = read_crossplay(folder)
        if play is not None:
            cells = {
                path.name: n for path, n in places.items() if path.resolve().parents[1] == folder
            }
            blocks += _crossplay_blocks(play, folder, cells)
    return "\n".join(blocks)


def _crossplay_blocks(play: CrossPlay, folder: Path, numbers: Mapping[str, int]) -> Iterator[str]:
    yield tag(
        "p",
        f"{folder.name}: {play.agent} is from the column's run, all others are from the row's. The diagonal is "
        "self-play. Choose a number to read_crossplay what the agents wrote.",
    )
    for measure, matrix in play.matrices.items():
        name = WORDS[measure]
        yield box("div", [_crossplay_table(play, measure, matrix, numbers)], "heat")
        yield tag(
            "p",
            f"{name}: self-play {format_estimate(matrix.self_play)}, cross-play "
            f"{format_estimate(matrix.cross_play)}; the difference is "
            f"{format_estimate(matrix.difference, sign=True)}, paired by run and task.",
        )


def _crossplay_table(
    play: CrossPlay, measure: str, matrix: Matrix, numbers: Mapping[str, int]
) -> str:
    top = max(estimate.value for columns in matrix.cells.values() for estimate in columns.values())
    rows = []
    for row, columns in matrix.cells.items():
        cells: list[str | Cell] = [row]
        for column, estimate in columns.items():
            place, text = numbers.get(f"{row}+{column}"), format_estimate(estimate)
            cells.append(
                heat_cell(text if place is None else link(text, run=place), estimate.value, top)
            )
        rows.append(cells)
    return table(measure.replace("/", "_"), [WORDS[measure], *play.teams], rows)
