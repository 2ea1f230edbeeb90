"""Random programs and texts: no exception escapes, rewards are in range, and only right values pass."""

from __future__ import annotations

import ast
import math
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_decpomdp.envs.coding.reward import COMPONENTS, CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL, CodeTask
from llm_decpomdp.envs.sandbox import Limits, Sandbox, instrument
from llm_decpomdp.envs.source_code.completion import read
from tests.envs.sandboxed import program
from tests.support.programs import check

LIMITS = Limits(load_seconds=0.3, test_seconds=0.3, max_timeouts=1, wall_factor=2)
SANDBOX = Sandbox(LIMITS, cache_size=0)
# For programs that end by themselves.
PATIENT = Sandbox(Limits(load_seconds=5, test_seconds=5), cache_size=0)
TEAM = coding_team(2)
TASKS = [
    COOPHUMANEVAL.to_task(index, row) for index, row in enumerate(COOPHUMANEVAL.bundled()[:20])
]
SETTINGS = settings(derandomize=True, deadline=None, max_examples=200, database=None)


def judge(task: CodeTask, aux: str, main: str, sandbox: Sandbox = SANDBOX) -> float:
    """The reward of two completions; nothing may be wrong with how it is told."""
    result = CodeReward(TEAM, sandbox)(task, {"aux_0": aux, "main_0": main})
    assert math.isfinite(result.reward) and 0 <= result.reward <= 4
    assert set(result.components) == set(COMPONENTS)
    assert len(result.analysis.tests) == len(task.tests.cases)
    for outcome in result.analysis.tests:
        assert outcome.passed == (outcome.status == "passed")
        assert "\n" not in outcome.message
        outcome.message.encode()
    return result.reward


# Mutations of right programs


def mutated(code: str, tokens: bool, chance: random.Random) -> str:
    """Return code with some tokens or lines deleted, doubled, swapped or replaced."""
    parts = re.split(r"(\W)", code) if tokens else code.splitlines(keepends=True)
    for _ in range(chance.randint(1, 4)):
        first, second = chance.randrange(len(parts)), chance.randrange(len(parts))
        way = chance.choice(("delete", "double", "swap", "replace"))
        if way == "delete" and len(parts) > 1:
            del parts[first]
        elif way == "double":
            parts.insert(first, parts[first])
        elif way == "swap":
            parts[first], parts[second] = parts[second], parts[first]
        else:
            parts[first] = parts[second]
    return "".join(parts)


@pytest.mark.parametrize("tokens", [False, True])
def test_mutated_solutions_earn_what_is_in_range(tokens):
    chance = random.Random(0)
    earned = set()
    for _ in range(400):
        task = chance.choice(TASKS)
        aux, main = task.references["aux_0"], task.references["main_0"]
        earned.add(judge(task, mutated(aux, tokens, chance), mutated(main, tokens, chance)))
    assert len(earned) > 3  # some mutants are broken, some are not


def test_solutions_that_are_whole_earn_all():
    for task in TASKS:
        assert judge(task, task.references["aux_0"], task.references["main_0"], PATIENT) == 4


# Any text

TEXTS = st.text(st.characters(exclude_categories=()), max_size=60)
# fmt: off
PIECES = st.sampled_from([
    "def {0}(x):\n", "def {0}(*a, **k):\n", "async def {0}(x):\n", "    return x\n",
    "    yield x\n", "\treturn x\n",
    "    while True: pass\n", "    raise x\n", "    return {0}(x)\n", "    return aux(x)\n",
    "class {0}:\n", "{0} = ",
    "lambda x: x\n", "```python\n", "```\n", "~~~\n", "````\n", "import os\n", "os._exit(0)\n",
    "exit()\n", "'''", '"""',
    "(", "]", "{", "\\\n", "#", "\x00", "\ud800", "\ufeff", "\f", "\r", "\t", "    ", "@", "del {0}\n", "1/0\n",
    "__name__ = 5\n", "globals().clear()\n", "import sys; sys.modules.clear()\n",
    "from __future__ import braces\n",
    "raise SystemExit\n", "print('x' * 10**6)\n", "if __name__ == '__main__':\n", "def {0}(x, x):\n", "match x:\n",
])
# fmt: on
COMPLETIONS = TEXTS | st.lists(PIECES, max_size=8).map("".join)


@SETTINGS
@given(COMPLETIONS, COMPLETIONS)
def test_any_text_has_a_reward(aux, main):
    task = TASKS[0]
    judge(task, aux.replace("{0}", "aux"), main.replace("{0}", task.entry_point))


@SETTINGS
@given(COMPLETIONS)
def test_any_text_can_be_read_as_code(text):
    reading = read(text, "f")
    assert not (reading.returns and not reading.defined)
    if reading.defined and reading.problem is None:
        ast.parse(reading.code)


@SETTINGS
@given(TEXTS | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
def test_any_text_can_be_run(text):
    (outcome,) = SANDBOX.run(
        program(text), instrument(check("assert candidate(1) == 1"), "sq")
    ).tests
    assert not outcome.passed


GOOD = "def {0}(x):\n    return x"
BROKEN = {
    "unclosed fence": f"```python\n{GOOD}",
    "fence that is closed only": f"{GOOD}\n```",
    "nested fences": f"````\n```python\n{GOOD}\n```\n````",
    "fence in a string": '```\ndef {0}(x):\n    """\n```\n"""\n    return x\n```',
    "many fences": "```\n" * 2000,
    "many broken blocks": "```\ndef {0}(x:\n```\n" * 500,
    "tabs and spaces": "def {0}(x):\n\tif x:\n        return x\n\treturn 0",
    "null bytes": GOOD.replace(" ", "\x00"),
    "surrogates": GOOD + "\n# \ud800\udfff\ns = '\udc80'",
    "name with surrogates": "def {0}\ud800(x):\n    return x",
    "long line": f"{GOOD}  # " + "x" * 10**5,
    "long string": f"{GOOD} + '{'x' * 10**5}'",
    "long name": f"{'x' * 10**5} = 1\n{GOOD}",
    "long expression": f"{GOOD}" + " + x" * 25_000,
    "long chain": f"{GOOD}" + ".a" * 50_000,
    "deep brackets": "def {0}(x):\n    return " + "[" * 10**5,
    "deep blocks": "".join(" " * depth + "if 1:\n" for depth in range(300)) + GOOD,
    "deep decorators": "@x" * 5000 + "\n" + GOOD,
    "deep negations": f"{GOOD} if " + "not " * 20_000 + "x else 0",
    "deep lambdas": "{0} = " + "lambda x: " * 2000 + "x",
    "prose": "Sure! Here is what you asked for: def {0}(x) returns x. " * 200,
    "prose and code in turn": f"And then\n{GOOD}\n" * 200,
    "line breaks of every kind": "\r\n\x0b\x0c\x1c\x85\u2028\u2029".join(GOOD),
    "byte order mark": "\ufeff" + GOOD,
    "another encoding": "# coding: utf-7\n" + GOOD,
    "direction marks": "\u202e" + GOOD + "\u202c",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_broken_text_has_a_reward(text):
    task = TASKS[0]
    aux, main = text.replace("{0}", "aux"), text.replace("{0}", task.entry_point)
    judge(task, aux, main)
    judge(task, task.references["aux_0"], main)


# Random functions against their own definition


TEMPLATES = (
    "({0} + {1})|({0} - {1})|({0} * 2)|({0} // {1})|({0} == {1})|({0} if {1} else {2})|[{0}, {1}]|({0}, {1})|"
    "{{{0!r}: {0}}}|len({0})|str({0})|sorted([{0}, {1}])|[y for y in range(3) if y != {0}]|({0} and {1})|"
    "(lambda x: {0})({1})|{{1, 2}} - {{{0!r}}}"
)


def expression(chance: random.Random, depth: int = 3) -> str:
    """Code for a value that depends on `x`; it may raise."""
    if depth == 0:
        return chance.choice(["x", "x", "-1", "0", "2", "3.5", "'ab'", "(x, 1)", "[x]", "None"])
    inner = [expression(chance, depth - 1) for _ in range(3)]
    template = chance.choice(TEMPLATES.split("|"))
    return template.format(*inner)


def value_or_error(code: str, x: int) -> object:
    try:
        return eval(code, {"x": x})
    except Exception as error:
        return type(error)


def test_random_functions_pass_for_right_values_only():
    """The test states what one function returns; another one passes if, and only if, it returns the same."""
    chance = random.Random(1)
    codes = [expression(chance) for _ in range(600)]
    jobs, right = [], []
    for code in codes:
        answer = code if chance.random() < 0.5 else chance.choice(codes)
        values = [value_or_error(code, x) for x in range(4)]
        lines = [f"assert candidate({x}) == {value!r}" for x, value in enumerate(values)]
        numbers = [x for x, value in enumerate(values) if not isinstance(value, type)]
        if not numbers:
            continue
        tests = instrument(check(*(lines[x] for x in numbers)), "sq")
        jobs.append((program(f"def sq(x):\n    return {answer}"), tests))
        right.append([value_or_error(answer, x) == values[x] for x in numbers])
    found = [[o.passed for o in e.tests] for e in PATIENT.run_batch(jobs)]
    assert found == right
    assert {True, False} <= {passed for outcomes in right for passed in outcomes}
