"""The report: one HTML file that is made from folders of runs and evaluations alone."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, experiments
from llm_decpomdp.benchmarks.report.analysis import credit, crossplay, story
from llm_decpomdp.benchmarks.report.charts import (
    component_charts,
    component_lists,
    learning_curve,
    save,
    task_map,
)
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
from llm_decpomdp.benchmarks.report.summary import about, outcome
from llm_decpomdp.benchmarks.report.training import (
    components,
    cooperation,
    costs,
    learning,
    rewards_by_task,
    tasks,
)
from llm_decpomdp.benchmarks.report.transcripts import transcripts
from llm_decpomdp.benchmarks.runs.results import Results, Row, Score, data_sets, read_results
from llm_decpomdp.utils.extras import installed
from llm_decpomdp.utils.storage import RunFolder, write_atomically, write_csv

MANY = 4
"""Number of experiments that have room side by side in the width of the text."""


def write_report(*folders: RunFolder, output: Path | None = None, files: bool = False) -> Path:
    """Write a page that fetches nothing, with all episodes in it.

    Args:
        folders: Runs, finished or not, and evaluations. Those whose configurations differ by the seed alone
            are shown as one.
        output: Where the page goes; by default `report.html` of the first folder.
        files: True to write tables as CSV and figures as SVG and PNG, too, into a folder next to the page
            that is named like it.

    Returns:
        The path of the page.

    Raises:
        ValueError: If nothing was measured in a folder yet.
        RunError: If the page cannot be written.
    """
    sets = experiments([read_results(folder) for folder in folders])
    path = output or folders[0].report
    with writing(path):
        body = sections(
            [tag("h1", _title(sets)), *opening(sets)],
            [(panel, sets) for panel in PANELS],
            origins(sets),
            "Made from config.yaml, manifest.json, metrics.jsonl and episodes.jsonl of the folders alone.",
        )
        write_atomically(path, page(_title(sets), [body]))
    if files:
        folder = path.with_name(f"{path.stem}_files")
        with writing(folder):
            write_files(sets, folder)
    return path


def report(paths: Sequence[Path], output: Path | None, files: bool) -> Path:
    """Check folders, and write the page of runs and evaluations, or that of a suite.

    Raises:
        ConfigError: If a folder holds nothing to report, or several are given and no output.
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
        if not path.is_dir():
            problem = "is a file" if path.exists() else "does not exist"
            raise ConfigError(f"{path} {problem}: name the folder of a run or evaluation")
        if not (path / "metrics.jsonl").is_file() and not (path / "episodes.jsonl").is_file():
            raise ConfigError(
                f"{path} holds neither metrics.jsonl nor episodes.jsonl: name the folder of a run or evaluation"
            )
    if output is None and len(paths) > 1:
        output = Path("report.html")
    try:
        return write_report(*map(RunFolder, paths), output=output, files=files)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _title(experiments: Sequence[Experiment]) -> str:
    manifests = [run.manifest for experiment in experiments for run in experiment.runs]
    algorithms, environments = (
        ", ".join(dict.fromkeys(str(m[key]) for m in manifests if key in m))
        for key in ("algorithm", "environment")
    )
    return f"{algorithms.upper() or 'Teams'} on {environments or 'a text environment'}"


def sections(
    head: Iterable[str],
    panels: Iterable[tuple[Panel, Sequence[Experiment]]],
    origin: Iterable[str],
    made_from: str,
) -> Markup:
    """Return the markup of a page.

    Args:
        head: The blocks of its head.
        panels: The panels with what they draw; those that draw nothing are left out.
        origin: The blocks of its last section.
        made_from: What it is made from, in words.
    """
    drawings = [(_widen(panel, of), Markup(panel.draw(of))) for panel, of in panels]
    parts = [(panel, html) for panel, html in drawings if html]
    return render("sections", list(head), parts, list(origin), made_from)


def _widen(panel: Panel, experiments: Sequence[Experiment]) -> Panel:
    """Widen a panel that shows several experiments side by side: beyond a half, for many beyond the text.

    The summary of several is widened too: a table with a column for every measure.
    """
    if len(experiments) < 2 or (panel.place not in ("left", "right") and panel.anchor != "summary"):
        return panel
    # A table with many columns does not fit the width of a text.
    many = len(experiments) > MANY or panel.anchor == "summary"
    return replace(panel, place="wide" if many else "")


def opening(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield models, seeds and time, descriptions, and a warning of stand-in data."""
    runs = [run for experiment in experiments for run in experiment.runs]
    seeds = list(dict.fromkeys(run.manifest["seed"] for run in runs if "seed" in run.manifest))
    created = max(str(run.manifest.get("created", "")) for run in runs)
    facts = [
        *dict.fromkeys(run.manifest.get("model") for run in runs),
        f"{len(runs)} runs" if len(runs) > 1 else None,
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}" if seeds else None,
        created.replace("T", " ").replace("+00:00", " UTC"),
    ]
    yield tag("p", " · ".join(str(fact) for fact in facts if fact), "byline")
    yield from about(experiments)
    data = [description for run in runs for _, description in data_sets(run.manifest)]
    stand_ins = {description["name"] for description in data if description.get("stand_in")}
    if stand_ins:
        names = ", ".join(sorted(stand_ins))
        text = (
            f"Stand-in data: bundled problems in place of {names}, not the benchmark's own problems. "
            "No number here compares with a published one."
        )
        yield tag("p", text, "banner")


@dataclass(frozen=True)
class Panel:
    """A part of the page."""

    anchor: str
    title: str
    """Its heading."""
    short: str
    """Its name in the navigation."""
    draw: Callable[[Sequence[Experiment]], str]
    """Its markup; a panel without any is left out."""
    place: str = ""
    """On wide screens: the `left` or `right` half, or `wide` for more than the width of the text."""


PANELS = (
    Panel("together", "Did they learn to work together?", "Together", story),
    Panel("summary", "Summary", "Summary", outcome),
    Panel("learning", "Learning", "Learning", learning),
    Panel("components", "Where the reward comes from", "Reward", components),
    Panel("tasks", "Task by task", "Tasks", tasks, "left"),
    Panel("cooperation", "How the agents work together", "Cooperation", cooperation, "right"),
    Panel("costs", "What it cost", "Cost", costs, "right"),
    Panel("credit", "Who earned the reward", "Credit", credit),
    Panel("crossplay", "Agents of different runs together", "Cross-play", crossplay),
    Panel("transcripts", "Transcripts", "Transcripts", transcripts, "wide"),
)


SHOWN_ELSEWHERE = ("data", "description", "first_prompts")
"""Keys of a manifest that have a place of their own on the page."""


def origins(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield the data, the commands that reproduce the runs, and their details."""
    yield from data_table(experiments[0].runs[0])
    alone = sum(len(experiment.runs) for experiment in experiments) == 1
    yield tag("h3", "Commands")
    place = "this folder" if alone else "the folders of the runs"
    yield tag("p", f"With the configuration in {place}:", "small")
    for experiment in experiments:
        if len(experiments) > 1:
            yield tag("h4", experiment.name)
        yield from _commands(experiment, alone=alone)
    for run in (run for experiment in experiments for run in experiment.runs):
        yield from details(run)


def data_table(run: Results) -> Iterator[str]:
    """Yield the data of a run or evaluation."""
    data = dict(data_sets(run.manifest))
    if data:
        yield tag("h3", "Data")
        keys = dict.fromkeys(key for about in data.values() for key in about)
        rows = [(plain(k), *(_format_value(about.get(k)) for about in data.values())) for k in keys]
        yield table("data", ("", *data), rows)
        for key in keys:
            listed = {
                f"{name}": about[key] for name, about in data.items() if _lists(about.get(key))
            }
            if listed:
                yield details_block(plain(key).capitalize(), definitions(listed))


def _commands(experiment: Experiment, *, alone: bool) -> Iterator[str]:
    for run in experiment.runs[:1]:
        if not run.config_text:
            continue
        git = run.manifest.get("git")
        seeds = [member.manifest.get("seed") for member in experiment.runs]
        config = "config.yaml" if alone else shlex.quote(f"{run.path.name}/config.yaml")
        lines = [
            f"llm-decpomdp train --config {config} --override output.name=reproduction"
            + (f"-{seed} seed={seed}" if len(seeds) > 1 else "")
            for seed in seeds
        ]
        yield from reproduction(git, lines)


def reproduction(git: Mapping[str, Any] | None, lines: Sequence[str]) -> Iterator[str]:
    """Yield the commands that compute results again, at the commit of a manifest if it has one."""
    git = git or {}
    checkout = [f"git checkout {git['commit']}"] if git.get("commit") else []
    yield listing("\n".join([*checkout, *lines]))
    if git.get("dirty"):
        yield tag("p", "Files differed from this commit when the run began.", "small")


def details(run: Results) -> Iterator[str]:
    """Yield the configuration and the versions of a run or evaluation."""
    name = run.path.name
    if run.config_text:
        yield details_block("Configuration", listing(run.config_text), note=f"{name}/config.yaml")
    rest = {key: value for key, value in run.manifest.items() if key not in SHOWN_ELSEWHERE}
    if rest:
        yield details_block("Versions and machine", definitions(rest), note=f"{name}/manifest.json")


def _lists(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value)


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return f"{len(value)}, listed below" if value else "none"
    return "—" if value in (None, "") else str(value)


logger = logging.getLogger(__name__)


def write_files(experiments: Sequence[Experiment], folder: Path) -> None:
    """Write everything into a folder.

    - `metrics.csv`: every row of `metrics.jsonl`, with its run, seed and configuration.
    - `episodes.csv`: one line for each row of `episodes.jsonl`, in numbers.
    - `learning`, `components`, `tasks`: the figures, `.svg` and `.png`; those that have something to show.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = [(experiment, run) for experiment in experiments for run in experiment.runs]
    metrics = [
        _run_identity(*of) | row for of in runs for row in (*of[1].train, *of[1].evaluations)
    ]
    _write_rows(folder / "metrics.csv", metrics)
    scores = [_run_identity(*of) | _numbers(score) for of in runs for score in of[1].scores]
    _write_rows(folder / "episodes.csv", scores)
    if installed("matplotlib") is None:
        logger.warning(
            "only the tables are written: figures need matplotlib, which is not installed"
        )
        return
    save(learning_curve(experiments), folder)
    if component_lists(experiments)[0]:
        save(component_charts(experiments), folder)
    columns = rewards_by_task(experiments)
    if columns:
        save(task_map(columns), folder)


def _write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a line for each row, under all their keys."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    write_csv(path, columns, ([row.get(key) for key in columns] for row in rows))


def _run_identity(experiment: Experiment, run: Results) -> Row:
    seed = run.manifest.get("seed")
    return {"configuration": experiment.name, "run": run.path.name, "seed": seed}


def _numbers(score: Score) -> Row:
    return {
        **{key: getattr(score, key) for key in ("phase", "update", "task", "reward", "solved")},
        **{f"reward/{name}": value for name, value in score.points.items()},
        **{f"turn_{k}": value for k, value in enumerate(score.turns, 1)},
    }
