"""Reading code out of completions: any text is legal, and Python decides."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_decpomdp.envs.coding.helper_use import is_wrapper, lost_results, names
from llm_decpomdp.envs.programs.code_blocks import ATTEMPT, MAX_READ
from llm_decpomdp.envs.programs.completion import (
    find_function,
    read,
    signature,
    syntax_tree,
    without_definition,
)

SQ = "def sq(x):\n    y = aux(x)\n    return y + 1"


def runs(completion: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(read(completion, "sq").code, names)
    return names


INDENTED = "\n".join("    " + line for line in SQ.splitlines())

# Finding the code


@pytest.mark.parametrize(
    "completion",
    [
        SQ,
        f"```python\n{SQ}\n```",
        f"```\n{SQ}\n```",
        f"~~~py\n{SQ}\n~~~",
        f"Sure! Here it is:\n\n```python\n{SQ}\n```\nI hope that this helps.",
        f"```python\n{SQ}",
        f"{SQ}\n```",
        f"Here is the function.\n\n{SQ}\n\nIt calls aux and adds one.",
        f"```text\nThe plan: think.\n```\n```python\n{SQ}\n```",
        SQ.replace("\n", "\r\n"),
        f"```python\r\n{SQ}\r\n```\r\n".replace("\n", "\r\n"),
        SQ.replace("    ", "\t"),
        INDENTED,
        f"Here is the code:\n\n{INDENTED}\n\nIt works.",
        f"1. Think.\n2. The code:\n\n\t{INDENTED.replace('    ', chr(9))[1:]}\n",
        f"\f\n{SQ}\n\f",
        f"\n\n\n{SQ}\n\n\n",
        f"<s>{SQ}<|endoftext|>",
        f"{SQ}<\uff5cend\u2581of\u2581sentence\uff5c>",
    ],
    ids=repr,
)
def test_code_is_found_wherever_it_stands(completion):
    reading = read(completion, "sq")
    assert reading.complete and reading.problem is None
    node = find_function(reading.code, "sq")
    assert [type(s).__name__ for s in node.body] == ["Assign", "Return"]


def test_methods_of_a_broken_class_are_not_taken_out_of_it():
    reading = read(f"class Sq:\n{INDENTED}\n\n    def rest(self:\n        pass\n", "sq")
    assert reading.defined and reading.problem is not None


@pytest.mark.parametrize("size", [1000, 4000])
def test_what_is_parsed_to_find_the_code_is_bounded(size):
    parsed = syntax_tree.cache_info().misses
    code = f"{SQ}\n" + "x = 1\n" * (size // 3)
    assert read(code + "@a\n" * 200, "sq").defined
    assert (syntax_tree.cache_info().misses - parsed) * (size + ATTEMPT) < 2 * MAX_READ


def test_what_is_parsed_to_find_the_code_is_bounded_over_all_fences():
    parsed = syntax_tree.cache_info().misses
    read("".join(f"```\nx = {i}\n" + "@a\n" * 300 + "```\n" for i in range(50)), "sq")
    assert syntax_tree.cache_info().misses - parsed < 6 * 50


@pytest.mark.parametrize("completion", ["", " \n\t", "```\n```", "```", "<|endoftext|>"])
def test_a_completion_without_code_holds_none(completion):
    reading = read(completion, "sq")
    assert not reading.defined and not reading.returns


@pytest.mark.parametrize(
    "completion",
    [
        "I would square the number.",
        "return x * x",
        "sq",
        "def sqrt(x):\n    return x",
        "class sq: x = 1",
    ],
)
def test_prose_and_other_code_define_nothing(completion):
    assert not read(completion, "sq").defined


def test_of_several_blocks_the_one_that_defines_the_function_wins():
    completion = f"```python\n{'# a long comment' * 20}\nx = 1\n```\n```python\n{SQ}\n```"
    assert read(completion, "sq").code.strip() == SQ


def test_of_several_definitions_the_largest_block_wins():
    completion = f"First:\n```\ndef sq(x):\n    return 0\n```\nBetter:\n```\n{SQ}\n```\n"
    assert read(completion, "sq").code.strip() == SQ


def test_a_whole_block_beats_a_broken_one():
    completion = f"```\ndef sq(x):\n    return (((x * x * x * x * x\n```\n```\n{SQ}\n```"
    assert read(completion, "sq").complete and read(completion, "sq").problem is None


def test_text_after_a_function_is_left_out_with_its_own_errors():
    reading = read(f"{SQ}\n\nThis isn't code (at all.", "sq")
    assert reading.problem is None and reading.code.strip() == SQ


def test_imports_helpers_and_constants_around_the_function_are_kept():
    completion = f"import math\nONE = 1\n\ndef aux(v):\n    return math.floor(v) - ONE\n\n{SQ}\n"
    assert runs(completion)["sq"](5) == 5


def test_fences_inside_strings_stay():
    code = 'def sq(x):\n    """Example\n    ```python\n    sq(2)\n    ```\n    """\n    return sq.__doc__'
    assert read(code, "sq").code == code


def test_special_tokens_inside_strings_stay():
    code = "def sq(x):\n    return '<|endoftext|></s>'"
    assert runs(code)["sq"](1) == "<|endoftext|></s>"


def test_prose_lines_inside_a_docstring_stay():
    code = 'def sq(x):\n    """Some text here.\n\n    And More Of It!\n    """\n    return x'
    assert "And More Of It!" in runs(code)["sq"].__doc__


# What the code defines


@pytest.mark.parametrize(
    ("code", "defined", "returns"),
    [
        ("def sq(x):\n    return(x)", True, True),
        ("def sq(x):\n    return[x]", True, True),
        ("def sq(x):\n    return\n", True, True),
        ("def sq(x): return x", True, True),
        ("def sq(x):\n    yield x", True, True),
        ("def sq(x):\n    yield from x", True, True),
        ("async def sq(x):\n    return x", True, True),
        ("sq = lambda x: x", True, True),
        ("sq: object = 1\ndef sq(x):\n    if x:\n        return x", True, True),
        ("def sq(x):\n    # return x\n    pass", True, False),
        ("def sq(x):\n    'return x'", True, False),
        ("def sq(x):\n    def inner():\n        return x\n    inner()", True, False),
        ("def sq(x):\n    class C:\n        def m(self):\n            return x", True, False),
        ("def sq(x):\n    (lambda: (yield))", True, False),
        ("class A:\n    def sq(self, x):\n        return x", False, False),
        ("def other(x):\n    def sq(x):\n        return x\n    return sq", False, False),
        ("def sq(x):\n    pass\n\ndef sq(x):\n    return x", True, True),
        ("def sq(x):\n    return x\n\ndef sq(x):\n    pass", True, False),
    ],
)
def test_definitions_are_decided_on_the_ast(code, defined, returns):
    reading = read(code, "sq")
    assert (reading.defined, reading.returns, reading.problem) == (defined, returns, None)


@pytest.mark.parametrize(
    ("code", "defined", "returns"),
    [
        ("def sq(x):\n    return x +", True, True),
        ("def sq(x):\n    return(x", True, True),
        ("def sq(x)\n    return x", True, True),
        ("def sq(x: return x", True, True),
        ("async def sq(x):\n    yield x x", True, True),
        ("def sq(x):\n    if x: return x x", True, True),
        ("def sq(x):\n    # return x\n    x x", True, False),
        ("def sq(x):\n    returned = x x", True, False),
        ("def sq(x):\n    x x\n\ndef other(x):\n    return x", True, False),
        ("def sq(x):\n    x x\nreturn x", True, False),
        ("def sqrt(x):\n    return x x", False, False),
        ("sq(x) x\nreturn x", False, False),
    ],
)
def test_broken_code_is_read_by_its_header_and_its_block(code, defined, returns):
    reading = read(code, "sq")
    assert reading.problem is not None
    assert (reading.defined, reading.returns) == (defined, returns)


@pytest.mark.parametrize(
    "completion",
    [
        "def sq(x):\n    y = x\n    return y +* 2\n",
        "Sure, this is the code:\n```python\ndef sq(x):\n    y = x\n    return y +* 2\n```",
        "\n\n    def sq(x):\n        y = x\n        return y +* 2\n",
    ],
)
def test_a_syntax_error_is_placed_in_the_agents_own_code(completion):
    reading = read(completion, "sq")
    assert (reading.problem.line, reading.problem.message) == (3, "invalid syntax")
    assert reading.code.splitlines()[2].strip() == "return y +* 2"


def test_code_that_parses_but_cannot_be_compiled_has_a_problem():
    assert read("def sq(x):\n    return x\n    nonlocal y", "sq").problem is not None
    assert read("def sq(x):\n    return x\nreturn 1", "sq").problem is None  # the function is kept


# Prompts


@pytest.mark.parametrize(
    ("prompt", "header"),
    [
        ('def now() -> int:\n    """time"""\n', "def now() -> int"),
        (
            'def now(a: Tuple[int, int] = (1, 2), b=3):\n    """x"""\n',
            "def now(a: Tuple[int, int]=(1, 2), b=3)",
        ),
        (
            'def poly(xs, x):\n    return 0\n\n\ndef now(xs: list):\n    """x"""\n',
            "def now(xs: list)",
        ),
        ("async def now(*, key):\n    pass\n", "async def now(*, key)"),
        (
            "def now(\n    a,\n    /,\n    *rest,\n    **more,\n):\n    pass\n",
            "def now(a, /, *rest, **more)",
        ),
        ("Write a function that tells the time.", "def now(...)"),
    ],
)
def test_a_signature_is_the_entry_points_own(prompt, header):
    assert signature(prompt, "now") == header


def test_a_preamble_is_the_prompt_without_the_entry_point():
    prompt = 'from typing import (\n    List,\n)\n\ndef poly(x):\n    return x\n\ndef f(x):\n    """import y"""\n'
    assert (
        without_definition(prompt, "f") == "from typing import List\n\ndef poly(x):\n    return x\n"
    )
    assert without_definition('def f(x):\n    """import duties are taxed"""\n', "f") == ""


# Any text is legal


def test_unicode_identifiers_are_normalised_as_python_does():
    assert read("def s\u0071(x):\n    return x", "sq").complete
    assert read("def \uff53\uff51(x):\n    return x", "sq").complete
    assert read("def größe(x):\n    return x", "größe").complete


# fmt: off
FRAGMENTS = st.sampled_from([
    "def sq(x):", "def aux(x):", "return aux(x)", "return x", "\n", "\n    ", "\n\t", "\r\n", "\f",
    "```", "```python\n", "aux(", ")", "(", "'", '"""', ":", "if False:", "y = ", "lambda x: ",
    "class A:", "async ", "yield", "@", "#", "\\", "\x00", "\ud800", "\u2028", "<|end|>", "del aux",
    "for aux in x:", "global aux", "try:", "except aux:", "with aux as y:", "match x:", "x" * 99,
])
# fmt: on


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS | st.text(max_size=5), max_size=14).map("".join))
def test_no_text_at_all_raises(completion):
    reading = read(completion, "sq")
    is_wrapper(reading.code, "sq", ("aux",))
    assert not lost_results(reading.code, "aux") or names(reading.code, "aux")
    assert reading.defined or not reading.returns
