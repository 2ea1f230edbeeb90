"""The end of the page: data, commands that reproduce the runs, configurations and versions."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.elements.page import (
    definitions,
    details_block,
    listing,
    plain,
    table,
    tag,
)
from llm_decpomdp.benchmarks.runs.results import Results, data_sets

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
