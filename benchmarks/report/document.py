"""The report: one HTML file that is generated from folders of runs and evaluations."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from llm_decpomdp.benchmarks.config.errors import ConfigError, refuse_repeats, writing
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, experiments
from llm_decpomdp.benchmarks.report.analysis import credit, crossplay, partners
from llm_decpomdp.benchmarks.report.charts import (
    component_charts,
    component_lists,
    learning_curve,
    save,
    task_map,
)
from llm_decpomdp.benchmarks.report.descriptions import introduction
from llm_decpomdp.benchmarks.report.diagnostics import diagnostics, warnings_by_kind
from llm_decpomdp.benchmarks.report.page import (
    definitions,
    details_block,
    listing,
    page,
    plain,
    render,
    table,
    tag,
)
from llm_decpomdp.benchmarks.report.summary import summary
from llm_decpomdp.benchmarks.report.training import (
    answer_time,
    answer_time_chart,
    answer_times,
    components,
    cooperation,
    costs,
    learning,
    rewards_by_task,
    tasks,
)
from llm_decpomdp.benchmarks.report.transcripts import transcripts
from llm_decpomdp.benchmarks.runs.results import Results, Row, data_sets, read_results
from llm_decpomdp.utils.extras import installed
from llm_decpomdp.utils.storage import RunFolder, write_atomically, write_csv

logger = logging.getLogger(__name__)

MANY = 4
"""Number of experiments that fit side by side in the width of the text."""

SHOWN_ELSEWHERE = ("data", "description", "first_prompts")


@dataclass(frozen=True)
class Panel:
    """A part of the page."""

    anchor: str
    title: str
    short: str
    draw: Callable[[Sequence[Experiment]], str]
    """Returns its markup; a panel without any is left out."""
    place: str = ""
    """On wide screens: the `left` or `right` half, or `wide` for more than the width of the text."""


PANELS = (
    Panel("together", "Gain by cooperation", "Partners", partners),
    Panel("summary", "Summary", "Summary", summary),
    Panel("learning", "Learning curve", "Learning", learning),
    Panel("components", "Components of the reward", "Reward", components),
    Panel("diagnostics", "Training diagnostics", "Diagnostics", diagnostics),
    Panel("tasks", "Reward by task", "Tasks", tasks, "left"),
    Panel("cooperation", "Cooperation", "Cooperation", cooperation, "right"),
    Panel("costs", "Time and tokens", "Cost", costs, "right"),
    Panel("time", "Tests passed and time to answer", "Time", answer_time),
    Panel("credit", "Credit of each agent", "Credit", credit),
    Panel("crossplay", "Cross-play", "Cross-play", crossplay),
    Panel("transcripts", "Transcripts", "Transcripts", transcripts, "wide"),
)


def report(paths: Sequence[Path], output: Path | None, files: bool) -> Path:
    """Check folders, and write the page of runs and evaluations, or that of a suite.

    Raises:
        ConfigError: If a folder holds nothing to report, or is named twice.
        RunError: If the page cannot be written.
    """
    if len(paths) == 1 and (paths[0] / "suite.json").is_file():
        from llm_decpomdp.benchmarks.report.suites import write_suite_report

        if files:
            raise ConfigError(
                "a suite has leaderboard.csv; --files is for the folders of its trainings"
            )
        with writing(output or paths[0] / "report.html"):
            return write_suite_report(paths[0], output)
    for path in paths:
        problem = ""
        if not path.is_dir():
            problem = "is a file" if path.exists() else "does not exist"
        elif not any((path / name).is_file() for name in ("metrics.jsonl", "episodes.jsonl")):
            problem = "holds neither metrics.jsonl nor episodes.jsonl"
        if problem:
            raise ConfigError(f"{path} {problem}: name the folder of a run or evaluation")
    refuse_repeats(paths)
    if output is None and len(paths) > 1:
        output = Path("report.html")
    try:
        return write_report(*map(RunFolder, paths), output=output, files=files)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def write_report(*folders: RunFolder, output: Path | None = None, files: bool = False) -> Path:
    """Write a page that loads nothing from elsewhere, with all episodes in it.

    Args:
        folders: Runs, finished or not, and evaluations. Runs whose configurations differ only in the seed
            are shown as one experiment.
        output: Path of the page; by default `report.html` of the first folder.
        files: True to also write tables as CSV and figures as SVG and PNG, into a folder next to the page
            with the same name.

    Returns:
        The path of the page.

    Raises:
        ValueError: If a folder has no measurements yet.
        RunError: If the page cannot be written.
    """
    sets = experiments([read_results(folder) for folder in folders])
    path = output or folders[0].report
    write_page(sets, path)
    if files:
        folder = path.with_name(f"{path.stem}_files")
        with writing(folder):
            _write_files(sets, folder)
    return path


def write_page(sets: Sequence[Experiment], path: Path, moment: str = "") -> None:
    """Write the page of experiments, or raise a `RunError`.

    `moment` tells how far a run is that goes on, such as `update 2 of 8`; the page then reloads itself.
    """
    manifests = [run.manifest for experiment in sets for run in experiment.runs]
    # Of one's own, as in `my_package.learning:MINE`, the name alone.
    algorithms, environments = (
        ", ".join(dict.fromkeys(str(m[key]).rpartition(":")[2] for m in manifests if key in m))
        for key in ("algorithm", "environment")
    )
    title = f"{algorithms.upper() or 'Teams'} on {environments or 'a text environment'}"
    with writing(path):
        body = sections(
            [tag("h1", title), *opening(sets)],
            [(panel, sets) for panel in PANELS],
            _provenance(sets),
            "Generated from config.yaml, manifest.json, metrics.jsonl and episodes.jsonl of the folders.",
        )
        write_atomically(path, page(title, [body], moment))


def sections(
    head: Iterable[str],
    panels: Iterable[tuple[Panel, Sequence[Experiment]]],
    provenance: Iterable[str],
    footer: str,
) -> Markup:
    """Return the markup of a page: its head, the panels with something to draw, and its last section."""
    drawings = [(_widen(panel, of), Markup(panel.draw(of))) for panel, of in panels]
    parts = [(panel, html) for panel, html in drawings if html]
    return render("sections", list(head), parts, list(provenance), footer)


def _widen(panel: Panel, experiments: Sequence[Experiment]) -> Panel:
    """Widen a panel of several experiments: beyond half the text, or for many beyond the text."""
    if len(experiments) < 2 or (panel.place not in ("left", "right") and panel.anchor != "summary"):
        return panel
    # The table of the summary has a column for every measure, too many for the width of the text.
    many = len(experiments) > MANY or panel.anchor == "summary"
    return replace(panel, place="wide" if many else "")


def opening(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield models, seeds and time, descriptions, and a warning of stand-in data."""
    runs = [run for experiment in experiments for run in experiment.runs]
    seeds = list(dict.fromkeys(run.manifest["seed"] for run in runs if "seed" in run.manifest))
    # Times are in ISO format, so the greatest text is the latest time.
    created = max(str(run.manifest.get("created", "")) for run in runs)
    facts = [
        *dict.fromkeys(run.manifest.get("model") for run in runs),
        f"{len(runs)} runs" if len(runs) > 1 else None,
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}" if seeds else None,
        created.replace("T", " ").replace("+00:00", " UTC"),
    ]
    yield tag("p", " · ".join(str(fact) for fact in facts if fact), "byline")
    yield from introduction(experiments)
    data = [description for run in runs for _, description in data_sets(run.manifest)]
    stand_ins = {description["name"] for description in data if description.get("stand_in")}
    if stand_ins:
        text = (
            f"Stand-in data: bundled problems replace those of {', '.join(sorted(stand_ins))}. The numbers do not "
            "compare with published results."
        )
        yield tag("p", text, "banner")
    if names := warnings_by_kind(experiments):
        link = Markup('<a href="#diagnostics">Training diagnostics</a>')
        text = Markup("Doubts about the training: {}. The reasons are under {}.")
        yield tag("p", text.format(", ".join(names), link), "banner")


def _provenance(experiments: Sequence[Experiment]) -> Iterator[str]:
    runs = [run for experiment in experiments for run in experiment.runs]
    yield from data_table(runs[0])
    yield tag("h3", "Commands")
    place = "this folder" if len(runs) == 1 else "the folders of the runs"
    yield tag("p", f"With the configuration in {place}:", "small")
    for experiment in experiments:
        if len(experiments) > 1:
            yield tag("h4", experiment.name)
        first = experiment.runs[0]
        if not first.config_text:
            continue
        seeds = [run.manifest.get("seed") for run in experiment.runs]
        name = "config.yaml" if len(runs) == 1 else f"{first.path.name}/config.yaml"
        command = (
            f"llm-decpomdp train --config {shlex.quote(name)} --override output.name=reproduction"
        )
        lines = [f"{command}-{seed} seed={seed}" if len(seeds) > 1 else command for seed in seeds]
        yield from reproduction(first.manifest.get("git"), lines)
    for run in runs:
        yield from details(run)


def data_table(run: Results) -> Iterator[str]:
    """Yield the data of a run or evaluation."""
    data = dict(data_sets(run.manifest))
    if not data:
        return
    yield tag("h3", "Data")
    keys = dict.fromkeys(key for description in data.values() for key in description)
    rows = [(plain(k), *(_format_value(of.get(k)) for of in data.values())) for k in keys]
    yield table("data", ("", *data), rows)
    for key in keys:
        values = {name: of.get(key) for name, of in data.items()}
        listed = {name: v for name, v in values.items() if isinstance(v, Mapping) and v}
        if listed:
            yield details_block(plain(key).capitalize(), definitions(listed))


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return f"{len(value)}, listed below" if value else "none"
    return "—" if value in (None, "") else str(value)


def reproduction(git: Mapping[str, Any] | None, lines: Sequence[str]) -> Iterator[str]:
    """Yield the commands that compute results again, at the commit of a manifest if it has one."""
    git = git or {}
    checkout = [f"git checkout {git['commit']}"] if git.get("commit") else []
    yield listing("\n".join([*checkout, *lines]))
    if git.get("dirty"):
        yield tag("p", "The checkout had uncommitted changes when the run began.", "small")


def details(run: Results) -> Iterator[str]:
    """Yield the configuration and the versions of a run or evaluation."""
    name = run.path.name
    if run.config_text:
        yield details_block("Configuration", listing(run.config_text), note=f"{name}/config.yaml")
    rest = {key: value for key, value in run.manifest.items() if key not in SHOWN_ELSEWHERE}
    if rest:
        yield details_block("Versions and machine", definitions(rest), note=f"{name}/manifest.json")


def _write_files(experiments: Sequence[Experiment], folder: Path) -> None:
    """Write tables and figures into a folder.

    - `metrics.csv`: every row of `metrics.jsonl`, with its run, seed and configuration.
    - `episodes.csv`: the numbers of every row of `episodes.jsonl`.
    - `learning`, `components`, `tasks`, `time`: the figures that are not empty, as `.svg` and `.png`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    metrics: list[Row] = []
    episodes: list[Row] = []
    for experiment, run in ((e, run) for e in experiments for run in e.runs):
        seed = run.manifest.get("seed")
        identity = {"configuration": experiment.name, "run": run.path.name, "seed": seed}
        metrics += [identity | row for row in (*run.train, *run.evaluations)]
        episodes += [
            {
                **identity,
                **{k: getattr(score, k) for k in ("phase", "update", "task", "reward", "solved")},
                **{f"reward/{name}": value for name, value in score.points.items()},
                **{f"turn_{k}": value for k, value in enumerate(score.turns, 1)},
            }
            for score in run.scores
        ]
    for name, rows in (("metrics.csv", metrics), ("episodes.csv", episodes)):
        # Rows of training and of evaluation have different metrics.
        columns = list(dict.fromkeys(key for row in rows for key in row))
        write_csv(folder / name, columns, ([row.get(key) for key in columns] for row in rows))
    if installed("matplotlib") is None:
        logger.warning("matplotlib is not installed, so no figures are written, only the tables")
        return
    save(learning_curve(experiments), folder)
    if component_lists(experiments)[0]:
        save(component_charts(experiments), folder)
    if columns_of_tasks := rewards_by_task(experiments):
        save(task_map(columns_of_tasks), folder)
    if len(points := answer_times(experiments)) > 1:
        save(answer_time_chart(points), folder)
