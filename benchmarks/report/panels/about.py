"""What the runs are about, for readers who know neither the environment nor the algorithm.

Environments, rewards and algorithms say it themselves, and manifests keep it: `describe_reward` has the fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.elements.page import definitions, plain, prose

DOCS = (
    "In the documentation of llm_decpomdp: how to read this page in `docs/report.md`, every measure in "
    "`docs/metrics.md`, the algorithms in `docs/learners.md`."
)


def about(found: Sequence[Experiment]) -> Iterator[str]:
    """What the agents do, how they learn, out of how much the reward is, and where more is said."""
    places = {
        (str(r.manifest.get("environment")), _said(r.manifest).get("environment")): None
        for r in _runs(found)
    }
    several = len({name for name, _ in places}) > 1
    for name, text in places:
        if text:
            yield prose(f"`{name}`: {text}" if several else text)
    for text in dict.fromkeys(said.get("algorithm") for said in _descriptions(found)):
        if text:
            yield prose(text)
    if most := _maxima(found):
        yield prose(f"Every turn is rewarded, the whole team alike, with {most}.")
    yield prose(DOCS, "small")


def _maxima(found: Sequence[Experiment]) -> str:
    """Such as "4.0 at most, 2.1 for single_agent"; empty where the runs do not say it."""
    names: dict[str, dict[str, None]] = {}
    for experiment in found:
        if most := out_of([experiment]):
            names.setdefault(most, {})[experiment.name] = None
    if not names:
        return ""
    usual = max(names, key=lambda most: len(names[most]))
    others = [f", {most} for {', '.join(of)}" for most, of in names.items() if most != usual]
    return f"{usual} at most{''.join(others)}"


def out_of(found: Sequence[Experiment]) -> str:
    """The most that a turn can earn, such as "4.0"; empty where the runs do not say it, or differ."""
    most = {_reward(said).get("maximum") for said in _descriptions(found)}
    (value,) = most if len(most) == 1 else (None,)
    return "" if value is None else str(round(float(value), 2))


def declared(experiment: Experiment) -> dict[str, Mapping[str, Any]]:
    """What each component of the reward is for, by name; without those of which nothing is said."""
    return {
        name: component
        for said in _descriptions([experiment])
        for name, component in _reward(said).get("components", {}).items()
        if component["text"]
    }


def glossary(found: Sequence[Experiment], names: Sequence[str]) -> str:
    """Each of these components in the sentences of its environments; nothing where they do not say it."""
    texts: dict[str, dict[str, None]] = {name: {} for name in names}
    for experiment in found:
        for name, component in declared(experiment).items():
            if name in texts:
                texts[name][component["text"]] = None
    said = {plain(name): " Or: ".join(of) for name, of in texts.items() if of}
    return definitions(said) if said else ""


def _runs(found: Sequence[Experiment]) -> list[Any]:
    return [run for experiment in found for run in experiment.runs]


def _descriptions(found: Sequence[Experiment]) -> list[Mapping[str, Any]]:
    return [_said(run.manifest) for run in _runs(found)]


def _said(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    said: Mapping[str, Any] = manifest.get("description", {})  # older manifests have none
    return said


def _reward(said: Mapping[str, Any]) -> Mapping[str, Any]:
    reward: Mapping[str, Any] = said.get("reward", {})
    return reward
