"""Teams repair programs: whose functions are whose, what is rewarded, and what the agents are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import llm_decpomdp
from llm_decpomdp import check_env
from llm_decpomdp.envs.bugfix_pool import (
    bundled_faults,
    counting_faults,
    counts,
)
from llm_decpomdp.envs.bugfix_reward import MAXIMUM
from llm_decpomdp.envs.bugfix_sources import bundled_sources
from llm_decpomdp.envs.humanevalfix import HUMANEVALFIX
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.envs.sources import load

ROOT = Path(__file__).resolve().parents[2]
MODES = ("level_feedback", "level_passed", "passed", "plain", "expert_edits")

PROGRAM = '''
SIZE = 2


def double(x):
    """Twice as much."""
    return SIZE * x


def smaller(x, y):
    """The smaller of two numbers."""
    return min(x, y)


def total(values, most):
    """The sum of all values, each doubled and at most `most`.

    >>> total([1, 9], 5)
    7
    """
    result = 0
    for value in values:
        result += smaller(double(value), most)
    return result
'''
TEST = """
def check(candidate):
    assert candidate([1, 9], 5) == 7
    assert candidate([], 5) == 0
    assert candidate([4, -1], 10) == 6
"""


@pytest.fixture
def programs(tmp_path):
    """A file with a program of our own."""
    row = {"task_id": "Own/0", "program": PROGRAM, "entry_point": "total", "test": TEST}
    path = tmp_path / "programs.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return str(path)


@pytest.fixture
def env(programs):
    """Three agents; `double` of the task gives `SIZE + x`, which only the entry of an empty list outlives."""
    env = llm_decpomdp.make("bugfix-v0", source=programs, num_agents=3, sandbox_slice="all")
    env.reset(options={"task_id": "Own/0:operator@7:17"})
    return env


def answers(env, **changed):
    """Everybody's functions as they are, but for some."""
    texts = {
        role.agent: "\n\n".join(env.task.given[name] for name in role.owned(env.task))
        for role in env.roles
    }
    return {**texts, **changed}


def points(env, **changed):
    """The components that a joint completion earns in the first turn."""
    verdict = env.reward(env.task, answers(env, **changed))
    return {name: round(value, 4) for name, value in verdict.components.items()}, verdict.solved


# Tasks


def _sample(tasks, count):
    return tasks[:: max(1, len(tasks) // count)]


def test_there_are_more_than_a_thousand_tasks_for_teams_of_two():
    tasks = [
        task
        for bugs in (1, 2, 3)
        for task in llm_decpomdp.make("bugfix-v0", bugs=bugs, split="all").tasks.tasks
    ]
    assert len({task.task_id for task in tasks}) == len(tasks) > 6000
    assert len({(task.buggy, task.test) for task in tasks}) == len(tasks)
    assert len(llm_decpomdp.make("bugfix-v0", split="test").tasks) > 1000


def test_the_first_episode_starts_within_a_second():
    code = (
        "import time, llm_decpomdp; begun = time.process_time();"
        "llm_decpomdp.make('bugfix-v0').reset(seed=0); print(time.process_time() - begun)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 1.0


def test_other_processes_make_the_same_tasks():
    code = (
        "import llm_decpomdp; env = llm_decpomdp.make('bugfix-v0', bugs=2, task_seed=5);"
        "print(env.metadata['data']['fingerprint'], env.reset(seed=3)[0]['fixer_0'])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1 and next(iter(found))


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


@pytest.mark.parametrize("num_agents", [2, 3])
def test_bugs_lie_with_one_agent_or_with_several(num_agents):
    for spread, possible in (("one", {1}), ("across", {2})):
        env = llm_decpomdp.make("bugfix-v0", num_agents=num_agents, bugs=2, spread=spread)
        holders = {
            sum(bool(set(role.owned(task)) & set(task.faulty)) for role in env.roles)
            for task in env.tasks.tasks
        }
        assert holders == possible


@pytest.mark.parametrize("num_agents", [1, 2, 3, 5])
def test_every_agent_owns_a_function_and_every_function_has_one_owner(num_agents):
    env = llm_decpomdp.make("bugfix-v0", num_agents=num_agents, split="all")
    for task in _sample(env.tasks.tasks, 100):
        shares = [role.owned(task) for role in env.roles]
        assert all(shares)
        assert sorted(name for share in shares for name in share) == sorted(task.functions)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def _undoing_earns_full_marks(num_agents, bugs, count):
    env = llm_decpomdp.make("bugfix-v0", num_agents=num_agents, bugs=bugs, split="all")
    for task in _sample(env.tasks.tasks, count):
        env.reset(options={"task_id": task.task_id})
        gold = {agent: env.reference(agent) for agent in env.agents}
        as_it_is = env.reward(task, answers(env))
        assert as_it_is.components == {
            "parses": 0.5,
            "fixed": 0.0,
            "minimal": 0.0,
            "regressed": 0.0,
        }, task.task_id
        assert not as_it_is.solved and not all(test.passed for test in as_it_is.tests)
        verdict = env.reward(task, gold)
        assert verdict.reward == MAXIMUM and verdict.solved, task.task_id


@pytest.mark.parametrize(("num_agents", "bugs"), [(1, 1), (2, 1), (2, 3), (3, 2), (5, 1)])
def test_undoing_the_bugs_earns_full_marks_and_doing_nothing_half_a_point(num_agents, bugs):
    _undoing_earns_full_marks(num_agents, bugs, 12)


@pytest.mark.slow
@pytest.mark.parametrize("num_agents", [1, 2, 3, 5])
@pytest.mark.parametrize("bugs", [1, 2, 3])
def test_undoing_the_bugs_earns_full_marks_on_every_task(num_agents, bugs):
    _undoing_earns_full_marks(num_agents, bugs, 10**9)


@pytest.mark.slow
def test_every_listed_fault_counts():
    sandbox, listed = Sandbox(), bundled_faults()
    for source in bundled_sources():
        faults = listed[source.name]
        executions = source.run(sandbox, [source.mutate(keys) for keys in faults])
        assert [keys for keys, run in zip(faults, executions, strict=True) if not counts(run)] == []


def test_the_list_of_faults_is_what_the_generator_finds():
    sandbox, listed = Sandbox(), bundled_faults()
    sources = {source.name: source for source in bundled_sources()}
    assert set(listed) == set(sources)
    for name in ("Bundled/41", "HumanEval/10", "HumanEval/150/divided", "OurClasses/7"):
        assert counting_faults(sources[name], sandbox) == listed[name]


# Programs of one's own


def test_bugs_are_made_in_programs_of_ones_own(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, num_agents=1)
    kinds = {task.bugs[0].partition("@")[0] for task in env.tasks.tasks}
    assert {"operator", "wrong_variable", "dropped_statement"} <= kinds
    assert all(task.faulty for task in env.tasks.tasks)


def test_a_mutant_that_no_test_finds_or_all_do_or_that_hangs_is_no_task(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, num_agents=1)
    for task in env.tasks.tasks:
        outcomes = [test.passed for test in env.reward.bench.before(task).tests]
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
    row = {"task_id": "Own/0", "program": PROGRAM, "entry_point": "total", "test": TEST}
    path = tmp_path / "programs.jsonl"
    path.write_text(json.dumps({**row, field: value}) + "\n")
    env = llm_decpomdp.make("bugfix-v0", source=str(path), num_agents=1)
    with pytest.raises(ValueError, match=f"line 1: field .*{why}"):
        env.reset(seed=0)


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
        ({"external_mode": "pased"}, "did you mean 'passed'"),
        ({"external_mode": "expert_edits"}, "needs expert_model"),
    ],
)
def test_bad_arguments_are_refused(arguments, why):
    with pytest.raises(ValueError, match=why):
        llm_decpomdp.make("bugfix-v0", **arguments)


@pytest.mark.parametrize("arguments", [{"num_agents": 9}, {"spread": "across"}])
def test_more_than_the_programs_have_is_refused(arguments):
    with pytest.raises(ValueError, match="no program has"):
        llm_decpomdp.make("bugfix-v0", **arguments).reset(seed=0)


# The reward


def test_the_bugs_undone_earn_everything(env):
    fixed = env.reference("fixer_0")
    assert points(env, fixer_0=fixed) == (
        {"parses": 0.5, "fixed": 2.0, "minimal": 0.5, "regressed": 0.0},
        True,
    )


def test_nothing_submitted_earns_nothing(env):
    nothing = dict.fromkeys(env.agents, "I cannot do that.")
    assert points(env, **nothing) == (
        {"parses": 0.0, "fixed": 0.0, "minimal": 0.0, "regressed": 0.0},
        False,
    )


def test_a_missing_submission_leaves_the_function_as_it_was(env):
    found, solved = points(env, fixer_0=env.reference("fixer_0"), fixer_2="")
    assert found["fixed"] == 2.0 and found["parses"] == pytest.approx(1 / 3, abs=1e-3)
    assert not solved


def test_a_larger_change_costs_a_little_and_still_solves(env):
    small, _ = points(env, fixer_0="def double(x):\n    return SIZE * x * 1\n")
    large, solved = points(env, fixer_0="def double(x):\n    y = x\n    return y + y\n")
    assert solved and small["fixed"] == large["fixed"] == 2.0
    assert 0.5 > small["minimal"] > large["minimal"] >= 0.0


def test_comments_layout_and_docstrings_cost_nothing(env):
    text = 'def double( x ):\n    """New words."""\n    # a remark\n    return (\n        SIZE * x\n    )\n'
    brackets = points(env, fixer_0=text.replace("(\n", "").replace("\n    )", ""))
    assert brackets[0]["minimal"] == 0.5


def test_what_is_written_beside_the_functions_costs(env):
    fixed = env.reference("fixer_0")
    helped, solved = points(env, fixer_0=f"import math\n\ndef spare():\n    return 1\n\n{fixed}")
    assert solved and helped["minimal"] < 0.5
    repeated, _ = points(env, fixer_0=f"SIZE = 2\n\n{fixed}")
    assert repeated["minimal"] == 0.5


def test_a_regression_costs(env):
    found, _ = points(env, fixer_2="def total(values, most):\n    return 1\n")
    assert found == {"parses": 0.5, "fixed": 0.0, "minimal": 0.0, "regressed": -1.0}


def test_code_that_does_not_parse_stops_everything_else(env):
    found, solved = points(env, fixer_0=env.reference("fixer_0"), fixer_1="def smaller(x, y:\n")
    assert found == {"parses": 0.3333, "fixed": 0.0, "minimal": 0.0, "regressed": 0.0}
    assert not solved


def test_functions_of_team_mates_are_left_out(env):
    theirs = "def total(values, most):\n    return 'mine'\n\n"
    found, solved = points(env, fixer_0=theirs + env.reference("fixer_0"))
    assert solved and found["minimal"] == 0.5


@pytest.mark.parametrize(
    "trick",
    [
        "total = lambda values, most: 7",
        "from math import floor as total",
        "if True:\n    def total(values, most):\n        return 7",
        "class total:\n    pass",
    ],
)
def test_names_of_team_mates_cannot_be_given_another_meaning(env, trick):
    answer = f"{answers(env)['fixer_0']}\n\n{trick}\n"
    found, solved = points(env, fixer_0=answer)
    assert (found["fixed"], found["regressed"], solved) == (0.0, 0.0, False)


@pytest.mark.parametrize(
    "text", ["", "\x00", "def double(x:", "def double", "\ud800", "class", "(" * 300, "```python\n"]
)
def test_any_text_is_an_answer_that_earns_no_more_than_doing_nothing(env, text):
    found, solved = points(env, fixer_0=text)
    assert sum(found.values()) < 0.5 and not solved


def test_deleted_code_earns_nothing_beside_being_there(env):
    empty = {
        "fixer_0": "def double(x):\n    pass\n",
        "fixer_1": "def smaller(x, y):\n    pass\n",
        "fixer_2": "def total(values, most):\n    pass\n",
    }
    found, solved = points(env, **empty)
    assert found == {"parses": 0.5, "fixed": 0.0, "minimal": 0.0, "regressed": -1.0} and not solved


def test_answering_the_shown_test_by_heart_earns_its_share_of_the_tests_only(env):
    cheat = "def total(values, most):\n    if values == [1, 9]:\n        return 7\n"
    body = answers(env)["fixer_2"].partition("\n")[2]
    found, solved = points(env, fixer_2=cheat + body)
    assert found["fixed"] == 1.0 and found["minimal"] < 0.25 and not solved


def test_functions_in_separate_fences_are_put_together(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, num_agents=1)
    env.reset(options={"task_id": "Own/0:operator@7:17"})
    texts = env.reference("fixer_0").split("\n\n\n")
    fenced = "\n".join(f"Here:\n```python\n{text}\n```" for text in texts)
    assert points(env, fixer_0=fenced)[0] == points(env, fixer_0="\n\n".join(texts))[0]
    assert points(env, fixer_0=fenced)[1]


# What the agents see


def test_everybody_sees_the_program_and_their_own_share(env):
    prompts, _ = env.reset(options={"task_id": "Own/0:operator@7:17"})
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
    prompts, _ = env.reset(options={"task_id": "Own/0:operator@7:17"})
    assert said in prompts["fixer_0"] and unsaid not in prompts["fixer_0"]


def test_the_tests_that_fail_are_shown_first(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, sandbox_slice=-1)
    prompts, _ = env.reset(options={"task_id": "Own/0:operator@7:17"})
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


class QuietExpert:
    """An expert that is never reached over a network and always says the same."""

    def edits(self, task_prompt, completions):
        return dict.fromkeys(completions, "No changes needed.")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_agents", [1, 2, 3])
def test_the_environment_keeps_its_contract(num_agents, mode, monkeypatch):
    monkeypatch.setattr(
        "llm_decpomdp.envs.modes.make_expert", lambda model, base_url: QuietExpert()
    )
    expert = {"expert_model": "an expert"} if mode == "expert_edits" else {}
    settings = {"num_agents": num_agents, "external_mode": mode, "split": "test[:40]", **expert}
    check_env(lambda: llm_decpomdp.make("bugfix-v0", **settings))


# HumanEvalFix


def fix_row(**changed):
    """A row of our own in the hub's format."""
    return {
        "task_id": "Python/900",
        "prompt": 'from typing import List\n\n\ndef widest(gaps: List[int]) -> int:\n    """The largest '
        'gap, 0 if there is none.\n    >>> widest([1, 3])\n    3\n    """\n',
        "declaration": "from typing import List\n\n\ndef widest(gaps: List[int]) -> int:\n",
        "canonical_solution": "    return max(gaps, default=0)\n",
        "buggy_solution": "    return min(gaps, default=0)\n",
        "bug_type": "function misuse",
        "failure_symptoms": "incorrect output",
        "entry_point": "widest",
        "import": "",
        "test_setup": "",
        "test": "\n\n\ndef check(widest):\n    assert widest([1, 3]) == 3\n    assert widest([]) == 0\n\n"
        "check(widest)",
        "example_test": "",
        "signature": "widest(gaps: List[int]) -> int",
        "docstring": "The largest gap, 0 if there is none.",
        "instruction": "Write a function.",
        **changed,
    }


def fix_env(tmp_path, *rows):
    path = tmp_path / "fix.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return llm_decpomdp.make("humanevalfix-v0", source=str(path))


def test_rows_in_the_format_of_humanevalfix_become_tasks(tmp_path):
    env = fix_env(tmp_path, fix_row())
    prompts, _ = env.reset(seed=0)
    assert env.possible_agents == ["fixer_0"] and env.task.bugs == ("function misuse",)
    assert "return min(gaps, default=0)" in prompts["fixer_0"]
    assert "The largest gap" in prompts["fixer_0"] and "max(" not in prompts["fixer_0"]
    _, rewards, terminations, _, infos = env.step({"fixer_0": env.reference("fixer_0")})
    assert rewards["fixer_0"] == MAXIMUM and terminations["fixer_0"] and infos["fixer_0"]["solved"]


def test_a_parquet_file_and_a_folder_of_the_hub_give_the_same_tasks(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    import pyarrow
    import pyarrow.parquet

    rows = [fix_row(), fix_row(task_id="Python/901")]
    folder = tmp_path / "pack"
    (folder / "data").mkdir(parents=True)
    path = folder / "data" / "python.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: python\n  data_files:\n"
        "  - split: test\n    path: data/python.parquet\n---\n"
    )
    lines = tmp_path / "fix.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    there = replace(HUMANEVALFIX, hub=str(folder))
    sets = [load(HUMANEVALFIX, "test", str(path)), load(there, "test", "hub")]
    assert {found.fingerprint for found in sets} == {load(there, "test", str(lines)).fingerprint}
    assert sets[1].source == "hub" and not sets[1].stand_in and len(sets[1]) == 2


def test_tests_of_humanevalfix_may_call_helpers_which_stay(tmp_path):
    row = fix_row(
        declaration="def largest(gaps):\n    return max(gaps)\n\n\ndef widest(gaps):\n",
        canonical_solution="    return largest(gaps) if gaps else 0\n",
        buggy_solution="    return largest(gaps) if gaps else 1\n",
        test="def check(widest):\n    assert widest([]) == 0\n    assert widest([2]) == largest([2])\n",
    )
    env = fix_env(tmp_path, row)
    env.reset(seed=0)
    assert env.task.functions == ("widest",)
    assert env.reward(env.task, {"fixer_0": env.reference("fixer_0")}).solved


@pytest.mark.parametrize(
    "field", ["prompt", "declaration", "canonical_solution", "buggy_solution", "test", "bug_type"]
)
def test_a_row_without_a_field_is_refused(tmp_path, field):
    with pytest.raises(ValueError, match=f"line 2: .*{field}"):
        env = fix_env(tmp_path, fix_row(), fix_row(task_id="Python/901", **{field: ""}))
        env.reset(seed=0)


def test_the_stand_in_of_humanevalfix_can_be_solved():
    env = llm_decpomdp.make("humanevalfix-v0", source="bundled")
    assert len(env.tasks) > 150 and env.tasks.stand_in
    for task in _sample(env.tasks.tasks, 10):
        env.reset(options={"task_id": task.task_id})
        assert env.reward(task, {"fixer_0": env.reference("fixer_0")}).reward == MAXIMUM


def test_grading_a_huge_answer_takes_little_time(env):
    begun = time.process_time()
    env.reward(env.task, answers(env, fixer_0="def double(x):\n    return x" + " + 1" * 15_000))
    assert time.process_time() - begun < 10
