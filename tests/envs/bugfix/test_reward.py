"""What a repair earns."""

from __future__ import annotations

import pytest

import llm_decpomdp
from tests.envs.bugfix_examples import answers, points

NOTHING = {"parses": 0.0, "fixed": 0.0, "minimal": 0.0, "regressed": 0.0}
UNDONE = {"parses": 0.5, "fixed": 2.0, "minimal": 0.5, "regressed": 0.0}
REGRESSED = {"parses": 0.5, "fixed": 0.0, "minimal": 0.0, "regressed": -1.0}
HEADERS = ("def double(x)", "def smaller(x, y)", "def total(values, most)")
FIX = "reference"
"""The agent's reference, as a placeholder."""


@pytest.mark.parametrize(
    ("answers", "components", "solved"),
    [
        ({"fixer_0": FIX}, UNDONE, True),
        ({f"fixer_{i}": "I cannot do that." for i in range(3)}, NOTHING, False),
        ({"fixer_2": "def total(values, most):\n    return 1\n"}, REGRESSED, False),
        (
            {f"fixer_{i}": f"{header}:\n    pass\n" for i, header in enumerate(HEADERS)},
            REGRESSED,
            False,
        ),
        (
            {"fixer_0": FIX, "fixer_1": "def smaller(x, y:\n"},
            {**NOTHING, "parses": 0.3333},
            False,
        ),
    ],
    ids=["undone", "nothing", "regression", "deleted code", "a syntax error stops all else"],
)
def test_what_a_repair_gives(env, answers, components, solved):
    gold = llm_decpomdp.answers(env)
    texts = {a: gold.reference(a) if text == FIX else text for a, text in answers.items()}
    assert points(env, **texts) == (components, solved)


def test_a_larger_change_costs_a_little_and_still_solves(env):
    small, _ = points(env, fixer_0="def double(x):\n    return SIZE * x * 1\n")
    large, solved = points(env, fixer_0="def double(x):\n    y = x\n    return y + y\n")
    assert solved and small["fixed"] == large["fixed"] == 2.0
    assert 0.5 > small["minimal"] > large["minimal"] >= 0.0


def test_no_change_is_so_large_that_it_costs_more_than_the_repair_earns(env):
    large, solved = points(env, fixer_0=f"def double(x):\n    return SIZE * x{' + 0' * 100}\n")
    assert solved and (large["fixed"], large["minimal"]) == (2.0, 0.0)


def test_a_change_smaller_than_undoing_the_bugs_earns_no_more(env):
    env.reset(options={"task_id": "Own/0:dropped_statement@18:9"})
    short = answers(env)["fixer_2"].replace("pass", "result += min(SIZE * value, most)")
    undone = llm_decpomdp.answers(env).reference("fixer_2")
    assert "pass" not in short and len(short) < len(undone)
    assert points(env, fixer_2=short) == points(env, fixer_2=undone)


def test_comments_layout_and_docstrings_cost_nothing(env):
    text = 'def double( x ):\n    """New words."""\n    # a remark\n    return (\n        SIZE * x\n    )\n'
    brackets = points(env, fixer_0=text.replace("(\n", "").replace("\n    )", ""))
    assert brackets[0]["minimal"] == 0.5


def test_what_is_written_beside_the_functions_costs(env):
    fixed = llm_decpomdp.answers(env).reference("fixer_0")
    helped, solved = points(env, fixer_0=f"import math\n\ndef spare():\n    return 1\n\n{fixed}")
    assert solved and helped["minimal"] < 0.5
    repeated, _ = points(env, fixer_0=f"SIZE = 2\n\n{fixed}")
    assert repeated["minimal"] == 0.5


@pytest.mark.parametrize(
    "text", ["", "\x00", "def double(x:", "def double", "\ud800", "class", "(" * 300, "```python\n"]
)
def test_any_text_is_an_answer_that_earns_no_more_than_doing_nothing(env, text):
    found, solved = points(env, fixer_0=text)
    assert sum(found.values()) < 0.5 and not solved


def test_answering_the_shown_test_by_heart_earns_its_share_of_the_tests_only(env):
    cheat = "def total(values, most):\n    if values == [1, 9]:\n        return 7\n"
    body = answers(env)["fixer_2"].partition("\n")[2]
    found, solved = points(env, fixer_2=cheat + body)
    assert found["fixed"] == 1.0 and found["minimal"] < 0.25 and not solved
