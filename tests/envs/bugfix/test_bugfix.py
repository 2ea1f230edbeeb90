"""The repair environments: options, tasks, limits on steps, and first feedback."""

from __future__ import annotations

import pytest

import llm_decpomdp
from llm_decpomdp.envs.bugfix.programs import (
    ProgramSource,
    bundled_faults,
    bundled_sources,
    counting_faults,
    counts,
)
from llm_decpomdp.envs.bugfix.tasks import MAX_STEPS, limit_steps, run_unmodified
from llm_decpomdp.envs.datasets.rows import KNOWN_ISSUES
from llm_decpomdp.envs.sandbox import Sandbox
from tests.envs.bugfix_examples import BUG, ROW, answers, program_file
from tests.envs.own_rows import write_lines


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"bugs": 0}, "bugs must be"),
        ({"bugs": True}, "bugs must be"),
        ({"spread": "both"}, "unknown spread"),
        ({"task_seed": -1}, "task_seed must be"),
        ({"num_agents": 0}, "num_agents must be"),
        ({"split": "dev"}, "unknown split"),
        ({"source": "hub"}, "are made here"),
        ({"exclude_known_issues": 1}, "exclude_known_issues must be true or false, got 1"),
        ({"external_mode": "pased"}, "did you mean 'passed'"),
        ({"external_mode": "expert_edits"}, "needs expert_model"),
    ],
)
def test_bad_arguments_are_refused(arguments, why):
    with pytest.raises(ValueError, match=why):
        llm_decpomdp.make("bugfix-v0", **arguments)


def test_tasks_of_problems_with_known_issues_can_be_left_out(tmp_path):
    rows = [{**ROW, "task_id": task_id} for task_id in ("HumanEval/47", "HumanEval/48")]
    path = write_lines(tmp_path / "programs.jsonl", rows)
    every = llm_decpomdp.make("bugfix-v0", source=str(path)).metadata["data"]
    wrong = every["known_issues"]
    assert set(wrong.values()) == {KNOWN_ISSUES["HumanEval/47"]} and 2 * len(wrong) == every["rows"]
    left = llm_decpomdp.make("bugfix-v0", source=str(path), exclude_known_issues=True)
    assert left.metadata["data"]["excluded"] == wrong and len(left.tasks) == len(wrong)


@pytest.mark.parametrize("arguments", [{"num_agents": 9}, {"spread": "across"}])
def test_more_than_the_programs_have_is_refused(arguments):
    with pytest.raises(ValueError, match="no program has"):
        llm_decpomdp.make("bugfix-v0", **arguments).reset(seed=0)


def test_everybody_sees_the_program_and_their_own_share(env):
    prompts, _ = env.reset(options={"task_id": BUG})
    for agent, name in zip(env.agents, ("double", "smaller", "total"), strict=True):
        assert "return SIZE + x" in prompts[agent] and "return min(x, y)" in prompts[agent]
        assert f"Yours: `{name}`." in prompts[agent]
        assert "at most `most`" in prompts[agent] and "SIZE * x" not in prompts[agent]


@pytest.mark.parametrize(
    ("mode", "said", "unsaid"),
    [
        ("level_feedback", "Failed case: assert total([1, 9], 5) == 7", "[4, -1]"),
        ("level_passed", "Tests: 0/1 passed", "Failed case"),
        ("passed", "Signal: Not all tests passed", "Tests:"),
        ("plain", "Program:", "Signal"),
    ],
)
def test_the_first_prompt_tells_what_the_mode_allows(programs, mode, said, unsaid):
    env = llm_decpomdp.make("bugfix-v0", source=programs, external_mode=mode)
    prompts, _ = env.reset(options={"task_id": BUG})
    assert said in prompts["fixer_0"] and unsaid not in prompts["fixer_0"]


def test_the_tests_that_fail_are_shown_first(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, sandbox_slice=-1)
    prompts, _ = env.reset(options={"task_id": BUG})
    assert "Tests: 1/1 passed" in prompts["fixer_0"]  # the last one is the only one that passes


def test_feedback_names_what_is_missing_and_where_code_failed(env):
    prompts, *_ = env.step(
        answers(env, fixer_0="def double(x):\n    return x.a\n", fixer_1="nothing")
    )
    assert "`smaller` MISSING" in prompts["fixer_1"]
    assert "Functions of fixer_1: some MISSING" in prompts["fixer_0"]
    assert "(line 2 of your code)" in prompts["fixer_0"]
    assert "(line 2 of your code)" not in prompts["fixer_2"]
    assert "def double" in prompts["fixer_0"] and "def double" not in prompts["fixer_2"]


def test_a_syntax_error_is_told_to_its_author(env):
    prompts, *_ = env.step(answers(env, fixer_1="def smaller(x, y):\n    return (\n"))
    assert "SyntaxError at line 2" in prompts["fixer_1"]
    assert "ERROR (in code of a team-mate)" in prompts["fixer_0"]


TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"


def executed(body):
    source = ProgramSource("Own/0", "", f"def square(x):\n{body}", "square", TEST)
    (execution,) = source.run(Sandbox(), [source.code])
    return execution


@pytest.mark.parametrize(
    "body",
    [
        "    while x:\n        continue\n",
        "    try:\n        while x:\n            pass\n    except BaseException:\n        return x\n",
        f"    for _ in range({MAX_STEPS}):\n        pass\n    return x * x\n",
        f"    return x * x + 0 * sum(0 for _ in range({MAX_STEPS}))\n",
        "    def fibonacci(n):\n        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n"
        "    return fibonacci(30)\n",
    ],
)
def test_a_program_of_too_many_steps_crashes(body):
    execution = executed(body)
    assert execution.tests[0].status == "crashed" and not counts(execution)


def test_the_steps_of_all_tests_count_together():
    body = f"    for _ in range({MAX_STEPS // 2}):\n        pass\n    return x * x\n"
    assert [test.status for test in executed(body).tests] == ["passed", "crashed"]


def test_only_the_code_of_these_names_is_counted():
    code = "import math\n\ndef f(x):\n    return g(x)\n\ndef g(x):\n    return x\n"
    text = limit_steps(code, {"f"})
    assert text.startswith("import math") and text.count("    __step__()") == 1


@pytest.mark.parametrize("name", ["Program/0", "OurClasses/1", "Bundled/20", "HumanEval/32"])
def test_counted_programs_do_the_same(name):
    (source,) = (source for source in bundled_sources() if source.name == name)
    (execution,) = source.run(Sandbox(), [source.code])
    assert execution.error is None and all(test.passed for test in execution.tests)


def test_a_fault_near_the_limit_on_time_is_none_for_its_steps():
    (source,) = (source for source in bundled_sources() if source.name == "HumanEval/75")
    fault = ("dropped_statement@5:13",)
    (execution,) = source.run(Sandbox(), [source.mutate(fault)])
    assert execution.tests[0].status == "crashed"
    assert fault not in bundled_faults()["HumanEval/75"]


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
    for name in ("HumanEval/150/divided", "OurClasses/7"):
        assert counting_faults(sources[name], sandbox) == listed[name]


def test_bugs_are_made_in_programs_of_ones_own(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, num_agents=1)
    kinds = {task.bugs[0].partition("@")[0] for task in env.tasks.tasks}
    assert {"operator", "wrong_variable", "dropped_statement"} <= kinds
    assert all(task.faulty for task in env.tasks.tasks)


def test_a_mutant_that_no_test_finds_or_all_do_or_that_hangs_is_no_task(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, num_agents=1)
    for task in env.tasks.tasks:
        outcomes = [test.passed for test in run_unmodified(env.mode.sandbox, task).tests]
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
