"""Introduction to the runs, for readers who know neither the environment nor the algorithm.

Environments, rewards and algorithms say it themselves, and manifests keep it: `describe_reward` has the fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.elements.page import definitions, plain, prose

DOCS = (
    "In the documentation of llm_decpomdp: how to read this page in `docs/evaluation.md`, every measure in "
    "`docs/metrics.md`, the algorithms in `docs/learners.md`."
)


def about(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield descriptions of tasks, algorithms and highest rewards, and pointers into the documentation."""
    places = {
        (str(r.manifest.get("environment")), _description(r.manifest).get("environment")): None
        for r in _runs(experiments)
    }
    several_places = len({name for name, _ in places}) > 1
    for name, text in places:
        if text:
            yield prose(f"`{name}`: {text}" if several_places else text)
    for text in dict.fromkeys(
        description.get("algorithm") for description in _descriptions(experiments)
    ):
        if text:
            yield prose(text)
    if most := _maxima(experiments):
        yield prose(f"Every turn is rewarded, the whole team alike, with {most}.")
    yield prose(DOCS, "small")


def _maxima(experiments: Sequence[Experiment]) -> str:
    """Return the highest rewards, as in "4.0 at most, 2.1 for single_agent"; empty where they are unknown."""
    names: dict[str, dict[str, None]] = {}
    for experiment in experiments:
        if most := maximum_reward([experiment]):
            names.setdefault(most, {})[experiment.name] = None
    if not names:
        return ""
    usual = max(names, key=lambda most: len(names[most]))
    exceptions = [f", {most} for {', '.join(of)}" for most, of in names.items() if most != usual]
    return f"{usual} at most{''.join(exceptions)}"


def maximum_reward(experiments: Sequence[Experiment]) -> str:
    """Return the most that a turn can earn, such as "4.0"; empty where the runs do not say it, or differ."""
    most = {_reward(description).get("maximum") for description in _descriptions(experiments)}
    (value,) = most if len(most) == 1 else (None,)
    return "" if value is None else str(round(float(value), 2))


def declared_components(experiment: Experiment) -> dict[str, Mapping[str, Any]]:
    """Return descriptions of the reward's components by name, without those that have none."""
    return {
        name: component
        for description in _descriptions([experiment])
        for name, component in _reward(description).get("components", {}).items()
        if component["text"]
    }


def glossary(experiments: Sequence[Experiment], names: Sequence[str]) -> str:
    """Return the descriptions of components as markup; empty where the environments have none."""
    texts: dict[str, dict[str, None]] = {name: {} for name in names}
    for experiment in experiments:
        for name, component in declared_components(experiment).items():
            if name in texts:
                texts[name][component["text"]] = None
    meanings = {plain(name): " Or: ".join(of) for name, of in texts.items() if of}
    return definitions(meanings) if meanings else ""


def _runs(experiments: Sequence[Experiment]) -> list[Any]:
    return [run for experiment in experiments for run in experiment.runs]


def _descriptions(experiments: Sequence[Experiment]) -> list[Mapping[str, Any]]:
    return [_description(run.manifest) for run in _runs(experiments)]


def _description(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    description: Mapping[str, Any] = manifest.get("description", {})  # older manifests have none
    return description


def _reward(description: Mapping[str, Any]) -> Mapping[str, Any]:
    reward: Mapping[str, Any] = description.get("reward", {})
    return reward
