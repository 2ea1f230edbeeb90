"""The stand-ins of helpers: what they can answer, and what `main` then returns if it does its own steps.

Their answers are values of the type of the helper's results, the same for all tasks of a type of values.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import eq
from typing import Any

from llm_decpomdp.envs.compose.chains import MAX_EQUAL, run, trace
from llm_decpomdp.envs.compose.roles import EntryRole, HelperRole, entry_place
from llm_decpomdp.envs.compose.sandboxed import _exchange_stand_in
from llm_decpomdp.envs.compose.steps import INPUTS, NUMBER, PAIR, steps
from llm_decpomdp.envs.compose.tasks import ComposeTask

ANSWERS = 64
"""Different values that a stand-in can answer, at most."""

SALTS = 50
"""Salts that are tried for one with which no test passes by chance, at most."""


def expected_results(
    task: ComposeTask,
    role: EntryRole,
    functions: Mapping[str, str],
    answers: Mapping[str, Sequence[Any]],
) -> tuple[str, list[Any]]:
    """Return a salt, and what `main` returns in each test beside stand-ins with this salt.

    Of `SALTS` it is the first with which `main` never returns the same if it does a helper's steps itself, and few
    of its results are equal; the first of all if there is none.

    Args:
        task: The task.
        role: The role of the entry function's author.
        functions: Names of the functions that stand-ins replace, by agent; other helpers' steps are done.
        answers: What each helper's stand-in can answer.
    """

    def results(salt: str, names: Mapping[str, str]) -> Iterator[Any]:
        stand_ins = {a: _exchange_stand_in(answers[a], salt + name) for a, name in names.items()}
        return (_result(task, role, stand_ins, x) for x in INPUTS[task.chain[0].source])

    mistakes = [*_without_a_helper(functions)]

    def tells_apart(salt: str) -> bool:
        right = [*results(salt, functions)]
        return max(Counter(map(repr, right)).values()) <= MAX_EQUAL and not any(
            any(map(eq, right, results(salt, names))) for names in mistakes
        )

    salts = [f"{number} " for number in range(SALTS)]
    salt = next(filter(tells_apart, salts), salts[0])
    return salt, [*results(salt, functions)]


def _without_a_helper(functions: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for agent in functions:
        yield {mate: name for mate, name in functions.items() if mate != agent}


def _result(task: ComposeTask, role: EntryRole, stand_ins: Mapping[str, Any], argument: Any) -> Any:
    """Return the result for an argument if some helpers are replaced, and all others do their steps."""
    helpers = iter(role.helpers)
    value = argument
    for position, chain in enumerate(task.shares(role.team)):
        helper = None if position == entry_place(task, role.team) else next(helpers)
        if helper is None or helper.agent not in stand_ins:
            value = run(chain, value)
        else:
            value = stand_ins[helper.agent](value)
    return value


def stand_in_answers(task: ComposeTask, helper: HelperRole) -> list[Any]:
    """Return what a helper's stand-in can answer: values that fit the steps after the helper's."""
    end = first_step(task, helper) + len(helper.share(task))
    rest = task.chain[end:]
    values = stand_in_values(task.chain[end - 1].target)
    return [value for value in values if len(trace(rest, value)) > len(rest)]


@lru_cache(maxsize=8)
def stand_in_values(kind: str) -> tuple[Any, ...]:
    """Return the values of a type that stand-ins answer, the same for all tasks; each step takes all of them."""
    if kind == PAIR:
        return tuple(itertools.permutations(INPUTS[NUMBER], 2))
    takers = [step for step in steps() if step.source == kind]
    results = (
        step.apply(value) for step in takers if step.target == kind for value in INPUTS[kind]
    )
    by_text = {
        repr(value): value
        for value in results
        if all(len(trace([step], value)) == 2 for step in takers)
    }
    texts = sorted(by_text, key=lambda text: sha256(text.encode()).digest())
    return tuple(by_text[text] for text in texts[:ANSWERS])


def first_step(task: ComposeTask, helper: HelperRole) -> int:
    """Return the number of steps before those of a helper."""
    position = helper.number + (helper.number >= entry_place(task, helper.team))
    return sum(map(len, task.shares(helper.team)[:position]))
