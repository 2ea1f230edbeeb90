"""The panel of credit: who earned the team's reward, from what `llm-decpomdp credit` has left in the folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llm_decpomdp.benchmarks.cooperation.credit_summary import (
    MEASURES,
    NAMES,
    TITLES,
    Moment,
    lines,
    read,
)
from llm_decpomdp.benchmarks.evaluation.estimates import shown
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate
from llm_decpomdp.benchmarks.report.elements.page import definitions, folded, table, tag

MEANINGS: Mapping[str, str] = {
    "shapley": "the agent's part of what the team earned beyond silence: parts add up",
    "difference": "what the team would lose if the agent said nothing",
    "gold": "what the team would gain, perhaps less than nothing, if the agent gave the data's own answer",
    "choice": "how far the reward moves with which of its answers the agent gives, while the others stay",
    "lazy": "share of answers without which the team would have earned as much, where it earned anything",
    "dispensable": "share of what passed that would have passed without the agent",
}


def credit(found: Sequence[Experiment]) -> str:
    """The measures of each agent at the first and last evaluation; nothing where nobody has asked for them."""
    moments = [(title, moment) for experiment in found for title, moment in _moments(experiment)]
    if not moments:
        return ""
    titles = len(moments) > 1
    rows = [
        (f"{title}: {agent}" if titles else agent, of)
        for title, moment in moments
        for agent, of in lines(moment)
    ]
    names = [name for name in MEASURES if any(name in of for _, of in rows)]
    cells = [[who, *(_cell(of.get(name)) for name in names)] for who, of in rows]
    lead = f"Completions were replaced, and what came of them was graded again. {_team(moments)}"
    told = {TITLES[name]: MEANINGS[name] for name in names}
    return "\n".join(
        [
            tag("p", lead),
            table("credit", ["agent", *(TITLES[name] for name in names)], cells),
            folded("What the columns say", definitions(told)),
        ]
    )


def _moments(experiment: Experiment) -> Iterator[tuple[str, Moment]]:
    """The first and the last moment of each run, under a name that tells them apart."""
    for run in experiment.runs:
        for phase in NAMES:
            found = read(run.path, phase)
            for moment in found if len(found) < 3 else (found[0], found[-1]):
                yield ", ".join([run.path.name, *_when(moment, experiment)]), moment


def _when(moment: Moment, experiment: Experiment) -> list[str]:
    if not experiment.trained:
        return []
    if moment.phase == "train":
        return [f"training, update {moment.update}"]
    return ["before training" if moment.update == 0 else f"after update {moment.update}"]


def _team(moments: Sequence[tuple[str, Moment]]) -> str:
    """What the teams earned, and what silence would have."""
    parts = [
        f"{title}: reward {shown(moment.team['reward'])}, in silence {shown(moment.team['silent'])}."
        for title, moment in moments
    ]
    return " ".join(parts) if len(parts) < 4 else "In brackets: 95 % intervals over tasks."


def _cell(one: Estimate | None) -> str:
    return "—" if one is None else shown(one)
