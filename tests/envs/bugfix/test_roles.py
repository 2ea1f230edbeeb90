"""Whose functions are whose, and what counts of a completion."""

from __future__ import annotations

import pytest

import llm_decpomdp
from tests.envs.bugfix_examples import BUG, answers, points, program_file, sample, three_fixers


@pytest.fixture
def env(tmp_path):
    return three_fixers(tmp_path)


@pytest.fixture
def programs(tmp_path):
    return program_file(tmp_path)


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
