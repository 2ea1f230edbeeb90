"""Panels of the analyses of cooperation: exchanged partners, credit, cross-play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from omegaconf import OmegaConf

from llm_decpomdp.algorithms.training.warm_start import GOLD, PASSES
from llm_decpomdp.benchmarks.analysis.credit_summary import (
    MEASURES,
    NAMES,
    TITLES,
    MeasurementPoint,
    lines,
    read_credit,
)
from llm_decpomdp.benchmarks.analysis.crossplay import (
    ROLES,
    CrossPlay,
    Matrix,
    RoleSwap,
    SwapEffect,
    read_crossplay,
    read_role_swap,
)
from llm_decpomdp.benchmarks.analysis.partners import (
    CASES,
    helper_call_share,
    read_partners,
    solved_share,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, first_moment, format_estimate
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
from llm_decpomdp.benchmarks.runs.results import Results, Row, Score, stored_rows, task_name

EXCHANGED = ("untrained", "another")

WARM_STARTS = {GOLD: "references", PASSES: "passing samples"}

MEANINGS: Mapping[str, str] = {
    "shapley": "the agent's share of the reward above that of a silent team; the shares add up",
    "difference": "the loss of reward if the agent returned an empty text",
    "gold": "the gain of reward (possibly negative) if the agent returned the reference of the data",
    "choice": "mean change of the reward between the agent's samples, with the other agents fixed",
    "lazy": "share of completions without which the reward would be as high, among positive rewards",
    "dispensable": "share of passing joint samples that also pass without the agent",
}

CROSSPLAY_MEASURES = {
    REWARD: "reward",
    "return": "return",
    "pass@1": "pass@1",
    "tests_passed": "tests passed",
}


def partners(experiments: Sequence[Experiment]) -> str:
    """Draw solved tasks before and after training and with exchanged partners, and one task as an example."""
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
    solved = {case: solved_share(evaluation) for case, evaluation in evaluations.items()}
    before, after = solved["before"], solved["after"]
    agents = evaluations["after"].manifest["identity"]["team"]
    warm_start = _after_warm_start(run, len(evaluations["before"].tasks))
    imitation = ""
    if warm_start:
        imitation = f", {fmean(s.solved or 0.0 for s in warm_start):.0%} after the warm start"
    yield tag(
        "p",
        f"The trained team solves {after.value:.0%} of the held-out tasks ({before.value:.0%} before "
        f"training{imitation}).",
        "headline",
    )
    gain = after.value - before.value
    # A share of a gain that may be chance says nothing.
    if gain > 0 and None not in (after.low, before.high) and (after.low or 0) > (before.high or 0):
        losses = [
            f"{min(1.0, max(0.0, (after.value - solved[case].value) / gain)):.0%} of the gain is lost "
            f"{CASES[case].split(', ')[1]}"
            for case in EXCHANGED
            if case in solved
        ]
        if losses:
            yield tag("p", f"{'; '.join(losses)}.")
    rows = []
    for case, evaluation in evaluations.items():
        calls = helper_call_share(evaluation)
        estimates = (solved[case], calls)
        rows.append((CASES[case], *(format_estimate(e) if e else "—" for e in estimates)))
        if case == "before" and warm_start:
            rows.append(_warm_start_row(run, warm_start))
    yield table("partners", ("", "solved", "main calls a helper that exists"), rows)
    yield tag(
        "p",
        f"Shares of {len(evaluations['after'].tasks)} held-out tasks; in brackets: 95 % intervals over tasks. "
        f"{agents[-1]} is the trained agent in every row but the first; its partners are exchanged. An untrained "
        "partner may be unable to do its part. A partner from another run can do its part, so its loss comes from "
        "conventions of the team.",
        "small",
    )
    if warm_start:
        note = (
            "The row of the warm start is from the run's own evaluation, as is the summary below; the other rows "
            "are from separate evaluations."
        )
        yield tag("p", note, "small")
    yield from _example(evaluations, agents)


def _after_warm_start(run: Results, tasks: int) -> list[Score]:
    """Return the scores of the evaluation after a warm start, if it has as many tasks."""
    scores = run.select_scores("eval", 0) if run.lessons else []
    if len(scores) != tasks or any(score.solved is None for score in scores):
        return []
    return scores


def _warm_start_row(run: Results, scores: Sequence[Score]) -> tuple[str, str, str]:
    source = OmegaConf.create(run.config_text).warm_start.source
    title = (
        f"after the warm start ({run.lessons[-1]['step']:.0f} steps on "
        f"{WARM_STARTS.get(source, 'a file')})"
    )
    calls = [score.earned.get("names_aux") for score in scores]
    rate = "—" if None in calls else format_estimate(share([[call or 0.0 for call in calls]]))
    return title, format_estimate(share([[score.solved or 0.0 for score in scores]])), rate


def _example(evaluations: Mapping[str, EvaluationResult], agents: Sequence[str]) -> Iterator[str]:
    """Yield the first task that only the trained team solves, with the completions of both teams."""
    before, after = ({task_name(r): r for r in _rows(evaluations[c])} for c in ("before", "after"))
    newly_solved = (
        t for t in after if t in before and episode_passes(after[t]) > episode_passes(before[t])
    )
    task = next(newly_solved, None)
    if task is None:
        return
    yield tag("h3", "One task, before and after")
    yield tag("p", f"{task} is the first held-out task that only the trained team solves.")
    prompts: dict[str, str] = {}
    for group in reversed(
        after[task]["groups"]
    ):  # agents that take turns have no prompt in some groups
        prompts |= group["prompts"]
    yield box("div", (render("writing", f"prompt of {a}", prompts[a]) for a in agents), "pair")
    sides = (("Before training", before[task]), ("After training", after[task]))
    yield box("div", (_side(title, row, agents) for title, row in sides), "pair")


def _rows(evaluation: EvaluationResult) -> list[Row]:
    """Return the first sample of each task."""
    rows = (row for _, row in stored_rows(evaluation.folder / "episodes.jsonl"))
    return [row for row in rows if row["sample"] == 0]


def _side(title: str, row: Row, agents: Sequence[str]) -> str:
    group = row["groups"][-1]
    info = group["infos"][0]
    verdict = "solved" if info.get("solved") else "not solved"
    if "tests_total" in info:
        verdict = f"{info['tests_passed']:.0f} of {info['tests_total']:.0f} tests pass"
    last: dict[str, list[str]] = {}
    for played in row["groups"]:
        last |= played["completions"]
    texts = [render("writing", f"completion of {a}", last[a][0]) for a in agents]
    return box("div", [tag("h4", f"{title}: {verdict}"), *texts])


def credit(experiments: Sequence[Experiment]) -> str:
    """Draw the measures of each agent at the first and last evaluation; empty without measures."""
    points = [
        (title, point) for experiment in experiments for title, point in _credit_points(experiment)
    ]
    if not points:
        return ""
    rows = [
        (f"{title}: {agent}" if len(points) > 1 else agent, measures)
        for title, point in points
        for agent, measures in lines(point)
    ]
    names = [name for name in MEASURES if any(name in measures for _, measures in rows)]
    cells = [
        [label, *(format_estimate(of[name]) if name in of else "—" for name in names)]
        for label, of in rows
    ]
    lead = "Each completion was replaced, and the joint sample was graded again. "
    rewards = []
    for title, point in points:
        reward, silent = (format_estimate(point.team[name]) for name in ("reward", "silent"))
        rewards.append(f"{title}: reward {reward}, of a silent team {silent}.")
    lead += " ".join(rewards) if len(points) < 4 else "In brackets: 95 % intervals over tasks."
    meanings = {TITLES[name]: MEANINGS[name] for name in names}
    return "\n".join(
        [
            tag("p", lead),
            table("credit", ["agent", *(TITLES[name] for name in names)], cells),
            details_block("Meaning of the columns", definitions(meanings)),
        ]
    )


def _credit_points(experiment: Experiment) -> Iterator[tuple[str, MeasurementPoint]]:
    """Yield the first and the last point of each run, under a unique name."""
    for run in experiment.runs:
        for phase in NAMES:
            points = read_credit(run.path, phase)
            for point in points if len(points) < 3 else (points[0], points[-1]):
                title = run.path.name
                if not experiment.has_training:
                    yield title, point
                elif point.phase == "train":
                    yield f"{title}, training, update {point.update}", point
                else:
                    when = (
                        f"after update {point.update}" if point.update else first_moment(experiment)
                    )
                    yield f"{title}, {when}", point


def crossplay(experiments: Sequence[Experiment]) -> str:
    """Draw the cross-plays and role swaps whose cells are among the evaluations of the page."""
    paths = [run.path for experiment in experiments for run in experiment.runs]
    blocks: list[str] = []
    # The evaluations of a matrix are in FOLDER/cells/ROW+COLUMN.
    for folder in dict.fromkeys(path.resolve().parents[1] for path in paths):
        numbers = {p.name: n for n, p in enumerate(paths) if p.resolve().parents[1] == folder}
        for found in (read_crossplay(folder), read_role_swap(folder)):
            if found is not None:
                blocks += _exchange_blocks(found, folder.name, numbers)
    return "\n".join(blocks)


def _exchange_blocks(
    found: CrossPlay | RoleSwap, folder: str, numbers: Mapping[str, int]
) -> Iterator[str]:
    effects: Mapping[str, Matrix | SwapEffect]
    if isinstance(found, CrossPlay):
        effects, columns, prefix, unit = found.matrices, found.teams, "", "run"
        lead = (
            f"{found.agent} is from the run of the column, all other agents are from the run of the row. The "
            "diagonal is self-play."
        )
    else:
        effects, columns, prefix, unit = found.effects, tuple(ROLES.values()), "swap_", "team"
        lead = f"{' and '.join(found.agents)} exchange their policies within each team."
    yield tag("p", f"{folder}: {lead} Select a number to read the transcripts.")
    for measure, effect in effects.items():
        name = CROSSPLAY_MEASURES[measure]
        rows = _heat_rows(effect.cells, numbers)
        grid = table(prefix + measure.replace("/", "_"), [name, *columns], rows)
        yield box("div", [grid], "heat")
        texts = ", ".join(
            f"{words} {format_estimate(mean)}" for words, mean in effect.means.items()
        )
        change = format_estimate(effect.difference, sign=True)
        yield tag("p", f"{name}: {texts}; the difference is {change}, paired by {unit} and task.")


def _heat_rows(
    cells: Mapping[str, Mapping[str, Estimate]], numbers: Mapping[str, int]
) -> list[list[str | Cell]]:
    """Return the rows of estimates, each with a link to the evaluation whose folder is named `<row>+<column>`."""
    top = max(estimate.value for columns in cells.values() for estimate in columns.values())
    rows = []
    for row, columns in cells.items():
        line: list[str | Cell] = [row]
        for column, estimate in columns.items():
            number, text = numbers.get(f"{row}+{column}"), format_estimate(estimate)
            linked = text if number is None else link(text, run=number)
            line.append(heat_cell(linked, estimate.value, top))
        rows.append(line)
    return rows
