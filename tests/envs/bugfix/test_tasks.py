"""Tasks of repair, roles, and the reading of submissions."""

from __future__ import annotations

import os

import pytest

import llm_decpomdp
from llm_decpomdp.envs.bugfix.reward import MAXIMUM
from llm_decpomdp.envs.bugfix.roles import submission
from llm_decpomdp.envs.bugfix.tasks import known_class
from tests.envs.bugfix_examples import BUG, answers, points, sample
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
    env = llm_decpomdp.make("bugfix-v0", bugs=2, task_seed=5)
    told = f"{env.metadata['data']['fingerprint']} {env.reset(seed=3)[0]['fixer_0']}\n"
    assert python("-c", code, env={**os.environ, "PYTHONHASHSEED": "1"}).stdout == told


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
        gold = llm_decpomdp.answers(env).references
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
    _undoing_earns_full_marks(num_agents, bugs, 6)


@pytest.mark.slow
@pytest.mark.parametrize("num_agents", [1, 2, 3, 5])
@pytest.mark.parametrize("bugs", [1, 2, 3])
def test_undoing_the_bugs_earns_full_marks_in_a_large_sample(num_agents, bugs):
    _undoing_earns_full_marks(num_agents, bugs, 120)


@pytest.mark.parametrize("num_agents", [1, 2, 3, 5])
def test_every_agent_owns_a_function_and_every_function_has_one_owner(num_agents):
    env = llm_decpomdp.make("bugfix-v0", num_agents=num_agents, split="all")
    for task in sample(env.tasks.tasks, 100):
        shares = [role.owned_functions(task) for role in env.roles]
        assert all(shares)
        assert sorted(name for share in shares for name in share) == sorted(task.functions)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_functions_of_team_mates_are_left_out(env):
    theirs = "def total(values, most):\n    return 'mine'\n\n"
    found, solved = points(env, fixer_0=theirs + llm_decpomdp.answers(env).reference("fixer_0"))
    assert solved and found["minimal"] == 0.5


def test_a_repair_of_a_function_of_a_team_mate_counts_for_nothing(env):
    gold = llm_decpomdp.answers(env)
    answer = gold.reference("fixer_0") + "\n\n" + gold.reference("fixer_2")
    found, solved = points(env, fixer_2=answer)  # its code comes after that of fixer_0
    assert (found["fixed"], solved) == (0.0, False)


@pytest.mark.parametrize(
    "trick",
    [
        "double = lambda x: SIZE * x",
        "from operator import pos as double",
        "if True:\n    def double(x):\n        return SIZE * x",
        "class double(int):\n    pass",
    ],
)
def test_names_of_team_mates_cannot_be_given_another_meaning(env, trick):
    answer = f"{answers(env)['fixer_2']}\n\n{trick}\n"
    found, solved = points(env, fixer_2=answer)
    assert (found["fixed"], found["regressed"], solved) == (0.0, 0.0, False)


def test_functions_in_separate_fences_are_put_together(programs):
    env = llm_decpomdp.make("bugfix-v0", source=programs, num_agents=1)
    env.reset(options={"task_id": BUG})
    texts = llm_decpomdp.answers(env).reference("fixer_0").split("\n\n\n")
    fenced = "\n".join(f"Here:\n```python\n{text}\n```" for text in texts)
    assert points(env, fixer_0=fenced)[0] == points(env, fixer_0="\n\n".join(texts))[0]
    assert points(env, fixer_0=fenced)[1]


def test_a_missing_submission_leaves_the_function_as_it_was(env):
    found, solved = points(env, fixer_0=llm_decpomdp.answers(env).reference("fixer_0"), fixer_2="")
    assert found["fixed"] == 2.0 and found["parses"] == pytest.approx(1 / 3, abs=1e-3)
    assert not solved


PROGRAM = "LIMIT = 3\n\n\ndef low(x):\n    return x > LIMIT\n\n\ndef mid(x):\n    return x\n"
OLD = "def low(x):\n    return x > LIMIT\n"
FIX = "def low(x):\n    return x < LIMIT\n"
MID = "def mid(x):\n    return x\n"
FENCE = "```"


def block(code):
    return f"{FENCE}python\n{code}{FENCE}\n"


def submit(text, owned=("low",), opening=""):
    others = tuple(name for name in ("low", "mid") if name not in owned)
    return submission(text, owned, others, ("LIMIT", *others), opening, PROGRAM)


@pytest.mark.parametrize(
    "text",
    [
        f"Fixed:\n{block(FIX)}It was:\n{block(OLD)}",
        f"It was:\n{block(OLD)}Fixed:\n{block(FIX)}",
        f"Fixed:\n{block(FIX)}The whole program was:\n{block(PROGRAM)}",
        f"Fixed:\n\n{FIX}\nIt wasn't right:\n\n{OLD}",
    ],
)
def test_a_block_that_quotes_the_program_does_not_count_beside_a_fix(text):
    part = submit(text)
    assert part.submitted["low"].strip() == FIX.strip()
    assert part.code.strip() == FIX.strip()


def test_functions_that_stay_the_same_are_submitted():
    assert submit(f"It's right:\n\n{OLD}").submitted["low"].strip() == OLD.strip()
    draft = FIX.replace("<", "!=") + "\n\n" + MID.replace("x\n", "-x\n")
    part = submit(f"Idea:\n{block(draft)}Better:\n{block(FIX + MID)}", ("low", "mid"))
    assert {name: text.strip() for name, text in part.submitted.items()} == {
        "low": FIX.strip(),
        "mid": MID.strip(),
    }


def test_other_bindings_are_submitted_with_their_text():
    part = submit("low = lambda x: x < LIMIT\n")
    assert part.submitted == {"low": "low = lambda x: x < LIMIT"}
    part = submit(f"if True:\n    {FIX.replace(chr(10), chr(10) + '    ')}")
    assert part.submitted["low"].startswith("if True:\n    def low(x):")


def test_the_body_of_the_only_function_is_submitted():
    part = submit("    return x < LIMIT\n", opening="def low(x):\n")
    assert part.submitted["low"].strip() == FIX.strip()


def test_a_method_that_only_quotes_the_class_does_not_count_beside_a_fix():
    methods = "    def low(self):\n        return 1\n\n    def mid(self):\n        return 2\n"
    known = known_class(f"class Box:\n{methods}", "Box")
    fix, old = "def low(self):\n    return 0\n", "def low(self):\n    return 1\n"
    for text in (f"{block(fix)}It was:\n{block(old)}", f"{block(old)}Now:\n{block(fix)}"):
        assert known.read("fixer_0", text, ("low",)).submitted["low"].strip() == fix.strip()
    assert known.read("fixer_0", old, ("low",)).submitted["low"].strip() == old.strip()
