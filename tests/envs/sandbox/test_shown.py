"""Outputs that prompts may show come before a program knows the calls of hidden tests."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import llm_decpomdp
from llm_decpomdp.envs.sandbox import Sandbox, instrument
from tests.envs.sandboxed import SHORT, WRONG, program
from tests.support.programs import check

one = Sandbox(SHORT, workers=1, cache_size=0, seed=23)


@pytest.fixture(autouse=True, scope="module")
def no_workers_are_left():
    """The sandbox is closed in the end."""
    yield
    one.close()


SPY = """
import marshal, sys

def sq(x):
    frame = sys._getframe()
    while frame is not None:
        for name in ("request", "calls", "data"):
            known = frame.f_locals.get(name)
            known = known["calls"] if isinstance(known, dict) else known
            if isinstance(known, list):
                raise ValueError([marshal.loads(call[1:])[0][0] for call in known])
        frame = frame.f_back
    return x * x
"""
"""It says in an exception which arguments it was told."""


@pytest.mark.parametrize("shown", [1, 2, 3])
def test_what_prompts_may_show_comes_before_the_program_knows_the_rest(shown):
    test = check(
        "assert candidate(4) == 16", "for x in [5, 6]:", "    assert candidate(x) == x * x"
    )
    test += "    assert candidate(4711) == 0\n    assert candidate(8080) == 0\n"
    message = one.run(program(SPY), instrument(test, "sq")).tests[0].message
    assert "4711" in message and "8080" in message
    tests = replace(instrument(test, "sq"), shown=shown)
    for _ in range(2):
        first, *rest = one.run(program(SPY), tests).tests
        assert ("4711" in str([first, *rest[: shown - 1]])) == (shown == 3)
        assert "8080" not in str([first, *rest[: shown - 1]])
        assert "8080" in rest[-1].message


@pytest.mark.parametrize("shown", [1, 2, 9])
def test_the_order_of_the_calls_turns_no_verdict(shown):
    test = check(*(f"assert candidate({x}) == {x * x}" for x in range(1, 5)))
    for code in ("def sq(x):\n    return x * x", *WRONG.values()):
        verdicts = one.run(program(code), instrument(test, "sq")).tests
        tests = replace(instrument(test, "sq"), shown=shown)
        assert one.run(program(code), tests).tests == verdicts


def test_no_prompt_tells_inputs_of_hidden_tests(tmp_path):
    test = check("assert candidate(1) == 1", "assert candidate(4711) == 4711**2")
    row = {"task_id": "t/0", "prompt": 'def sq(x):\n    """square"""\n', "entry_point": "sq"}
    (tmp_path / "own.json").write_text(json.dumps([{**row, "test": test}]))
    for number in (1, 0):
        env = llm_decpomdp.make(
            "humaneval-v0", source=str(tmp_path / "own.json"), num_agents=1, sandbox_slice=number
        )
        env.reset(seed=0)
        prompt = env.step({"main_0": SPY})[0]["main_0"]
        assert "ValueError: [1" in prompt and ("4711" in prompt) == (number == 0)
