"""The report of a run: one HTML file, made from the run folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from llm_decpomdp.benchmarks.charts import component_charts, learning_curve, plain, window
from llm_decpomdp.benchmarks.outcome import moment, outcome
from llm_decpomdp.benchmarks.page import (
    box,
    definitions,
    folded,
    listing,
    number,
    page,
    table,
    tag,
)
from llm_decpomdp.benchmarks.results import (
    Results,
    Row,
    component_names,
    data_sets,
    episode_reward,
    pairs,
    read_results,
    task_name,
)
from llm_decpomdp.benchmarks.transcripts import episode_column, first_prompts
from llm_decpomdp.storage import RunFolder, write_atomically

ACTIVITIES = {
    "sampling": "sampling (the models write)",
    "stepping": "stepping (environment and sandbox)",
    "learning": "learning (gradients and optimizer)",
}


def write_report(folder: RunFolder) -> Path:
    """Write `report.html`, a page without scripts that fetches nothing.

    Args:
        folder: A run, finished or not.

    Returns:
        The path of the report.

    Raises:
        ValueError: If the run has no metrics yet.
    """
    results = read_results(folder)
    manifest = results.manifest
    algorithm = manifest["algorithm"].upper() if "algorithm" in manifest else "Training"
    title = f"{algorithm} on {manifest.get('environment', 'a text environment')}"
    blocks = [
        *_opening(title, manifest),
        *outcome(results),
        *_curves(results),
        *_times(results.train),
        *_exhibit(results),
        *_origins(results),
    ]
    write_atomically(folder.report, page(title, blocks))
    return folder.report


def _opening(title: str, manifest: Row) -> Iterator[str]:
    facts = [
        manifest.get("model"),
        f"seed {manifest['seed']}" if "seed" in manifest else None,
        str(manifest.get("created", "")).replace("T", " ").replace("+00:00", " UTC"),
    ]
    yield tag("h1", title)
    yield tag("p", " · ".join(str(fact) for fact in facts if fact), "byline")
    stand_ins = {data["name"] for _, data in data_sets(manifest) if data.get("stand_in")}
    if stand_ins:
        names = ", ".join(sorted(stand_ins))
        text = (
            f"Stand-in data: bundled problems in place of {names}, not the benchmark's own problems. "
            "No number here compares with a published one."
        )
        yield tag("p", text, "banner")


def _curves(results: Results) -> Iterator[str]:
    keys = '<span class="key" style="--color: var(--train)">training</span>'
    if results.evaluations:
        keys += '<span class="key" style="--color: var(--evaluation)">evaluation</span>'
    average = f"Thin: each update; thick: mean of the last {window(len(results.train))} updates."
    bars = (
        " Diamonds: evaluations, with bars of ± one standard error." if results.evaluations else ""
    )
    caption = f"<figcaption>{keys}<br>{average}{bars}</figcaption>"
    yield tag("h2", "Learning")
    yield box("figure", [learning_curve(results.train, results.evaluations), caption])
    counted, silent = component_names((*results.train, *results.evaluations))
    if counted:
        yield tag("h2", "Where the reward comes from")
        text = "Mean points of each component by update, all on one scale; they add up to the team's reward."
        if silent:
            text += f" Always zero, and not drawn: {', '.join(map(plain, silent))}."
        charts = component_charts(results.train, results.evaluations)
        yield box("figure", [charts, tag("figcaption", text)])


def _times(train: tuple[Row, ...]) -> Iterator[str]:
    """Seconds of the parts of an update."""
    if not train:
        return
    keys = [key for key in train[0] if key.endswith("_seconds")]
    seconds = {key: fmean(row.get(key, 0.0) for row in train) for key in keys}
    total = sum(seconds.values())
    rows = []
    for key, value in seconds.items():
        activity = key.removesuffix("_seconds")
        share = f"{value / total:.0%}" if total else ""
        rows.append((ACTIVITIES.get(activity, plain(activity)), f"{value:.2f} s", share))
    yield tag("h2", "Time")
    yield table((f"mean of {len(train)} update{'s' * (len(train) > 1)}", "seconds", "share"), rows)
    if "tokens_per_second" in train[0]:
        speed = fmean(row["tokens_per_second"] for row in train)
        text = f"{speed:,.0f} sampled tokens per second of a whole update, on average."
        yield tag("p", text, "small")


def _exhibit(results: Results) -> Iterator[str]:
    """One episode before training and one after it."""
    found = pairs(results)
    if found:
        best, middle = found[0], found[len(found) // 2]
        before, after = best.before, best.after
        name = f"One task before and after training: {best.task}"
        text = (
            f"Chosen, not typical: of {len(found)} evaluation episodes, this one has the largest gain, "
            f"{number(best.gain, sign=True)}. The median one, of {middle.task}, went from "
            f"{number(episode_reward(middle.before))} to {number(episode_reward(middle.after))}."
        )
        titles = [moment(row) for row in (results.evaluations[0], results.evaluations[-1])]
    else:
        first, last = results.ends("train")
        if not (first and last):
            return
        before, after = first[0], last[0]
        name = "An episode of the first and one of the last update"
        text = "These are the first training episodes of both updates, on tasks that may differ."
        titles = [f"update {e['update']}: {task_name(e)}" for e in (before, after)]
    yield tag("h2", name)
    yield tag("p", text)
    yield first_prompts(before)
    if first_prompts(before) != first_prompts(after):
        yield tag("p", "The second episode began with:", "small")
        yield first_prompts(after)
    columns = zip(titles, (before, after), strict=True)
    shown = [episode_column(t[:1].upper() + t[1:], episode) for t, episode in columns]
    yield box("div", shown, "wide columns")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "—" if value in (None, "") else str(value)


def _origins(results: Results) -> Iterator[str]:
    manifest = results.manifest
    data = dict(data_sets(manifest))
    if data:
        yield tag("h2", "Data")
        keys = dict.fromkeys(key for about in data.values() for key in about)
        rows = [(plain(k), *(_shown(about.get(k)) for about in data.values())) for k in keys]
        yield table(("", *data), rows)
    yield tag("h2", "How to reproduce")
    git = manifest.get("git") or {}
    commit = f"git checkout {git['commit']}\n" if git.get("commit") else ""
    command = "llm-decpomdp train --config config.yaml --override output.name=reproduction"
    yield tag("p", "With config.yaml of this folder:")
    yield listing(commit + command)
    if git.get("dirty"):
        yield tag("p", "Files differed from this commit when the run began.", "small")
    if results.config_text:
        yield folded("Configuration", listing(results.config_text), note="config.yaml")
    rest = {key: value for key, value in manifest.items() if key != "data"}
    if rest:
        yield folded("Versions and machine", definitions(rest), note="manifest.json")
    yield tag(
        "footer",
        "Made from config.yaml, manifest.json, metrics.jsonl and episodes.jsonl of the run folder alone.",
        "small",
    )
