"""Texts of a report from the descriptions of environments, rewards and algorithms in the manifest.

`describe_reward` has the fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.page import definitions, plain, prose
from llm_decpomdp.benchmarks.runs.results import is_cumulative

DOCS = (
    "Documentation: `docs/evaluation.md` explains this page, `docs/metrics.md` every metric, `docs/learners.md` "
    "the algorithms."
)


def introduction(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield descriptions of tasks, algorithms and maximum rewards, and pointers into the documentation."""
    environments = {
        (
            str(run.manifest.get("environment")),
            read_description(run.manifest).get("environment"),
        ): None
        for experiment in experiments
        for run in experiment.runs
    }
    several = len({name for name, _ in environments}) > 1
    for name, text in environments:
        if text:
            yield prose(f"`{name}`: {text}" if several else text)
    algorithms = (text.get("algorithm") for text in _descriptions(experiments))
    yield from map(prose, filter(None, dict.fromkeys(algorithms)))
    names: dict[str, list[str]] = {}
    for experiment in experiments:
        if maximum := maximum_reward([experiment]):
            names.setdefault(maximum, []).append(experiment.name)
    if names:
        usual = max(names, key=lambda maximum: len(names[maximum]))
        groups = [f"{value} for {', '.join(names[value])}" for value in names if value != usual]
        exceptions = f" ({'; '.join(groups)})" if groups else ""
        text = f"Each turn has one reward for the whole team, of at most {usual}{exceptions}."
        if any(is_cumulative(run.manifest) for e in experiments for run in e.runs):
            text += " The rewards of an episode sum to its score: reward means this sum."
        yield prose(text)
    yield prose(DOCS, "small")


def maximum_reward(experiments: Sequence[Experiment]) -> str:
    """Return the maximum reward of a turn, such as "4.0"; empty if it is unknown or differs."""
    values = {d.get("reward", {}).get("maximum") for d in _descriptions(experiments)}
    (value,) = values if len(values) == 1 else (None,)
    return "" if value is None else str(round(float(value), 2))


def component_texts(experiments: Sequence[Experiment], names: Sequence[str]) -> str:
    """Return the descriptions of components as markup; empty if the environments have none."""
    texts: dict[str, dict[str, None]] = {name: {} for name in names}
    for experiment in experiments:
        for name, component in declared_components(experiment).items():
            if name in texts:
                texts[name][component["text"]] = None
    meanings = {plain(name): " Or: ".join(of) for name, of in texts.items() if of}
    return definitions(meanings) if meanings else ""


def declared_components(experiment: Experiment) -> dict[str, Mapping[str, Any]]:
    """Return the components that the environments of an experiment describe, by name."""
    return {
        name: component
        for description in _descriptions([experiment])
        for name, component in description.get("reward", {}).get("components", {}).items()
        if component["text"]
    }


def _descriptions(experiments: Sequence[Experiment]) -> list[Mapping[str, Any]]:
    return [read_description(run.manifest) for e in experiments for run in e.runs]


def read_description(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a manifest says about environment, reward and algorithm."""
    description: Mapping[str, Any] = manifest.get("description", {})  # older manifests have none
    return description
