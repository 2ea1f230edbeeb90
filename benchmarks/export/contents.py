"""The contents of an export: all trajectories as rows, or preference pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llm_decpomdp.benchmarks.export.source import (
    DIALOGUE,
    PLACE,
    Content,
    Decision,
    EpisodeSource,
    ExportColumn,
)
from llm_decpomdp.benchmarks.runs.results import Row

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.preferences.pairs import SamplePair

PAIR_KINDS = ("joint", "single")

TRAJECTORIES = {
    **PLACE,
    "sample": ExportColumn("int64", "the joint sample of the group, counted from 0"),
    "chosen": ExportColumn(
        "bool",
        "whether the episode continued or ended with this joint sample; null if it continued with all",
    ),
    "agent": ExportColumn("string", "id of the agent"),
    "completion_index": ExportColumn(
        "int64", "index of the completion among the agent's completions in the group"
    ),
    "prompt": ExportColumn("string", "the agent's observation, before the chat template"),
    "completion": ExportColumn("string", "the agent's action"),
    "finish_reason": ExportColumn(
        "string",
        "`stop`, `length` if the token limit ended the text, `skip` if the prompt was too long, or "
        "`refusal` if a remote model refused to answer",
    ),
    "token_ids": ExportColumn(
        "int64[]", "the sampled tokens with the end token; null if not recorded"
    ),
    "log_probs": ExportColumn(
        "float32[]",
        "log-probability of each token in nats, at the sampling temperature and before `top_p` and `top_k`; "
        "null if not recorded",
    ),
    "reward": ExportColumn("float64", "the team's reward of the joint sample"),
    "return": ExportColumn(
        "float64",
        "in a tree, the reward plus the discounted mean return of the next turn; otherwise the reward",
    ),
    "advantage": ExportColumn(
        "float64", "the advantage that the learner computed; null if the agent did not learn"
    ),
}
"""Columns of every export of trajectories. The numbers of the environment follow."""


def trajectories(source: EpisodeSource) -> Content:
    """Return all joint samples of a run or an evaluation, by group, joint sample and agent.

    After `TRAJECTORIES` come the numbers in the infos of the environment, such as `solved` and
    `reward/<component>`, except those with the name of another column.
    """
    keys = (
        key
        for row in source.rows()
        for group in row["groups"]
        for info in group["infos"]
        for key in info
    )
    numbers = {
        key: ExportColumn(
            "float64",
            "a component of the reward; the components add up to the reward"
            if key.startswith("reward/")
            else "a number from the infos of the environment",
        )
        for key in dict.fromkeys(keys)
        if key not in TRAJECTORIES  # such as `turn`, which has a column
    }
    dialogue = DIALOGUE if source.has_dialogues else {}

    def rows(phase: str) -> Iterator[Row]:
        for decision in source.decisions(phase):
            agents = list(decision.group["completions"])
            for sample, indices in enumerate(decision.group["joint"]):
                info = decision.group["infos"][sample]
                values = {key: info.get(key) for key in numbers}
                for agent, index in zip(agents, indices, strict=True):
                    row = {**decision.place, **_row(decision, sample, agent, index), **values}
                    yield {**row, **decision.history(agent)} if dialogue else row

    return Content("trajectories", {**TRAJECTORIES, **numbers, **dialogue}, rows)


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
    "pair": ExportColumn("int64", "index of the pair in its group, counted from 0"),
    "agent": ExportColumn("string", "id of the agent"),
    "model": ExportColumn("string", "name of the model in the configuration; null if unknown"),
    "prompt": ExportColumn("string", "the agent's observation, the same in both samples"),
    "chosen": ExportColumn(
        "string", "the agent's completion in the joint sample with the higher return"
    ),
    "rejected": ExportColumn(
        "string", "the agent's completion in the joint sample with the lower return"
    ),
    "chosen_finish_reason": ExportColumn(
        "string", "`finish_reason` of `chosen`, as in trajectories"
    ),
    "rejected_finish_reason": ExportColumn("string", "`finish_reason` of `rejected`"),
    "chosen_token_ids": ExportColumn(
        "int64[]", "the sampled tokens of `chosen`; null if not recorded"
    ),
    "rejected_token_ids": ExportColumn(
        "int64[]", "the sampled tokens of `rejected`; null if not recorded"
    ),
    "chosen_sample": ExportColumn("int64", "the joint sample of `chosen`, counted from 0"),
    "rejected_sample": ExportColumn("int64", "the joint sample of `rejected`, counted from 0"),
    "chosen_return": ExportColumn("float64", "the team's return of the sample of `chosen`"),
    "rejected_return": ExportColumn("float64", "the team's return of the sample of `rejected`"),
    "margin": ExportColumn("float64", "the difference of the two returns, above 0"),
    "others": ExportColumn(
        "string",
        "JSON: prompt and completion of each agent whose completion is the same in both samples",
    ),
}
"""Columns of pairs. Trainers of preferences read `prompt`, `chosen` and `rejected`."""


@dataclass(frozen=True)
class PairChoice:
    """Pairs to export of each group: those with the largest difference of returns."""

    kind: str = "joint"
    per_group: int = 1
    """Most pairs of a group. No two of them differ in the same completion."""
    min_margin: float = 0.0


def pairs(source: EpisodeSource, choice: PairChoice) -> Content:
    """Return a row for each pair and each agent whose completions differ between its two joint samples.

    Of pairs with equal differences the first ones are taken. Groups with equal returns have no pair.
    """
    dialogue = DIALOGUE if source.has_dialogues else {}

    def rows(phase: str) -> Iterator[Row]:
        for decision in source.decisions(phase):
            models = source.models(list(decision.group["completions"]))
            for number, match in enumerate(_chosen(decision, choice)):
                for row in _rows_of_pair(decision, number, match, models):
                    yield {**row, **decision.history(row["agent"])} if dialogue else row

    return Content("pairs", {**PAIRS, **dialogue}, rows)


def _chosen(decision: Decision, choice: PairChoice) -> list[SamplePair]:
    # Imported here, because only an export of pairs needs preferences.
    from llm_decpomdp.algorithms.preferences.pairs import (
        MAX_JOINT_SAMPLES,
        SamplePair,
        answers,
        disjoint,
        matches,
    )

    texts = answers(decision.samples)
    learns = [True] * len(decision.samples.completions)
    returns = np.array(decision.returns)
    # A large group has too many pairs. The largest differences are among the best and the worst samples.
    order, half = np.argsort(returns, kind="stable"), MAX_JOINT_SAMPLES // 2
    extreme = np.unique([*order[:half], *order[-half:]])
    candidates = [
        SamplePair(int(extreme[match.winner]), int(extreme[match.loser]), match.gap)
        for match in matches(texts[extreme], returns[extreme], learns, choice.kind)
        if match.gap >= choice.min_margin
    ]
    candidates.sort(key=lambda match: -match.gap)
    return disjoint(candidates, decision.samples, texts, learns, choice.per_group)


def _rows_of_pair(
    decision: Decision, number: int, match: SamplePair, models: Mapping[str, str | None]
) -> Iterator[Row]:
    from llm_decpomdp.algorithms.preferences.pairs import content

    group = decision.group
    compared: dict[str, list[int]] = {}
    alike: dict[str, list[str]] = {}
    for position, (agent, completions) in enumerate(decision.samples.completions.items()):
        indices = [group["joint"][sample][position] for sample in match[:2]]
        # Equal completions of an agent say nothing about its preference.
        if content(completions[indices[0]]) == content(completions[indices[1]]):
            alike[agent] = [group["prompts"][agent], group["completions"][agent][indices[0]]]
        else:
            compared[agent] = indices
    same = json.dumps(alike, ensure_ascii=False)
    for agent, indices in compared.items():
        texts, reasons, tokens = (
            [part[agent][index] for index in indices] if part else [None, None]
            for part in map(group.get, ("completions", "finish_reasons", "token_ids"))
        )
        yield {
            **decision.place,
            "pair": number,
            "agent": agent,
            "model": models.get(agent),
            "prompt": group["prompts"][agent],
            "chosen": texts[0],
            "rejected": texts[1],
            "chosen_finish_reason": reasons[0],
            "rejected_finish_reason": reasons[1],
            "chosen_token_ids": tokens[0],
            "rejected_token_ids": tokens[1],
            "chosen_sample": match.winner,
            "rejected_sample": match.loser,
            "chosen_return": decision.returns[match.winner],
            "rejected_return": decision.returns[match.loser],
            "margin": match.gap,
            "others": same,
        }
