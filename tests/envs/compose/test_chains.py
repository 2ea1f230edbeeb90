"""Chains of steps: what is drawn, and what is held out."""

from __future__ import annotations

from itertools import pairwise

import pytest

from llm_decpomdp import make
from llm_decpomdp.envs.compose.chains import (
    INPUTS,
    MAX_EQUAL,
    find_split,
    is_held_out,
    is_task,
    pair_steps,
    run,
    steps,
)
from llm_decpomdp.envs.compose.tasks import MAX_AGENTS, compose_rows
from tools.quality.compose import best_alone

ARGUMENTS = {"numbers": (2, "numbers", "none", 0), "long": (4, "all", "none", 0)}


def rows_of(name):
    """The rows of a data set, which are drawn when a test needs them, and remembered."""
    return compose_rows(*ARGUMENTS[name])


def kinds(split):
    rows = rows_of("numbers")
    return {step.kind for row in rows if row["split"] == split for step in row["chain"]}


def test_a_step_does_what_its_code_says():
    by_name = {step.name: step for step in (*steps(), *pair_steps())}
    assert by_name["add 3"].apply([1, 2]) == [4, 5]
    assert by_name["add 3"].statement() == "add 3 to each number"
    assert by_name["spread '-'"].apply("abc") == "a-b-c"
    assert by_name["largest_length"].apply([4, 9]) == (9, 2)
    assert by_name["2 * red - 3 * blue"].apply((9, 2)) == 12


def test_every_step_changes_its_type_or_its_argument():
    for step in steps():
        changed = [step.apply(argument) != argument for argument in INPUTS[step.source]]
        assert sum(changed) >= len(changed) - 1, step.name


def test_tasks_depend_on_seed_and_index_alone():
    again = compose_rows.__wrapped__(*ARGUMENTS["long"])
    assert again == rows_of("long")
    other = compose_rows(4, "all", "none", 1)
    assert [row["chain"] for row in other[:20]] != [row["chain"] for row in again[:20]]


def test_no_task_comes_twice_and_one_of_six_is_for_tests():
    rows = compose_rows(2, "all", "none", 0)
    assert len(rows) == 6000 and sum(row["split"] == "test" for row in rows) == 1000
    assert len({(row["chain"], row["place"] % 2) for row in rows}) == 6000
    assert [row["index"] for row in rows] == list(range(6000))


def test_equal_chains_give_teams_of_every_size_different_tasks():
    rows = rows_of("numbers")
    assert len({row["chain"] for row in rows}) < len(rows)
    for size in range(2, MAX_AGENTS + 1):
        assert len({(row["chain"], row["place"] % size) for row in rows}) == len(rows)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_held_out_pairs_of_steps_stand_in_test_tasks_alone(name):
    for row in rows_of(name):
        tested = [is_held_out(*pair) for pair in pairwise(row["chain"])]
        assert any(tested) == (row["split"] == "test")
        assert all(
            is_held_out(*pair) == is_held_out(*pair[::-1]) for pair in pairwise(row["chain"])
        )


def test_every_kind_of_step_is_trained_and_tested():
    assert kinds("train") == kinds("test") and len(kinds("train")) == 8


@pytest.mark.parametrize("name", ARGUMENTS)
def test_tests_tell_the_work_of_every_step_and_no_constant_passes_many(name):
    for row in rows_of(name)[:200]:
        chain, arguments = row["chain"], INPUTS[row["chain"][0].source]
        results = [run(chain, argument) for argument in arguments]
        assert max(map(results.count, results)) <= MAX_EQUAL
        for i, step in enumerate(chain):
            if step.source == step.target:
                shorter = (*chain[:i], *chain[i + 1 :])
                assert all(
                    run(shorter, a) != result for a, result in zip(arguments, results, strict=True)
                )


def test_a_chain_with_an_idle_step_makes_no_task():
    by_name = {step.name: step for step in steps()}
    assert is_task((by_name["reverse"], by_name["add 3"]))
    assert not is_task((by_name["reverse"], by_name["sort"]))
    assert not is_task((by_name["plus 3"], by_name["plus 4"]))
    assert not is_task((by_name["decimal"], by_name["size"]))  # few results


def test_a_chain_whose_tests_a_wrong_constant_passes_makes_no_task():
    by_name = {step.name: step for step in steps()}
    assert not is_task((by_name["minus 7"], by_name["divide 8"]))  # as minus 8
    assert not is_task((by_name["take 2"], by_name["above 7"]))  # as above 6
    assert is_task((by_name["minus 7"], by_name["times 8"]))
    for row in rows_of("numbers")[:200]:
        results = [run(row["chain"], argument) for argument in INPUTS["number"]]
        for place, step in enumerate(row["chain"]):
            for other in (s for s in steps() if (s.kind, s.source) == (step.kind, step.source)):
                chain = (*row["chain"][:place], other, *row["chain"][place + 1 :])
                same = [run(chain, argument) for argument in INPUTS["number"]] == results
                assert same == (other == step)


def test_one_agent_alone_is_bounded():
    bound = best_alone("train", "numbers")
    assert bound.tasks > 2000 and bound.prompts < 100
    assert 0 < bound.solved <= bound.tests < 0.1


def test_the_bound_is_reached_by_the_best_guess():
    """The most frequent results of a prompt, by another way: over the tasks of the data set."""
    env = make("compose-v0", types="numbers")
    groups: dict[str, list[tuple[int, ...]]] = {}
    for task in env.tasks.tasks:
        values = tuple(run(task.chain, argument) for argument in INPUTS["number"])
        groups.setdefault(env.roles[-1].instructions(task), []).append(values)
    guessed = sum(max(map(rows.count, rows)) for rows in groups.values()) / len(env.tasks)
    assert guessed == pytest.approx(best_alone("train", "numbers").solved, abs=0.01)


def test_splits_differ_by_chains():
    assert {find_split(row["chain"]) for row in rows_of("long")} == {"train", "test"}
