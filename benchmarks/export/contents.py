"""The contents of an export: all trajectories as rows, or preference pairs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from llm_decpomdp.benchmarks.export.source import PLACE, Column, Content, Decision, Source
from llm_decpomdp.benchmarks.runs.results import Row

TRAJECTORIES = {
    **PLACE,
    "sample": Column("int64", "the joint sample of the group, counted from 0"),
    "chosen": Column("bool", "whether it alone went on or ended the episode; null where all go on"),
    "agent": Column("string", "id of the agent"),
    "completion_index": Column("int64", "which of the agent's completions in the group it is"),
    "prompt": Column("string", "what the agent saw: its observation, before the chat template"),
    "completion": Column("string", "what it answered: its action"),
    "finish_reason": Column(
        "string",
        "`stop`, `length` where the token limit ended the text, `skip` where the prompt was too long, or "
        "`refusal` where a remote model did not answer",
    ),
    "token_ids": Column("int64[]", "the sampled tokens, the end included; null if not recorded"),
    "log_probs": Column(
        "float32[]",
        "log-probability of each token in nats, at the sampling temperature and before `top_p` and `top_k`; "
        "null if not recorded",
    ),
    "reward": Column("float64", "the team's reward of the joint sample"),
    "return": Column(
        "float64", "in a tree the reward and the discounted mean of what followed; else the reward"
    ),
    "advantage": Column(
        "float64", "what the learner made of the completion; null where the agent did not learn"
    ),
}
"""The columns of every export of trajectories; those of the environment's numbers come after them."""


def trajectories(source: Source) -> Content:
    """Return all joint samples of a run or an evaluation, by group, joint sample and agent.

    After `TRAJECTORIES` come the numbers that the environment tells of each joint sample, such as `solved` and
    `reward/<component>`; not those that have the name of another column.
    """
    numbers = _number_columns(source)
    return Content(
        "trajectories",
        {**TRAJECTORIES, **numbers},
        lambda phase: _trajectories(source, phase, numbers),
    )


def _number_columns(source: Source) -> dict[str, Column]:
    keys = {
        key: None
        for row in source.rows()
        for group in row["groups"]
        for info in group["infos"]
        for key in info
    }
    return {key: Column("float64", _meaning(key)) for key in keys if key not in TRAJECTORIES}


def _meaning(key: str) -> str:
    if key.startswith("reward/"):
        return "a component of the reward; they add up to it"
    return "a number in the environment's infos"


def _trajectories(source: Source, phase: str, numbers: Iterable[str]) -> Iterator[Row]:
    for decision in source.decisions(phase):
        agents = list(decision.group["completions"])
        for sample, indices in enumerate(decision.group["joint"]):
            info = decision.group["infos"][sample]
            values = {key: info.get(key) for key in numbers}
            for agent, index in zip(agents, indices, strict=True):
                yield {**decision.place, **_row(decision, sample, agent, index), **values}


def _row(decision: Decision, sample: int, agent: str, index: int) -> Row:
    group, advantages = decision.group, decision.advantages
    chosen = group["chosen"]
    return {
        "sample": sample,
        "chosen": None if chosen is None else chosen == sample,
        "agent": agent,
        "completion_index": index,
        "prompt": group["prompts"][agent],
        "completion": group["completions"][agent][index],
        "finish_reason": group["finish_reasons"][agent][index],
        "token_ids": group["token_ids"][agent][index] if "token_ids" in group else None,
        "log_probs": group["log_probs"][agent][index] if "log_probs" in group else None,
        "reward": group["rewards"][sample],
        "return": decision.returns[sample],
        "advantage": advantages[agent][index] if agent in advantages else None,
    }


PAIRS = {
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
    "others": Column(
        "string", "JSON: prompt and completion of each agent that said the same in both samples"
    ),
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
    return Content("pairs", PAIRS, lambda phase: _pairs(source, phase, min_margin))


def _pairs(source: Source, phase: str, min_margin: float) -> Iterator[Row]:
    for decision in source.decisions(phase):
        yield from _of_group(decision, min_margin)


def _of_group(decision: Decision, min_margin: float) -> Iterator[Row]:
    values, group = decision.returns, decision.group
    samples = range(len(values))
    best, worst = max(samples, key=values.__getitem__), min(samples, key=values.__getitem__)
    margin = values[best] - values[worst]
    if margin <= 0 or margin < min_margin:
        return
    answers = {
        agent: (
            completions[group["joint"][best][position]],
            completions[group["joint"][worst][position]],
        )
        for position, (agent, completions) in enumerate(group["completions"].items())
    }
    same = {a: [group["prompts"][a], text] for a, (text, loser) in answers.items() if text == loser}
    same_text = json.dumps(same, ensure_ascii=False)
    for agent, (chosen, rejected) in answers.items():
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
            "others": same_text,
        }
