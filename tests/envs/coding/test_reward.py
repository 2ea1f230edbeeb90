"""The reward, level by level, over every case that a text-based reading gets wrong."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs import CodeTask, Limits, Sandbox
from llm_decpomdp.envs.coding.reward import COMPONENTS, CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.datasets.humaneval import code_task

PROMPT = 'def sq(x):\n    """square"""\n'
TESTS = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"
AUX = "def aux(x):\n    return x*x"
HALF = "def aux(x):\n    return x*x - x"
DOUBLE = "def sq(x):\n    return aux(x) + x"
GOOD = "def sq(x):\n    y = aux(x)\n    if y is None:\n        return 0\n    return y"
ALONE = "def sq(x):\n    return x*x"


def make_task(test: str = TESTS, prompt: str = PROMPT, entry_point: str = "sq") -> CodeTask:
    row = {"task_id": "t/0", "prompt": prompt, "test": test, "entry_point": entry_point}
    return code_task(0, row)


def judge(aux: str, main: str, task: CodeTask | None = None, limits: Limits | None = None):
    sandbox = Sandbox(limits or Limits(load_seconds=5, test_seconds=5))
    reward = CodeReward(coding_team(2), sandbox)
    return reward(task or make_task(), {"aux_0": aux, "main_0": main})


def judge_alone(main: str, task: CodeTask | None = None):
    return CodeReward(coding_team(1))(task or make_task(), {"main_0": main})


def values_are(expected: str, call: str = "candidate(2)") -> CodeTask:
    return make_task(f"def check(candidate):\n    assert {call} == {expected}\n")


# How a completion is read, and how main uses the helper

WRAPPER = 3.0
"""Points of a solution whose helper solves the whole problem."""

MAINS = {
    WRAPPER: {
        "constant and class beside main": "ONE = 1\nclass Box:\n    def __init__(self, v):\n"
        "        self.v = v\n\ndef sq(x):\n    return Box(aux(x)).v * ONE",
        "decorated": "from functools import lru_cache\n@lru_cache\n"
        "def sq(x):\n    y = aux(x)\n    return y + 0",
        "lambda": "sq = lambda x: aux(x) + 0",
        "text at column 0 inside a string": 'def sq(x):\n    s = """\nhello\n"""\n    y = aux(x)\n'
        "    return y if s else 0",
        "bracket at column 0": "def sq(x):\n    y = max(\n    aux(x),\n    3\n)\n    return y",
        "indented by tabs": "\tdef sq(x):\n\t\ty = aux(x)\n\t\treturn y + 0\n\tprint(1)",
        "special token at the end": GOOD + "<|endoftext|>",
        "padding": "def sq(x):\n    pass\n    return aux(x)",
        "result in brackets": "def sq(x):\n    r = aux(x)\n    return (r)",
        "comment after": "def sq(x):\n    r = aux(x)\n    return r  # done",
        "annotated": "def sq(x):\n    r: int = aux(x)\n    return r",
        "no space": "def sq(x):\n    return(aux(x))",
        "renamed": "def sq(x):\n    r = aux(x)\n    s = r\n    return s",
        "long signature": "def sq(\n    x,\n):\n    return aux(x)",
        "work on the result": "def sq(x):\n    r = aux(x) * 2 - aux(x)\n    return r",
        "demonstration": f"{GOOD}\n\nif __name__ == '__main__':\n    raise SystemExit(sq(input()))\n",
        "call of a demonstration": f"{GOOD}\n\nprint(sq(2), 'a demo')\n",
        "assert of a demonstration": f"{GOOD}\n\nassert sq(2) == 4\n",
        "test of a demonstration": f"{GOOD}\n\ndef test_sq():\n    assert sq(1) == 2\n",
        "import before prose": "import math\n\nHere is the function:\n\n"
        "def sq(x):\n    y = aux(x)\n    return math.floor(y)",
        "constant before prose": "N = 1\nHere is the code:\ndef sq(x):\n    y = aux(x)\n    return y * N",
        "import in try": "try:\n    import numpy as np\nexcept ImportError:\n    np = None\n"
        "def sq(x):\n    y = aux(x)\n    return y + 0\nHope this helps you!",
        "end of turn": "def sq(x):\n    y = aux(x)\n    return y + 0<end_of_turn>",
        "import from the future": "from __future__ import annotations\n"
        "from dataclasses import dataclass\n@dataclass\nclass P:\n"
        "    v: int\ndef sq(x):\n    return P(aux(x)).v",
    },
    2.5: {
        "nested function, aux never read": "def sq(x):\n    def h(v):\n        return v*v\n"
        "    y = aux(x)\n    return h(x)",
        "helper beside main, aux never read": "def helper(x):\n    return x*x\n\n"
        "def sq(x):\n    y = aux(x)\n    return helper(x)",
        "a helper that main defines itself": f"def aux(x):\n    return x*x\n\n{GOOD}",
        "result thrown away": "def sq(x):\n    aux(x)\n    z = x\n    return z*z",
        "result never read": "def sq(x):\n    y = aux(x)\n    z = x\n    return z*z",
        "call in a comment": "def sq(x):\n    # could call aux(x) here\n    z = x\n    return z*z",
        "call in a string": 'def sq(x):\n    s = "aux(1)"\n    return x*x',
        "a method of that name": "class Obj:\n    def aux(self, x):\n        return x*x\n"
        "obj = Obj()\ndef sq(x):\n    return obj.aux(x)",
        "call that never runs": "def sq(x):\n    if False:\n        aux(x)\n    return x*x",
        "function with a state, called once for each test": "def sq(x, seen=[]):\n    seen.append(x)\n"
        "    y = aux(x)\n    return -1 if len(seen) % 2 == 0 else y",
    },
    1.5: {"async: a test gets a coroutine": "async def sq(x):\n    return aux(x) + 0"},
    0.4: {
        "return in a comment": "def sq(x):\n    # I will return later\n    pass",
        "return in a docstring": 'def sq(x):\n    """must return x"""\n    pass',
        "a method": "class S:\n    def sq(self, x):\n        return x",
        "return at column 0": "def sq(x):\n # your function code here\nreturn x*x",
    },
}
"""Answers of `main_0` next to a helper that solves the whole problem, by their points."""


@pytest.mark.parametrize(
    ("main", "points"),
    [
        pytest.param(main, points, id=name)
        for points, mains in MAINS.items()
        for name, main in mains.items()
    ],
)
def test_a_completion_is_read_and_run_as_python_does(main, points):
    assert judge(AUX, main).reward == pytest.approx(points)


POWER = "import math\ndef aux(x):\n    return math.pow(x,2)"
TO_INT = "def sq(x):\n    y = aux(x)\n    y = int(y)\n    return y"


@pytest.mark.parametrize(
    ("aux", "main", "points"),
    [
        ("def aux(x):\n    return(x*x)", "def sq(x):\n    return(x*x)", 2.5),
        ("def aux(x):\n    return\n", "def sq(x):\n    return[x*x][0]", 2.5),
        (POWER, TO_INT, WRAPPER),
        (f"Here:\n```python\n{POWER}\n```\n", f"```\n{TO_INT}\n```", WRAPPER),
        (f"<s>{AUX}</s>", f"<|im_start|>{GOOD}<|im_end|>", WRAPPER),
    ],
    ids=["no space", "bare return", "imports", "imports in a fence", "special tokens"],
)
def test_helpers_are_read_as_main_is(aux, main, points):
    assert judge(aux, main).reward == pytest.approx(points)


DOCSTRING = make_task(TESTS + "    assert candidate.__doc__ == 'Some text here.'\n")
CALLS = make_task(TESTS + "    assert candidate.calls == 2\n")
SORTED = "return sorted(set(aux(x) for x in xs if x > 2), reverse=True)[:3]"


@pytest.mark.parametrize(
    ("task", "main", "points"),
    [
        (
            values_are("[4]", "list(candidate(2))"),
            "def sq(x):\n    for y in [aux(x)]:\n        yield y",
            4.0,
        ),
        (DOCSTRING, 'def sq(x):\n    """Some text here."""\n    return aux(x) + 0', 4.0),
        (CALLS, "def sq(x):\n    sq.calls += 1\n    return aux(x) + 0\nsq.calls = 0", 4.0),
        (
            values_are("[25, 16, 9]", "candidate([1, 3, 4, 5, 4])"),
            f"def sq(xs):\n    {SORTED}",
            4.0,
        ),
        (
            values_are("9", "candidate([1, 2])"),
            "def sq(auxiliary):\n    return sum(auxiliary) * 3",
            2.5,
        ),
    ],
    ids=["generator", "docstring stays", "calls by tests", "one expression", "a longer name"],
)
def test_other_tests_ask_for_more_than_a_wrapper(task, main, points):
    assert judge(AUX, main, task).reward == points


def test_a_fence_inside_a_string_stays():
    task = values_are(repr("```python\n"))
    main = "def sq(x):\n    aux(x).bit_length()\n    s = '```python\\n'\n    return s"
    assert judge(AUX, main, task).components["tests"] == 1.0


# Wrappers, and helpers that could be trivial

DODGES = {
    "assigned": "r = aux(x)\nreturn r",
    "plus nothing": "return aux(x) + 0",
    "lambda": "return (lambda v: aux(v))(x)",
    "collected arguments": "return aux(*(x,))",
    "keyword": "return aux(**{'x': x})",
    "walrus": "return (r := aux(x))",
    "try and finally": "try:\n    r = aux(x)\nfinally:\n    pass\nreturn r",
    "a handler": "try:\n    return aux(x)\nexcept ValueError:\n    return 0",
    "condition that holds": "return aux(x) if True else None",
    "condition on the result": "r = aux(x)\nif r is None:\n    return 0\nreturn r",
    "loop of one round": "for v in [x]:\n    r = aux(v)\nreturn r",
    "loop that waits": "r = None\nwhile r is None:\n    r = aux(x)\nreturn r",
    "tuple": "return (aux(x), 1)[0]",
    "unpacked": "(r,) = [aux(x)]\nreturn r",
    "dict": "return {'r': aux(x)}['r']",
    "comprehension": "return [aux(v) for v in (x,)][0]",
    "yield from": "def f():\n    yield from [aux(x)]\nreturn next(f())",
    "text and back": "return int(str(aux(x)))",
    "type and back": "return int(float(aux(int(x))))",
    "function inside": "def f(v):\n    return aux(v)\nreturn f(x)",
    "another name": "f = aux\nreturn f(x)",
    "partial": "from functools import partial\nreturn partial(aux, x)()",
    "asserted": "r = aux(x)\nassert r == r\nreturn r",
    "condition": "r = aux(x)\nif r:\n    return r\nreturn r",
    "constant compared": "r = aux(x)\nif r == 12345:\n    return 0\nreturn r",
    "sum": "return sum([aux(x)])",
    "object": "class Box:\n    pass\nbox = Box()\nbox.r = aux(x)\nreturn box.r",
}
"""Entry functions that do no more than a helper that solves the whole problem, in words that look like more."""

FILES = ("def aux(xs):\n    return sorted(xs)", "candidate([3, 1, 2])", "[1, 2, 3]")
TEXTS = ("def aux(s):\n    return s.upper()", "candidate('abc')", "'ABC'")


@pytest.mark.parametrize("body", DODGES.values(), ids=DODGES)
def test_a_wrapper_is_one_in_whatever_words(body):
    main = "def sq(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert judge(AUX, main).reward == pytest.approx(WRAPPER)


def test_decorated_and_assigned_functions_are_wrappers_too():
    decorated = "def own(f):\n    return lambda v: aux(v)\n\n@own\ndef sq(x):\n    return x"
    for main in (decorated, "sq = lambda x: aux(x) + 0", "def sq(x):\n    return 1\nsq = aux"):
        assert judge(AUX, main).components["not_wrapper"] == 0.0


@pytest.mark.parametrize(("aux", "call", "result"), [FILES, TEXTS], ids=["lists", "texts"])
@pytest.mark.parametrize("body", ["r = aux(x)\n    return r", "return type(x)(aux(x))[:]"])
def test_wrappers_of_other_types_are_wrappers(aux, call, result, body):
    assert judge(aux, f"def sq(x):\n    {body}", values_are(result, call)).reward == WRAPPER


def test_work_that_the_helper_does_not_do_is_more_than_wrapping():
    assert judge(HALF, DOUBLE).components["not_wrapper"] == 1.0
    assert judge(HALF, "def sq(x):\n    return sum([aux(x), x])").components["not_wrapper"] == 1.0


IDLE = {
    "a constant asserted": ("return 0", "assert aux(x) == 0\n    return x * x"),
    "another constant": ("return 'fine'", "assert aux(x) == 'fine'\n    return x * x"),
    "a list": ("return []", "if aux(x) != []:\n        return None\n    return x * x"),
    "a condition": ("return x + 1", "if aux(x):\n        return x * x"),
    "a limit": ("return abs(x)", "assert aux(x) >= 0\n    return x * x"),
    "None": ("return None", "return x * x if aux(x) is None else 0"),
    "the argument": ("return x", "x = aux(x)\n    return x * x"),
    "the argument copied": ("return int(str(x))", "return aux(x) * aux(x)"),
    "all arguments": ("return x, y", "a, b = aux(x, x)\n    return a * b"),
}
"""Helper and entry function: a constant or the arguments would do in place of the helper's results."""


@pytest.mark.parametrize(("aux", "main"), IDLE.values(), ids=IDLE)
def test_a_helper_that_could_be_trivial_is_ignored(aux, main):
    helper = f"def aux(x, y=None):\n    {aux}"
    components = judge(helper, f"def sq(x):\n    {main}").components
    names = ("tests", "uses_aux", "aux_ignored")
    assert [components[name] for name in names] == [1, 0.5, -0.5]


def test_what_a_helper_computes_is_not_trivial():
    for main in ("return aux(x) + x", "assert aux(x) == x * x - x\n    return x * x"):
        assert judge(HALF, f"def sq(x):\n    {main}").reward == 4.0


def test_a_single_call_does_not_make_a_helper_constant():
    task = values_are("4")
    more, less = "def aux(x):\n    return x + 5", "def sq(x):\n    return aux(x) - 3"
    assert judge(more, less, task).reward == 4.0
    for constant in ("0", "None", "''", "[]", "True"):
        main = f"def sq(x):\n    assert aux(x) == {constant}\n    return x * x"
        components = judge(f"def aux(x):\n    return {constant}", main, task).components
        assert components["aux_ignored"] == -0.5


SLOW = """import time
def sq(x):
    end = time.process_time() + 0.25
    while time.process_time() < end:
        pass
    {}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aux", "body", "points"),
    [
        (HALF, "return aux(x) + x", 4.0),
        (HALF, "aux(x)\n    return x * x", 3.5),
        (AUX, "return aux(x) + 0", WRAPPER),
        ("def aux(x):\n    return 0", "assert aux(x) == 0\n    return x * x", 3.5),
    ],
)
def test_a_slow_program_is_judged_like_a_quick_one(aux, body, points):
    limits = Limits(test_seconds=0.4, program_seconds=5)
    verdict = judge(aux, SLOW.format(body), make_task(FIVE), limits)
    assert verdict.reward == pytest.approx(points)


# Levels

FIVE = "def check(candidate):\n" + "".join(
    f"    assert candidate({x}) == {x * x}\n" for x in range(5)
)
BROKEN = "def sq(x):\n    return x*x +"


@pytest.mark.parametrize(
    ("aux", "main", "points"),
    [
        ("", "", 0.0),
        (AUX, "", 0.4),
        (AUX, BROKEN, 1.0),
        ("", BROKEN, 0.6),
        ("def aux(x):\n    return (", GOOD, 1.0),
        ("", ALONE, 2.1),
        ("no code at all", ALONE, 2.1),
        (AUX, "def sq(x):\n    return -1", 1.5),
        (AUX, "raise SystemExit\n" + GOOD, 1.5),
        (AUX, "def sq(x):\n    return aux(x) if x < 2 else 0", 1.5 + 0.4),
        ("def aux(x):\n    pass", "def sq(x):\n    aux(x)\n    return x*x", 2.1 + 1.0),
        (AUX, GOOD, WRAPPER),
        (HALF, DOUBLE, 4.0),
    ],
    ids=str,
)
def test_levels_stay_apart(aux, main, points):
    assert judge(aux, main, make_task(FIVE)).reward == pytest.approx(points)


def test_a_timed_out_run_keeps_the_credit_and_the_bonuses_of_what_passed():
    main = "def sq(x):\n    while x > 1:\n        pass\n    return aux(x) + x"
    verdict = judge(HALF, main, make_task(FIVE), Limits(test_seconds=0.5))
    assert verdict.components["tests"] == pytest.approx(0.4)
    assert verdict.components["uses_aux"] + verdict.components["not_wrapper"] == 1.5
    assert [test.status for test in verdict.analysis.tests] == ["passed"] * 2 + ["timeout"] * 3


def test_a_canonical_single_solution_earns_full_marks():
    verdict = judge_alone(ALONE)
    assert verdict.reward == pytest.approx(2.1) and verdict.solved


def test_only_full_marks_solve_a_task():
    assert judge(HALF, DOUBLE).solved
    assert not judge(AUX, "def sq(x):\n    return aux(x)").solved
    assert not judge_alone("def sq(x):\n    return 4").solved


def test_the_components_are_always_the_same_and_add_up():
    for main in ("", BROKEN, ALONE, GOOD):
        verdict = judge(AUX, main)
        assert tuple(verdict.components) == tuple(COMPONENTS)
        assert verdict.reward == pytest.approx(sum(verdict.components.values()))
        assert len(verdict.analysis.tests) == 2


# The program

TWICE = "def twice(x):\n    return {}\n\n"
IMPORT = "from typing import (\n    List,\n    Optional,\n)\n\n"


@pytest.mark.parametrize(
    ("prompt", "test", "main"),
    [
        ('def sq(x):\n    """square\n    import duties are taxed\n    """\n', TESTS, GOOD),
        (IMPORT + PROMPT, TESTS, GOOD.replace("(x):", "(x: Optional[int]) -> Optional[int]:")),
        (
            TWICE.format("2 * x") + PROMPT,
            "def check(candidate):\n    assert candidate(2) * 2 == twice(4)\n",
            "def sq(x):\n    return twice(aux(x)) // 2",
        ),
        (
            TWICE.format("0") + PROMPT,
            TESTS,
            f"{TWICE.format('2 * x')}def sq(x):\n    return twice(aux(x)) // 2",
        ),
    ],
    ids=["import in a docstring", "import of several lines", "helper", "helper replaced"],
)
def test_imports_and_helpers_of_the_prompt_belong_to_the_program(prompt, test, main):
    assert judge(AUX, main, make_task(test, prompt)).reward == WRAPPER


def test_a_prompt_may_end_after_the_header():
    task = make_task(prompt="import math\ndef sq(x: float) -> float:\n    # the square\n")
    assert task.signature == "def sq(x: float) -> float"
    assert judge_alone("def sq(x):\n    return math.pow(x, 2)", task).reward == pytest.approx(2.1)


def test_annotations_are_evaluated_as_written():
    assert judge_alone("def sq(x: Unknown):\n    return x*x").components["tests"] == 0.0
    main = "from __future__ import annotations\ndef sq(x: Unknown):\n    return x*x"
    assert judge_alone(main).reward == pytest.approx(2.1)


@pytest.mark.parametrize(
    ("former", "name"), [("judge", "score_program"), ("program", "build_program")]
)
def test_a_subclass_with_a_method_of_a_former_name_is_refused(former, name):
    with pytest.raises(TypeError, match=f"Own.{former} overrides nothing: rename it to {name}"):
        type("Own", (CodeReward,), {former: lambda self: None})
    mixin = type("Mixin", (), {former: classmethod(lambda cls: None)})
    with pytest.raises(TypeError, match=f"Own.{former} overrides nothing"):
        type("Own", (mixin, CodeReward), {})
    type("Own", (CodeReward,), {name: lambda self: None})
