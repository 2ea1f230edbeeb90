"""Which faults make tasks, in programs of this package and of one's own."""

from __future__ import annotations

import pytest

import llm_decpomdp
from llm_decpomdp.envs.bugfix.programs import (
    bundled_faults,
    bundled_sources,
    counting_faults,
    counts,
)
from llm_decpomdp.envs.sandbox import Sandbox
from tests.envs.bugfix_examples import program_file


@pytest.fixture
def programs(tmp_path):
    return program_file(tmp_path)


@pytest.mark.slow
def test_every_listed_fault_counts_in_a_sample():
    sandbox, listed = Sandbox(), bundled_faults()
    for number, source in enumerate(bundled_sources()):
        faults = listed[source.name][number % 7 :: 7]
        executions = source.run(sandbox, [source.mutate(keys) for keys in faults])
        assert [keys for keys, run in zip(faults, executions, strict=True) if not counts(run)] == []


def test_the_list_of_faults_is_what_the_generator_finds():
    sandbox, listed = Sandbox(), bundled_faults()
    sources = {source.name: source for source in bundled_sources()}
    assert set(listed) == set(sources)
    for name in ("Bundled/41", "HumanEval/10", "HumanEval/150/divided", "OurClasses/7"):
        assert counting_faults(sources[name], sandbox) == listed[name]


def test_bugs_are_made_in_programs_of_ones_own(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, num_agents=1)
    kinds = {task.bugs[0].partition("@")[0] for task in env.tasks.tasks}
    assert {"operator", "wrong_variable", "dropped_statement"} <= kinds
    assert all(task.faulty for task in env.tasks.tasks)


def test_a_mutant_that_no_test_finds_or_all_do_or_that_hangs_is_no_task(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, num_agents=1)
    for task in env.tasks.tasks:
        outcomes = [test.passed for test in env.reward.runner.run_unmodified(task).tests]
        assert any(outcomes) and not all(outcomes)
    assert not any("swapped_arguments" in task.bugs[0] for task in env.tasks.tasks)  # min(y, x)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("program", "def other():\n    return 1\n", "does not define 'total'"),
        ("program", "def total(:", "does not define"),
        ("test", "def check(candidate):\n    pass\n", "no assert"),
        ("test", "def check(candidate):\n    assert candidate([], 1) == 5\n", "own tests"),
        ("task_id", "", "must be a text"),
    ],
)
def test_a_bad_program_is_refused_by_line_and_field(tmp_path, field, value, why):
    path = program_file(tmp_path, **{field: value})
    env = llm_decpomdp.make("bugfix-v0", source=path, num_agents=1)
    with pytest.raises(ValueError, match=f"line 1: field .*{why}"):
        env.reset(seed=0)
