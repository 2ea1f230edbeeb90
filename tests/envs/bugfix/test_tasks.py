"""Programs with bugs, as tasks: how many, in which order, and that undoing the bugs solves them."""

from __future__ import annotations

import os

import pytest

import llm_decpomdp
from llm_decpomdp.envs.bugfix.reward import MAXIMUM
from tests.envs.bugfix_examples import answers, sample
from tests.support.processes import python


def test_there_are_more_than_a_thousand_tasks_for_teams_of_two():
    tasks = [
        task
        for bugs in (1, 2, 3)
        for task in llm_decpomdp.make("bugfix-v0", bugs=bugs, split="all").tasks.tasks
    ]
    assert len({task.task_id for task in tasks}) == len(tasks) > 6000
    assert len({(task.buggy, task.test) for task in tasks}) == len(tasks)
    assert len(llm_decpomdp.make("bugfix-v0", split="test").tasks) > 1000


def test_loading_the_tasks_runs_no_program():
    code = (
        "import llm_decpomdp; from llm_decpomdp.envs.sandbox.pool import POOLS;"
        "print(len(llm_decpomdp.make('bugfix-v0').tasks) > 0, len(POOLS))"
    )
    assert python("-c", code).stdout.split() == ["True", "0"]


def test_other_processes_make_the_same_tasks():
    code = (
        "import llm_decpomdp; env = llm_decpomdp.make('bugfix-v0', bugs=2, task_seed=5);"
        "print(env.metadata['data']['fingerprint'], env.reset(seed=3)[0]['fixer_0'])"
    )
    prints = {
        python("-c", code, env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("1", "2")
    }
    assert len(prints) == 1 and next(iter(prints))


def test_the_seed_decides_the_order_of_the_tasks_and_nothing_else():
    one, same, other = (llm_decpomdp.make("bugfix-v0", task_seed=seed).tasks for seed in (0, 0, 1))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert set(one.positions) == set(other.positions)


def test_no_program_of_one_split_is_in_the_other():
    def problems(split):
        tasks = llm_decpomdp.make("bugfix-v0", num_agents=1, split=split).tasks.tasks
        return {task.task_id.partition(":")[0].removesuffix("/divided") for task in tasks}

    assert problems("train") and problems("test")
    assert not problems("train") & problems("test")


@pytest.mark.parametrize("bugs", [1, 2, 3])
def test_a_task_has_as_many_bugs_as_asked(bugs):
    tasks = llm_decpomdp.make("bugfix-v0", bugs=bugs).tasks.tasks
    assert {len(task.bugs) for task in tasks} == {bugs}


@pytest.mark.slow
@pytest.mark.parametrize("num_agents", [2, 3])
def test_bugs_lie_with_one_agent_or_with_several(num_agents):
    for spread, possible in (("one", {1}), ("across", {2})):
        env = llm_decpomdp.make("bugfix-v0", num_agents=num_agents, bugs=2, spread=spread)
        holders = {
            sum(bool(set(role.owned_functions(task)) & set(task.faulty)) for role in env.roles)
            for task in env.tasks.tasks
        }
        assert holders == possible


def _undoing_earns_full_marks(num_agents, bugs, count):
    env = llm_decpomdp.make("bugfix-v0", num_agents=num_agents, bugs=bugs, split="all")
    for task in sample(env.tasks.tasks, count):
        env.reset(options={"task_id": task.task_id})
        gold = {agent: llm_decpomdp.answers(env).reference(agent) for agent in env.agents}
        as_it_is = env.reward(task, answers(env))
        assert as_it_is.components == {
            "parses": 0.5,
            "fixed": 0.0,
            "minimal": 0.0,
            "regressed": 0.0,
        }, task.task_id
        assert not as_it_is.solved and not all(test.passed for test in as_it_is.analysis.tests)
        verdict = env.reward(task, gold)
        assert verdict.reward == MAXIMUM and verdict.solved, task.task_id


@pytest.mark.parametrize(("num_agents", "bugs"), [(1, 1), (2, 1), (2, 3), (3, 2), (5, 1)])
def test_undoing_the_bugs_earns_full_marks_and_doing_nothing_half_a_point(num_agents, bugs):
    _undoing_earns_full_marks(num_agents, bugs, 12)


@pytest.mark.slow
@pytest.mark.parametrize("num_agents", [1, 2, 3, 5])
@pytest.mark.parametrize("bugs", [1, 2, 3])
def test_undoing_the_bugs_earns_full_marks_in_a_large_sample(num_agents, bugs):
    _undoing_earns_full_marks(num_agents, bugs, 120)
