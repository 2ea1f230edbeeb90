"""Reading code out of completions: any text is legal, and Python decides."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_decpomdp.envs.coding.feedback import lost_results, names
from llm_decpomdp.envs.source_code.completion import Reading, read
from llm_decpomdp.envs.source_code.parsing import (
    ATTEMPT,
    MAX_READ,
    find_function,
    remove_function,
    signature,
    syntax_tree,
)

SQ = "def sq(x):\n    y = aux(x)\n    return y + 1"


def run(reading: Reading) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(reading.code, names)
    return names


INDENTED = "\n".join("    " + line for line in SQ.splitlines())


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


@pytest.mark.parametrize(
    "completion",
    [
        *("", " \n\t", "```\n```", "```", "<|endoftext|>"),
        *("I would square the number.", "return x * x", "sq", "class sq: x = 1"),
        "def sqrt(x):\n    return x",
    ],
)
def test_prose_and_other_code_define_nothing(completion):
    reading = read(completion, "sq")
    assert not reading.defined and not reading.returns


@pytest.mark.parametrize("fence", ["```", "~~~", "```python", ""])
def test_of_several_definitions_the_last_complete_one_wins(fence):
    end = fence[:3]
    first = "def sq(x):\n    # a long first idea\n    # that is wrong\n    y = 0\n    return y"
    stub = "def sq(x):\n    pass"
    for texts in ([first, SQ], [first, SQ, stub], [stub, first, SQ], [first, SQ, "import os"]):
        completion = "".join(f"It isn't it:\n{fence}\n{text}\n{end}\n" for text in texts)
        reading = read(completion, "sq")
        assert reading.code.strip() == SQ
        assert reading.fallbacks["drafts"] + reading.fallbacks["stubs"] == len(
            [text for text in texts if text in (first, stub)]
        )


OTHER = "def sq(x):\n    return 0"


@pytest.mark.parametrize(
    "completion",
    [
        f"```python\n{'# a long comment' * 20}\nx = 1\n```\n```python\n{SQ}\n```",
        f"{OTHER}\n\n{SQ}\n\ndef sq(x):\n    raise NotImplementedError\n",
        f"```\n{SQ}\n```\nIt isn't\n\n{OTHER}\n",
        f"```\ndef sq(x): ...\n```\nIt isn't\n\n{SQ}\n",
        f"```\ndef sq(x):\n    return (((x * x * x * x * x\n```\n```\n{SQ}\n```",
        f"{SQ}\n\nThis isn't code (at all.",
    ],
    ids=["other block", "replaced", "fence first", "stub in a fence", "broken", "text with errors"],
)
def test_the_best_definition_is_read_without_what_it_replaces(completion):
    reading = read(completion, "sq")
    assert reading.complete and reading.problem is None and reading.code.strip() == SQ


@pytest.mark.parametrize(
    "code",
    [
        'def sq(x):\n    """Example\n    ```python\n    sq(2)\n    ```\n    """\n    return sq.__doc__',
        'def sq(x):\n    """Some text here.\n\n    And More Of It!\n    """\n    return x',
    ],
)
def test_fences_and_prose_in_a_docstring_stay(code):
    assert read(code, "sq").code == code
    assert read(f"Here:\n```python\n{code}\n```\nIt isn't hard.", "sq").code.strip() == code


AUX = "def aux(x):\n    return x\n\n"
BUILDS_ON = "def sq(x):\n    return x + 1\n\n_sq = sq\n\ndef sq(x):\n    return _sq(x) * 2\n"
FLOOR = "import math\nONE = 1\n\ndef aux(v):\n    return math.floor(v) - ONE\n\n"


@pytest.mark.parametrize(
    ("code", "argument", "value"),
    [
        (f"{AUX}{OTHER}\n\n{SQ}\n\ndef sq(x):\n    raise NotImplementedError\n", 2, 3),
        (BUILDS_ON, 1, 4),
        ("import functools\ndef sq(x):\n    return x\n\nsq = functools.lru_cache(sq)\n", 1, 1),
        (f"{FLOOR}{SQ}\n", 5, 5),
        ("def sq(x):\n    return '<|endoftext|></s>'", 1, "<|endoftext|></s>"),
        ('def sq(x):\n    return """a\n   \nb"""\n', 1, "a\n   \nb"),
        ("def \uff53\uff51(x):\n    return x", 1, 1),
    ],
    ids=["helper", "earlier", "wrapped", "imports", "token in a string", "blanks", "Unicode"],
)
def test_what_the_definition_needs_runs_with_it(code, argument, value):
    assert run(read(code, "sq"))["sq"](argument) == value


@pytest.mark.parametrize(
    "text",
    [
        *("Done", "Explanation", "Complexity: O(n)", "[DONE]", "O(n)", "Done, finished"),
        *(
            "time - space",
            "raise questions",
            "assert correctness",
            "x: int",
            "n",
            "Example: x = aux",
            "Done; O(n)",
        ),
    ],
)
def test_text_that_parses_is_left_out(text):
    for completion in (f"{SQ}\n\n{text}\n", f"{text}\n{SQ}\n", f"```\n{SQ}\n\n{text}\n```"):
        reading = read(completion, "sq")
        assert set(run(reading)) - {"__builtins__"} == {"sq"}
        assert reading.fallbacks["prose"] == 1 + text.count(";")


def test_statements_that_do_something_stay_on_their_lines():
    code = f"import os\nDone\n{SQ}\nsq.calls = 0\nprint(os.sep)\nassert sq\n'text'\nx = 1; Done; y = x\n"
    wanted = code.replace("Done\n", "\n", 1).replace("Done;", "pass;")
    assert read(code, "sq").code == wanted


def test_what_the_definition_needs_of_other_blocks_is_kept_with_its_own_needs():
    blocks = [
        "from __future__ import annotations\nimport math\nprint('a demonstration')",
        "TABLE = [1]\nfor i in range(3):\n    TABLE.append(i)\nTABLE[0] = 7\nassert sq(1) == 2",
        "class Box:\n    def top(self):\n        return close(TABLE[0])",
        "def close(x): ...",
        "def close(x):\n    return math.floor(x)",
        "def unneeded():\n    return 1",
        "def sq(x: Missing):\n    return Box().top() + x",
        "assert sq(0) == 8",
    ]
    blocks[6] = "from __future__ import annotations\n" + blocks[6]
    completion = "\n".join(f"This isn't all:\n```python\n{block}\n```" for block in blocks)
    reading = read(completion, "sq")
    names = run(reading)
    assert names["sq"](1) == 8
    assert "unneeded" not in names and "demonstration" not in reading.code
    assert reading.fallbacks["other_blocks"] == 6


def test_what_team_mates_and_the_task_give_is_not_taken_from_other_blocks():
    completion = f"They write:\n```\ndef aux(x):\n    return 0\n```\nI write:\n```\n{SQ}\n```\n"
    assert read(completion, "sq", given=["aux"]).code.strip() == SQ
    assert "def aux" in read(completion, "sq").code


@pytest.mark.parametrize(
    "completion",
    [
        "    y = aux(x)\n    return y + 1\n",
        "y = aux(x)\n    return y + 1\n",
        "y = aux(x)\nreturn y + 1",
        "\ty = aux(x)\n\treturn y + 1",
        "    y = aux(x)\n    return y + 1\n\n\nprint(sq(2))\n\nIt isn't\n",
        "```python\n    y = aux(x)\n    return y + 1\n```",
        "<think>Let me see.</think>\n    y = aux(x)\n    return y + 1\n",
    ],
)
def test_a_bare_body_continues_the_header_of_the_prompt(completion):
    reading = read(completion, "sq", opening="def sq(x):\n")
    assert reading.complete and reading.fallbacks["body"] == 1
    names = {"aux": lambda x: x * x}
    exec(reading.code, names)
    assert names["sq"](2) == 5
    assert not read(completion, "sq").defined


def test_an_expression_continues_the_return_of_the_prompt():
    opening = "def sq(x):\n    return"
    assert read(" x * x\n", "sq", opening=opening).complete
    assert read("\n    I would square it.", "sq", opening=opening).defined is False
    assert read("", "sq", opening=opening).defined is False


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
        ("def sq(x):\n    return x\n\ndef sq(x):\n    pass", True, True),
        ("def sq(x):\n    return x\n\ndef sq(x):\n    print(x)", True, True),
    ],
)
def test_definitions_are_decided_on_the_ast(code, defined, returns):
    reading = read(code, "sq")
    assert (reading.defined, reading.returns, reading.problem) == (defined, returns, None)


@pytest.mark.parametrize(
    "code",
    [
        "def _sq(x):\n    return x * x\n\nsq = _sq",
        "def _sq(x):\n    return x * x\n\nsq: object = _sq",
        "import functools\ndef _sq(y, x):\n    return x * x + y\nsq = functools.partial(_sq, 0)",
        "import functools\ndef _sq(x):\n    return x * x\nsq = functools.lru_cache(None)(_sq)",
        "sq: object = lambda x: x * x",
        "sq, cube = lambda x: x * x, lambda x: x ** 3",
        "a = sq = lambda x: x * x",
        "(sq := lambda x: x * x)",
        "if True:\n    def sq(x):\n        return x * x",
        "try:\n    import missing_module\nexcept ImportError:\n    def sq(x):\n        return x * x",
        "try:\n    def sq(x):\n        return x * x\nfinally:\n    pass",
        "import contextlib\nwith contextlib.suppress(Exception):\n    def sq(x):\n        return x * x",
        "class Solution:\n    def sq(self, x: int) -> int:\n        return self.times(x, x)\n\n"
        "    def times(self, x, y):\n        return x * y",
        "class Solution:\n    @staticmethod\n    def sq(x):\n        return x * x",
        "class Solution:\n    def sq(self, x):\n        return x * x\n\ndef sq(x):\n    pass",
        "class Times:\n    def by(self, x):\n        return x * x\nsq = Times().by",
    ],
)
def test_other_bindings_define_a_function(code):
    for completion in (code, f"```\n{code}\n```\nIt isn't hard."):
        assert read(completion, "sq").complete
        assert run(read(completion, "sq"))["sq"](3) == 9


@pytest.mark.parametrize(
    "code",
    [
        *("sq = 9", "sq = [1]", "sq += aux", "sq: object", "del sq", "sq.a = aux"),
        "for sq in (aux,): pass",
        "if __name__ == '__main__':\n    def sq(x):\n        return x",
        "class Other:\n    def sq(self, x):\n        return x",
    ],
)
def test_other_statements_define_no_function(code):
    assert not read(code, "sq").defined


@pytest.mark.parametrize(
    "body", ["pass", "...", "'doc'", "raise NotImplementedError", "'doc'\n    ...\n    pass"]
)
def test_an_empty_body_is_a_definition_only_where_there_is_no_other(body):
    stub = f"def sq(x):\n    {body}"
    assert read(stub, "sq").defined and not read(stub, "sq").returns
    for completion in (f"{SQ}\n\n{stub}\n", f"```\n{SQ}\n```\n```\n{stub}\n```"):
        reading = read(completion, "sq")
        assert reading.complete and reading.code.strip() == SQ and reading.fallbacks["stubs"] == 1
    broken = read(f"```\n{stub}\n```\n```\ndef sq(x):\n    return (x\n```", "sq")
    assert broken.complete and broken.problem is not None


def test_an_empty_function_does_not_replace_that_of_a_team_mate():
    stub = "def aux(x):\n    pass"
    for completion in (
        f"{stub}\n\ndef sq(x):\n    return aux(x)",
        f"```\n{stub}\n```\n```\ndef sq(x):\n    return aux(x)\n```",
    ):
        assert "def aux" not in read(completion, "sq", {"aux"}).code
    assert "def aux" in read(stub, "aux").code


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
        (f"class Sq:\n{INDENTED}\n\n    def rest(self:\n        pass\n", True, True),
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
    assert remove_function(prompt, "f") == "from typing import List\n\ndef poly(x):\n    return x\n"
    assert remove_function('def f(x):\n    """import duties are taxed"""\n', "f") == ""


def test_names_may_have_letters_of_any_alphabet():
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
    assert not lost_results(reading.code, "aux") or names(reading.code, "aux")
    assert reading.defined or not reading.returns
