"""The problems that we wrote have tests that find faults, examples that agree with them, and are all different."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llm_decpomdp.envs.bugfix.programs import ProgramSource
from llm_decpomdp.envs.sandbox import Sandbox
from tools.quality.problems import EQUIVALENT, GOAL, near_duplicates, ours, quality, report

STATEMENT = '''def most(values):
    """The largest value, 0 if there is none.

    >>> most([1, 3])
    3
    >>> print(most([]))
    0
    """'''
CODE = "def most(values):\n    return max(values, default=0)\n"


def source(*asserts: str) -> ProgramSource:
    test = "def check(candidate):\n" + "".join(f"    assert {one}\n" for one in asserts)
    return ProgramSource("Own/0", STATEMENT, CODE, "most", test)


def test_mutants_that_no_test_finds_lower_the_score():
    weak = quality(source("candidate([1, 3]) == 3"), Sandbox())
    strong = quality(source("candidate([1, 3]) == 3", "candidate([]) == 0"), Sandbox())
    assert [mutant.kind for mutant in weak.survivors] == ["wrong_constant"]
    assert weak.score < 1.0
    assert strong.score == 1.0 and not strong.survivors


def test_examples_of_the_text_are_tried_on_the_reference():
    found = quality(source("candidate([1, 3]) == 3"), Sandbox())
    assert (found.agreeing, found.examples) == (2, 2)
    wrong = replace(
        source("candidate([1, 3]) == 3"), statement=STATEMENT.replace("    3\n", "    4\n")
    )
    assert quality(wrong, Sandbox()).agreeing == 1


def test_a_reference_that_fails_its_tests_is_refused():
    with pytest.raises(ValueError, match="fails its tests"):
        quality(source("candidate([1]) == 2"), Sandbox())


def test_an_equivalent_mutant_that_a_test_finds_is_refused(monkeypatch):
    monkeypatch.setitem(EQUIVALENT, "Own/0", {"missing_return@2:5": "why"})
    with pytest.raises(ValueError, match="a test finds them"):
        quality(source("candidate([1, 3]) == 3"), Sandbox())


def test_no_two_problems_are_nearly_alike():
    pairs = [(one.name, other.name) for one, other, *_ in near_duplicates(ours())]
    # Sums of numbers, counts of marks: alike in code only.
    assert pairs == [("Bundled/51", "Bundled/57")]


def test_texts_and_code_that_are_nearly_alike_are_found():
    one = source("candidate([]) == 0")
    renamed = replace(
        one, statement='def f(x):\n    """Other words."""', code=CODE.replace("values", "x")
    )
    assert [pair[3] for pair in near_duplicates([one, renamed])] == [1.0]


@pytest.mark.parametrize("name", ["Bundled/17", "Program/16", "OurClasses/7", "MBPP-like/20"])
def test_some_problems_reach_the_goal(name):
    (chosen,) = (source for source in ours() if source.name == name)
    assert quality(chosen, Sandbox()).score == 1.0


@pytest.mark.slow
def test_all_problems_reach_the_goal_and_their_examples_agree():
    sandbox = Sandbox()
    found = [quality(source, sandbox) for source in ours()]
    assert all(one.score >= GOAL and one.agreeing == one.examples for one in found)
    # Those in the form of MBPP have none, as MBPP's.
    assert all(one.examples or one.source.name.startswith("MBPP-like/") for one in found)
    assert len(found) == 20 + 15 + 66 + 40
    assert set(EQUIVALENT) <= {one.source.name for one in found}
    assert "Below 90%: none." in "\n".join(report(found, survivors=True))
