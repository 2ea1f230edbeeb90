"""What the code of the entry function's author plainly says about its helper."""

from __future__ import annotations

import time

import pytest

from llm_decpomdp.envs.coding.helper_use import is_wrapper, lost_results, names


def main(body: str, around: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{around}\ndef main(x, xs=()):\n{lines}"


def wraps(code: str) -> bool:
    return is_wrapper(code, "main", ("aux",))


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
    "after the return": "return aux(x)\nreturn aux(x)",
    "nothing returned": "y = aux(x)",
    "in a dict": "ops = {'a': aux}\nreturn ops['a'](x)",
    "as one of two names": "f, g = aux, abs\nreturn f(x)",
    "in brackets": "return (f := aux)(x)",
    "remembered": "from functools import lru_cache\nf = lru_cache(None)(aux)\nreturn f(x)",
    "a lambda": "f = lambda v: aux(v)\nreturn f(x)",
    "given up": "try:\n    return aux(x)\nexcept ValueError:\n    return None",
}


@pytest.mark.parametrize("body", WRAPPERS.values(), ids=WRAPPERS)
def test_a_function_that_only_returns_the_result_is_a_wrapper(body):
    assert wraps(main(body))


WORK = {
    "arithmetic": "return aux(x) + 0",
    "a method of the result": "return aux(x).strip()",
    "the result given to something": "return max(aux(x), 3)",
    "a test of the result": "y = aux(x)\nif y is None:\n    return 0\nreturn y",
    "one of two calls": "if x < 0:\n    return aux(-x)\nreturn aux(x)",
    "arguments in a loop": "for v in xs:\n    x += v\nreturn aux(x)",
    "arguments put in order": "xs.sort()\nreturn aux(xs)",
    "an item of the result": "return aux(x)[0]",
    "a fallback": "try:\n    return aux(x)\nexcept ValueError:\n    return 0",
    "a method": "return x.aux(x)",
    "something else": "aux(x)\nreturn x",
}


@pytest.mark.parametrize("body", WORK.values(), ids=WORK)
def test_a_function_that_does_something_of_its_own_is_none(body):
    assert not wraps(main(body))


def test_a_wrapper_behind_functions_of_its_own_is_a_wrapper():
    around = "def a(v):\n    return b(v)\n\ndef b(v):\n    w = aux(v)\n    return w"
    assert wraps(main("return a(x)", around))
    assert not wraps(main("return a(x)", around.replace("w = aux(v)", "w = aux(v) + 1")))


def test_lambdas_and_other_names_are_functions_too():
    assert wraps("main = lambda x: aux(x)")
    assert wraps("def main(x):\n    return 0\nmain = aux")
    assert not wraps("main = lambda x: aux(x) + 1")


def test_functions_that_call_each_other_end_the_search():
    assert not wraps(
        main("return a(x)", "def a(v):\n    return b(v)\n\ndef b(v):\n    return a(v)")
    )
    begin = time.process_time()
    chain = "".join(
        f"def f{i}(v):\n    y = f{i + 1}(v)\n    return f{i + 1}(v)\n" for i in range(40)
    )
    assert wraps(chain + "f40 = aux\ndef main(x):\n    return f0(x)")
    assert time.process_time() - begin < 5  # not 2 to the power of 40


def test_code_without_the_function_is_no_wrapper():
    for code in ("", "x = aux(1)", "def other():\n    return aux(1)", "def main(:\n"):
        assert not wraps(code)


def test_lines_on_which_a_result_is_lost_are_named():
    found = lost_results(main("aux(x)\ny = aux(x)\nz = aux(x)\nw: int = aux(x)\nreturn z"), "aux")
    assert found == (
        "Line 3: the result is thrown away",
        "Line 4: the result is assigned to y but never used",
        "Line 6: the result is assigned to w but never used",
    )


def test_names_are_looked_for_in_the_code_not_in_its_text():
    assert names("def main(x):\n    return [aux]", "aux")
    assert not names("def main(x):\n    return 'aux(x)'  # aux(x)", "aux")
    assert not names("def main(:", "aux")


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")  # garbage of other tests
def test_a_strange_escape_in_the_code_is_nobodys_business() -> None:
    assert names("def main(x):\n    return aux(x) + len('\\d')", "aux")
