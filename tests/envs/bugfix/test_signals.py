"""What the agents are told, before their first turn and after it."""

from __future__ import annotations

import pytest

import llm_decpomdp
from tests.envs.bugfix_examples import BUG, answers, program_file, three_fixers


@pytest.fixture
def env(tmp_path):
    return three_fixers(tmp_path)


@pytest.fixture
def programs(tmp_path):
    return program_file(tmp_path)


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
