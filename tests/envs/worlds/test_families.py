"""What all families with generated tasks share: disjoint splits, the contract, and options that are refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from llm_decpomdp import check_env, make
from llm_decpomdp.benchmarks.evaluation.strategies import check_strategies

GATHER_EASY = {"size": 5, "amount": 1, "steps": 2, "num_turns": 2}
GATHER_HARD = {"size": 12, "num_agents": 3, "num_turns": 6}
GATHER_TINY = {**GATHER_EASY, "size": 3, "steps": 1, "wording": "bare", "split": "all"}
SPLITS = [
    *(("build-house-v0", {"size": size}, "layers") for size in ("small", "medium", "large")),
    *(("build-word-v0", {"length": length}, "word") for length in (1, 2, 4)),
    *(("gather-v0", options, "places") for options in ({}, GATHER_EASY, GATHER_HARD)),
    *(("pooled-v0", options, "profile") for options in ({}, {"facts": 3}, {"candidates": 4})),
    ("verified-v0", {"source": "bundled"}, "prompt"),
]
"""Families with options, and what tasks of training and tests must not share."""


@pytest.mark.parametrize(("family", "options", "key"), SPLITS, ids=str)
def test_there_are_400_and_100_different_tasks_that_share_nothing(family, options, key) -> None:
    train, test = (make(family, split=split, **options).tasks for split in ("train", "test"))
    assert (len(train), len(test)) == (400, 100)
    assert not {getattr(t, key) for t in train.tasks} & {getattr(t, key) for t in test.tasks}
    tasks = {repr(replace(task, task_id="", index=0)) for task in (*train.tasks, *test.tasks)}
    assert len(tasks) == 500
    first = [make(family, task_seed=seed, **options).tasks.tasks[:5] for seed in (0, 1)]
    assert first[0] == train.tasks[:5] != first[1]


CONTRACTS = [
    *(("gather-v0", options) for options in ({}, GATHER_HARD, {"facts": 0}, {"scramble": True})),
    *(("gather-v0", options) for options in (GATHER_TINY, {"channel": {"bandwidth": 12}})),
    *(("pooled-v0", options) for options in ({}, {"num_turns": 2}, {"wording": "bare"})),
    ("pooled-v0", {"channel": {"bandwidth": 40}}),
    *((f"{name}-v1", {"num_agents": n}) for name in ("path", "sokoban", "sudoku") for n in (1, 2)),
]


@pytest.mark.parametrize(("family", "options"), CONTRACTS, ids=str)
def test_the_contract_is_kept(family, options) -> None:
    check_env(partial(make, family, **options))


BOUNDS = [
    ("build-house-v0", {"size": "small", "parts": "materials"}, 6),
    ("build-house-v0", {}, 6),
    ("build-house-v0", {"size": "large", "num_agents": 4, "num_turns": 4}, 6),
    ("build-word-v0", {"length": 1, "knowledge": "all", "plan": "cells"}, 25),
    ("build-word-v0", {}, 25),
    ("build-word-v0", {"num_agents": 4, "length": 4, "num_turns": 3}, 25),
]


@pytest.mark.parametrize(("family", "options", "tasks"), BOUNDS, ids=str)
def test_no_exploit_beats_its_bound_at_three_difficulties(family, options, tasks) -> None:
    found = {entry.name: entry for entry in check_strategies(family, options, tasks=tasks)}
    assert {name: entry.problem for name, entry in found.items() if entry.problem} == {}
    scores = {name: entry.score.value for name, entry in found.items()}
    assert 0.0 == scores["empty answer"] <= scores["random"] < scores["alone"] < scores["optimum"]
    assert scores["optimum"] == 1.0
    if family == "build-house-v0":
        pair = not options  # two builders who know layers need no messages within three turns
        assert (found["silent"].exact == scores["silent"] == 1.0) == pair


REFUSED = {
    "build-house-v0": [({"num_agents": 1}, ""), ({"size": "huge"}, ""), ({"parts": "none"}, "")],
    "build-word-v0": [
        *(({"num_agents": number}, "") for number in (1, 5)),
        *(({"length": length}, "") for length in (0, 5)),
        *(({"knowledge": "some"}, ""), ({"plan": "map"}, "")),
    ],
    "gather-v0": [
        *(({"num_turns": 3}, "num_turns=4 or more"), ({"size": 12}, "num_turns=6 or more")),
        *(
            ({"wording": "bare"}, "wording='sentences'"),
            ({"num_agents": 1}, ""),
            ({"facts": 3}, ""),
        ),
    ],
    "pooled-v0": [
        ({"candidates": 2, "facts": 4}, "no task that misleads"),
        ({"num_agents": 4, "candidates": 4, "facts": 4}, "too many profiles"),
        ({"num_agents": 2}, ""),
    ],
    "path-v1": [({"size": 13}, "size must be"), ({"hint_length": 10}, "hint_length must be")],
    "sokoban-v1": [({"boxes": 3}, "boxes must be")],
    "sudoku-v1": [({"sight": "half"}, ""), ({"clues": 4}, "clues must be")],
}
"""Options that do not fit, and what the error says; by default the name of the option."""


@pytest.mark.parametrize("family", REFUSED)
def test_wrong_options_are_refused_by_name(family) -> None:
    for options, text in REFUSED[family]:
        with pytest.raises(ValueError, match=text or next(iter(options))):
            make(family, **options)
