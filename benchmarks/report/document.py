"""The report: one HTML file that is made from folders of runs and evaluations alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from llm_decpomdp.benchmarks.config.errors import ConfigError, writing
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, experiments
from llm_decpomdp.benchmarks.report.elements.page import box, page, tag
from llm_decpomdp.benchmarks.report.files import write_files
from llm_decpomdp.benchmarks.report.layout import PANELS, Panel, placed
from llm_decpomdp.benchmarks.report.panels.about import about
from llm_decpomdp.benchmarks.report.panels.provenance import origins
from llm_decpomdp.benchmarks.runs.results import data_sets, read_results
from llm_decpomdp.utils.storage import RunFolder, write_atomically


def write_report(*folders: RunFolder, output: Path | None = None, files: bool = False) -> Path:
    """Write a page that fetches nothing, with all episodes in it.

    Args:
        folders: Runs, finished or not, and evaluations. Those whose configurations differ by the seed alone
            are shown as one.
        output: Where the page goes; by default `report.html` of the first folder.
        files: Whether to write tables as CSV and figures as SVG and PNG, too, into a folder next to the page
            that is named like it.

    Returns:
        The path of the page.

    Raises:
        ValueError: If nothing was measured in a folder yet.
        RunError: If the page cannot be written.
    """
    found = experiments([read_results(folder) for folder in folders])
    path = output or folders[0].report
    with writing(path):
        write_atomically(path, page(_title(found), _blocks(found)))
    if files:
        folder = path.with_name(f"{path.stem}_files")
        with writing(folder):
            write_files(found, folder)
    return path


def report(paths: Sequence[Path], output: Path | None, files: bool) -> Path:
    """The command `report`: as `write_report`, of folders that may not be there; or the page of a suite.

    Raises:
        ConfigError: If a folder holds nothing to report, or several are given and no output.
        RunError: If the page cannot be written.
    """
    if len(paths) == 1 and (paths[0] / "suite.json").is_file():
        from llm_decpomdp.benchmarks.report.suites import write_suite_report

        if files:
            raise ConfigError("a suite has league.csv; --files is for the folders of its trainings")
        with writing(output or paths[0] / "report.html"):
            return write_suite_report(paths[0], output)
    for path in paths:
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


def _title(found: Sequence[Experiment]) -> str:
    manifests = [run.manifest for experiment in found for run in experiment.runs]
    names = list(dict.fromkeys(str(m["algorithm"]).upper() for m in manifests if "algorithm" in m))
    places = list(dict.fromkeys(str(m["environment"]) for m in manifests if "environment" in m))
    return f"{', '.join(names) or 'Teams'} on {', '.join(places) or 'a text environment'}"


def _blocks(found: Sequence[Experiment]) -> Iterator[str]:
    panels = [(placed(panel, found), panel.draw(found)) for panel in PANELS]
    yield from sections(
        [tag("h1", _title(found)), *opening(found)],
        [(panel, html) for panel, html in panels if html],
        origins(found),
        "Made from config.yaml, manifest.json, metrics.jsonl and episodes.jsonl of the folders alone.",
    )


def sections(
    head: Iterable[str], shown: Sequence[tuple[Panel, str]], origin: Iterable[str], made_from: str
) -> Iterator[str]:
    """The blocks of a page.

    Args:
        head: The blocks of its head.
        shown: The panels with their markup.
        origin: The blocks of its last section.
        made_from: What it is made from, in words.
    """
    links = [f'<a href="#{p.anchor}">{escape(p.short)}</a>' for p, _ in shown]
    links.append('<a href="#origins">Origin</a>')
    yield '<a class="skip" href="#transcripts">Skip to the transcripts</a>'
    yield box("header", head)
    yield '<nav aria-label="Parts of the report"><div>' + "".join(links) + "</div></nav>"
    yield "<main>"
    for panel, html in shown:
        heading = tag("h2", panel.title)
        yield f'<section id="{panel.anchor}" class="{panel.place}">\n{heading}\n{html}\n</section>'
    yield '<section id="origins">'
    yield tag("h2", "Where it comes from")
    yield from origin
    yield "</section>\n</main>"
    yield tag("footer", made_from, "small")


def opening(found: Sequence[Experiment]) -> Iterator[str]:
    """Models, seeds and time, what all of it is about, and a warning of stand-in data."""
    runs = [run for experiment in found for run in experiment.runs]
    seeds = list(dict.fromkeys(run.manifest["seed"] for run in runs if "seed" in run.manifest))
    created = max(str(run.manifest.get("created", "")) for run in runs)
    facts = [
        *dict.fromkeys(run.manifest.get("model") for run in runs),
        f"{len(runs)} runs" if len(runs) > 1 else None,
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}" if seeds else None,
        created.replace("T", " ").replace("+00:00", " UTC"),
    ]
    yield tag("p", " · ".join(str(fact) for fact in facts if fact), "byline")
    yield from about(found)
    data = [about for run in runs for _, about in data_sets(run.manifest)]
    stand_ins = {about["name"] for about in data if about.get("stand_in")}
    if stand_ins:
        names = ", ".join(sorted(stand_ins))
        text = (
            f"Stand-in data: bundled problems in place of {names}, not the benchmark's own problems. "
            "No number here compares with a published one."
        )
        yield tag("p", text, "banner")
