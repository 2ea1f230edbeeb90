"""Whether the entry function calls its helper, ignores it, or only wraps it."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.teamwork import helper_uses


def helper_use(code: str, function: str):
    (found,) = helper_uses(code, function, ("aux",))
    return found


def use(body: str, around: str = ""):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return helper_use(f"{around}\ndef main(x, xs=()):\n{lines}", "main")


CALLED = {
    "assigned": "y = aux(x)\nreturn y + 1",
    "inside an expression": "return 1 + aux(x)",
    "in a comprehension": "return [aux(v) for v in xs]",
    "given to map": "return list(map(aux, xs))",
    "given as a key": "return sorted(xs, key=aux)",
    "given to list.sort": "xs = list(xs)\nxs.sort(key=aux)\nreturn xs",
    "by another name": "f = aux\nreturn f(x) + 1",
    "in a nested function": "def inner(v):\n    return aux(v)\nreturn inner(x) + 1",
    "in a lambda": "return (lambda v: aux(v) + 1)(x)",
    "in a condition": "if aux(x):\n    return 1\nreturn 2",
    "in a loop": "for v in aux(x):\n    x += v\nreturn x",
    "in a walrus": "if (y := aux(x)) > 1:\n    return y\nreturn 0",
    "in an f-string": "return f'{aux(x)}!'",
    "in a try": "try:\n    return aux(x) + 1\nexcept ValueError:\n    return 0",
    "under a condition that may hold": "if x:\n    return aux(x)\nreturn x",
}


@pytest.mark.parametrize("body", CALLED.values(), ids=CALLED)
def test_a_call_whose_result_matters_is_a_use(body):
    found = use(body)
    assert found.called and not found.ignored and not found.wrapper
    assert found.reasons == ()


HANDED = {
    "as a comparison": "from functools import cmp_to_key\nreturn sorted(xs, key=cmp_to_key(aux))",
    "as an unusual key": "import heapq\nreturn heapq.nlargest(2, xs, key=aux)",
    "to a regular expression": "import re\nreturn re.sub('a', aux, x) + '!'",
    "to an iterator": "return list(iter(aux, x))",
    "to a dict of defaults": "from collections import defaultdict\nd = defaultdict(aux)\nreturn d[x]",
    "to an executor": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor() as pool:\n    return pool.submit(aux, x).result()"
    ),
    "to a class": "class Box:\n    def __init__(self, f):\n        self.f = f\nreturn Box(aux).f(x)",
    "by keyword to anything": "return x.apply(by=aux)",
    "in a dict": "ops = {'a': aux}\nreturn ops['a'](x) + 1",
    "in a tuple": "y = 0\nfor f in (aux, abs):\n    y += f(x)\nreturn y",
    "in a comprehension": "return sum(f(x) for f in (aux, abs))",
    "as one of two names": "f, g = aux, abs\nreturn f(x) + g(x)",
    "in brackets": "return (f := aux)(x) + f(1)",
    "in a class": "class C:\n    f = staticmethod(aux)\nreturn C.f(x) + 1",
    "under a class's name": "class C:\n    f = aux\nreturn C.f(x) + 1",
    "as an attribute": "import types\nc = types.SimpleNamespace()\nsetattr(c, 'f', aux)\nreturn c.f(x) + 1",
    "by a function": "def pick():\n    return aux\nreturn pick()(x) + 1",
}


@pytest.mark.parametrize("body", HANDED.values(), ids=HANDED)
def test_a_helper_that_something_may_call_is_a_use_if_the_outcome_matters(body):
    found = use(body)
    assert found.called and not found.ignored and not found.wrapper


def test_what_may_call_the_helper_excuses_no_call_whose_result_is_lost():
    for kept in ("return [int, aux][x](x)", "ops = {'a': aux}\nreturn ops"):
        assert use(kept).called and not use(kept).ignored
        assert use(f"aux(x)\n{kept}").ignored


def test_what_may_call_the_helper_while_the_code_is_loaded_is_not_taken_for_a_call():
    assert use("return TABLE[x] + 0", "TABLE = list(map(aux, range(9)))").loading
    kept = use("return TABLE['a'](x) + 0", "TABLE = {'a': aux}")
    assert kept.called and not kept.loading


def test_what_may_call_the_helper_for_nothing_ignores_its_result():
    found = use("from threading import Thread\nt = Thread(target=aux)\nt.start()\nreturn x")
    assert found.called and found.ignored
    assert found.reasons == ("Line 4: the result is assigned to t but never used",)


def test_only_the_name_beside_it_is_the_helper():
    assert use("f, g = aux, abs\ny = f(x)\nreturn g(x)").ignored
    assert not use("f, g = aux, abs\nreturn g(x)").called


NOT_CALLED = {
    "comment": "# aux(x)\nreturn x",
    "string": "return 'aux(x)'",
    "docstring": '"""aux(x)"""\nreturn x',
    "method": "return x.aux(x)",
    "keyword": "return dict(aux=x)",
    "longer name": "return auxiliary(x)",
    "only mentioned": "aux\nreturn x",
    "only kept": "fs = [aux]\nreturn x",
    "only tested": "return 1 if aux else 2",
    "only asked for an attribute": "return aux.__name__",
    "only looked at": "return callable(aux)",
    "assigned but never called": "f = aux\nreturn x",
    "given to something that does not call it": "print(aux)\nreturn x",
    "after a return": "return x\nreturn aux(x)",
    "after a raise": "raise ValueError\nreturn aux(x)",
    "under if False": "if False:\n    return aux(x)\nreturn x",
    "in the else of if True": "if True:\n    return x\nelse:\n    return aux(x)",
    "under while 0": "while 0:\n    x = aux(x)\nreturn x",
    "own local name": "aux = abs\nreturn aux(x)",
    "own loop variable": "for aux in xs:\n    aux(x)\nreturn x",
    "own nested function": "def aux(v):\n    return v\nreturn aux(x)",
    "own exception name": "try:\n    x()\nexcept ValueError as aux:\n    aux(x)\nreturn x",
    "own import": "from math import sqrt as aux\nreturn aux(x)",
}


@pytest.mark.parametrize("body", NOT_CALLED.values(), ids=NOT_CALLED)
def test_what_never_calls_the_team_mates_helper_is_no_use(body):
    found = use(body)
    assert (found.called, found.ignored, found.wrapper) == (False, False, False)


@pytest.mark.parametrize(
    "around",
    [
        "def aux(v):\n    return v",
        "class aux:\n    pass",
        "aux = abs",
        "import math as aux",
        "from m import aux",
        "if True:\n    def aux(v):\n        return v",
        "for aux in (abs,):\n    pass",
    ],
)
def test_a_helper_that_mains_code_defines_itself_is_not_the_team_mates(around):
    assert not use("return aux(x) + 1", around).called


def test_a_parameter_of_that_name_is_not_the_helper():
    assert not helper_use("def main(aux):\n    return aux(1) + 1", "main").called


def test_functions_that_main_mentions_count_as_parts_of_it():
    around = "def a(v):\n    return b(v)\n\ndef b(v):\n    return aux(v) * 2\n\ndef c(v):\n    return aux(v)"
    found = use("return a(x) + 1", around)
    assert found.called and not found.ignored and not found.wrapper
    assert not use("return x", around).called


def test_one_used_result_is_enough():
    found = use("aux(x)\ny = aux(x)\nreturn y + 1")
    assert found.called and not found.ignored
    assert found.reasons == ("Line 3: the result is thrown away",)


WRAPPERS = {
    "return": "return aux(x)",
    "return in brackets": "return(aux(x))",
    "docstring first": '"""Square."""\nreturn aux(x)',
    "padding": "pass\n...\n'text'\nimport math\nreturn aux(x)",
    "assigned": "r = aux(x)\nreturn r",
    "assigned, brackets": "r = aux(x)\nreturn (r)",
    "assigned, comment": "r = aux(x)\nreturn r  # done",
    "annotated": "r: int = aux(x)\nreturn r",
    "renamed": "r = aux(x)\ns = r\nreturn s",
    "other arguments": "return aux(x + 1, len(xs))",
    "after the return": "return aux(x)\nreturn x + 1",
    "if True": "if True:\n    return aux(x)",
    "nothing returned": "y = aux(x)",
    "in a dict": "ops = {'a': aux}\nreturn ops['a'](x)",
    "as one of two names": "f, g = aux, abs\nreturn f(x)",
    "in brackets": "return (f := aux)(x)",
    "remembered": "from functools import lru_cache\nf = lru_cache(None)(aux)\nreturn f(x)",
}


@pytest.mark.parametrize("body", WRAPPERS.values(), ids=WRAPPERS)
def test_a_function_that_only_returns_the_result_is_a_wrapper(body):
    assert use(body).wrapper


def test_a_wrapper_behind_functions_of_its_own_is_a_wrapper():
    around = "def a(v):\n    return b(v)\n\ndef b(v):\n    w = aux(v)\n    return w"
    assert use("return a(x)", around).wrapper
    assert not use("return a(x)", around.replace("w = aux(v)", "w = aux(v) + 1")).wrapper


def test_lambdas_are_functions_too():
    assert helper_use("main = lambda x: aux(x)", "main").wrapper
    assert not helper_use("main = lambda x: aux(x) + 1", "main").wrapper


def test_functions_that_call_each_other_for_ever_end_the_search():
    around = "def a(v):\n    return b(v)\n\ndef b(v):\n    return a(v)"
    assert not use("return a(x)", around).called


def test_code_without_the_function_uses_nothing():
    for code in ("", "x = aux(1)", "def other():\n    return aux(1)", "def main(:\n"):
        assert not helper_use(code, "main").called


@pytest.mark.parametrize(
    "code",
    [
        "class S:\n    def go(self, x):\n        y = aux(x)\n        return y + 0\n"
        "def sq(x):\n    return S().go(x)",
        "T = [aux(i) for i in range(9)]\ndef sq(x):\n    return T[x]",
        "f = aux\ndef sq(x):\n    return f(x) + 0",
        "def sq(x):\n    def g():\n        return y + 0\n    y = aux(x)\n    return g()",
    ],
)
def test_uses_through_classes_values_and_closures_count(code: str) -> None:
    use = helper_use(code, "sq")
    assert use.called and not use.ignored and not use.wrapper


@pytest.mark.parametrize(
    "body",
    [
        "def unused():\n        return aux(x)\n    return x * x",
        "f = lambda: aux(x)\n    return x * x",
    ],
)
def test_a_nested_function_that_nothing_calls_uses_nothing(body: str) -> None:
    assert not helper_use(f"def sq(x):\n    {body}", "sq").called


@pytest.mark.filterwarnings("error")
def test_a_strange_escape_in_the_code_is_nobodys_business() -> None:
    assert helper_use("def main(x):\n    return aux(x) + len('\\d')", "main").called
