"""Preference pairs: the best joint sample of a group against the worst, agent by agent."""

from __future__ import annotations

from collections.abc import Iterator

from llm_decpomdp.benchmarks.export.source import PLACE, Column, Content, Decision, Source
from llm_decpomdp.benchmarks.runs.results import Row

COLUMNS = {
    **PLACE,
    "agent": Column("string", "id of the agent"),
    "prompt": Column("string", "what the agent saw, in both samples"),
    "chosen": Column("string", "its completion in the joint sample with the highest return"),
    "rejected": Column("string", "its completion in the joint sample with the lowest return"),
    "chosen_sample": Column("int64", "that joint sample, counted from 0"),
    "rejected_sample": Column("int64", "that joint sample, counted from 0"),
    "chosen_return": Column("float64", "the team's return of the one"),
    "rejected_return": Column("float64", "the team's return of the other"),
    "margin": Column("float64", "the difference of the two, above 0"),
}
"""The columns of pairs; `prompt`, `chosen` and `rejected` are what trainers of preferences look for."""


def pairs(source: Source, min_margin: float) -> Content:
    """Return a row for each agent of each group that has a best and a worst joint sample.

    Of samples with equal returns the first counts. Groups without a difference make no pair, nor do agents
    that said the same in both.

    Args:
        source: A run or an evaluation.
        min_margin: The least difference of the returns.
    """
    return Content("pairs", COLUMNS, lambda phase: _rows(source, phase, min_margin))


def _rows(source: Source, phase: str, min_margin: float) -> Iterator[Row]:
    for decision in source.decisions(phase):
        yield from _pairs(decision, min_margin)


def _pairs(decision: Decision, min_margin: float) -> Iterator[Row]:
    values, group = decision.returns, decision.group
    samples = range(len(values))
    best, worst = max(samples, key=values.__getitem__), min(samples, key=values.__getitem__)
    margin = values[best] - values[worst]
    if margin <= 0 or margin < min_margin:
        return
    for position, (agent, completions) in enumerate(group["completions"].items()):
        chosen = completions[group["joint"][best][position]]
        rejected = completions[group["joint"][worst][position]]
        if chosen == rejected:
            continue
        yield {
            **decision.place,
            "agent": agent,
            "prompt": group["prompts"][agent],
            "chosen": chosen,
            "rejected": rejected,
            "chosen_sample": best,
            "rejected_sample": worst,
            "chosen_return": values[best],
            "rejected_return": values[worst],
            "margin": margin,
        }
