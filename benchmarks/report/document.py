"""The report: one HTML file that is made from folders of runs and evaluations alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, experiments
from llm_decpomdp.benchmarks.report.elements.page import page, render, tag
from llm_decpomdp.benchmarks.report.files import write_files
from llm_decpomdp.benchmarks.report.panels import PANELS, Panel
from llm_decpomdp.benchmarks.report.panels.overview import about
from llm_decpomdp.benchmarks.report.panels.provenance import origins
from llm_decpomdp.benchmarks.runs.results import data_sets, read_results
from llm_decpomdp.utils.storage import RunFolder, write_atomically

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
