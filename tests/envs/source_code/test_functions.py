"""Programs are taken apart by lines, and changes are measured in tokens."""

from __future__ import annotations

import random
import time

import pytest

from llm_decpomdp.envs.source_code import functions as program_text
from llm_decpomdp.envs.source_code.functions import (
    count_added_tokens,
    distance,
    edits,
    excerpt,
    function_text,
    functions,
    header_and_docstring,
    remove_docstring,
    statements,
)

PROGRAM = '''import math


@staticmethod
def one(x):
    """Double."""
    return 2 * x  # why


LIMIT = 3


def two(x):
    return one(x) + LIMIT
'''


def test_functions_are_found_with_their_decorators():
    assert list(functions(PROGRAM)) == ["one", "two"]
    assert function_text(PROGRAM, "one").startswith("@staticmethod\ndef one(x):")


def test_what_is_kept_of_a_program_stays_on_its_line():
    lines = excerpt(PROGRAM, ["two"], rest=False).split("\n")
    assert lines[12] == "def two(x):" and not any(lines[:12])
    rest = excerpt(PROGRAM, [], rest=True).split("\n")
    assert rest[0] == "import math" and rest[9] == "LIMIT = 3" and "def" not in "".join(rest)


def test_all_definitions_of_a_name_are_its_text():
    code = "def f():\n    return 1\n\n\ndef f():\n    return 2\n"
    assert function_text(code, "f").count("def f") == 2
    assert excerpt(code, [], rest=True) == ""


def test_all_line_ends_are_understood():
    code = "def f():\r\n    return 1\r\n\r\n\r\ndef g():\r\n    return 2\r\n"
    assert function_text(code, "g") == "def g():\n    return 2"


def test_a_docstring_is_the_statement_and_can_be_cut_out():
    code = 'def f(\n    x,\n):\n    """Do.\n\n    >>> f(1)\n    """\n    return x\n'
    assert header_and_docstring(code, "f").endswith('>>> f(1)\n    """')
    assert remove_docstring(code, "f") == "def f(\n    x,\n):\n    return x\n"
    assert remove_docstring('def f():\n    """Do."""\n', "f") == 'def f():\n    """Do."""\n'


@pytest.mark.parametrize(
    ("one", "other", "size"),
    [
        ("return a < b", "return a <= b", 1),
        ("return a", "a", 1),
        ("x = 1\ny = 2", "y = 2", 3),
        ("return a  # why", "return a", 0),
        ('"""Say."""\nreturn a', "return a", 0),
        ("return (a +\n        b)", "return (a + b)", 0),
        ("return f(a, b)", "return f(b, a)", 2),
        ("return 'left side'", "return 'right side'", 1),
        ("return a + 3.14", "return a + 31.4", 1),
        ("return ' '", "return '  '", 1),
        ("return f'{a}!'", "return f'{b}!'", 1),
    ],
)
def test_the_size_of_a_change_counts_tokens(one, other, size):
    before, after = (
        "def f(a, b):\n" + "".join(f"    {line}\n" for line in text.splitlines())
        for text in (one, other)
    )
    assert distance(before, after) == size


def test_code_in_a_literal_counts_as_code_does():
    before = "def f(a):\n    return a\n"
    lines = "[a*k for k in range(9) if k > a and k % 3 == 0 or a*k in (12, 24)][-1]"
    plain = distance(before, f"def f(a):\n    return {lines}\n")
    number = str(int.from_bytes(lines.encode(), "big"))
    for hidden in (f"eval('{lines}')", f"eval(f'{lines}')", f"eval('{lines}'.replace(' ', ''))"):
        assert distance(before, f"def f(a):\n    return {hidden}\n") >= plain
    for hidden in (
        f"eval(bytes.fromhex('{lines.encode().hex()}'))",
        f"eval({number}.to_bytes(99))",
    ):
        assert distance(before, f"def f(a):\n    return {hidden}\n") > plain / 2


def test_indentation_counts():
    inside = "def f(a):\n    for b in a:\n        c = b\n        d = c\n"
    outside = "def f(a):\n    for b in a:\n        c = b\n    d = c\n"
    assert distance(inside, outside) > 0


class Counted(str):
    """A token that counts how often it is looked at."""

    looks = 0

    def __hash__(self) -> int:
        Counted.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return super().__eq__(other)


def test_the_work_of_measuring_a_change_grows_with_its_length_only(monkeypatch):
    monkeypatch.setattr(program_text, "tokens", lambda text: [Counted(mark) for mark in text])
    monkeypatch.setattr(Counted, "looks", 0)
    assert distance("ab" * 500, "b" * 500 + "cab" * 500) == 1000
    assert Counted.looks <= 4 * (1000 + 2000)


@pytest.mark.parametrize(("alphabet", "length"), [("a", 5), ("ab", 9), ("abcdef", 40)])
def test_the_size_of_a_change_is_the_smallest_that_there_is(alphabet, length):
    draw = random.Random(0)
    for _ in range(100):
        one, other = (draw.choices(alphabet, k=draw.randrange(length)) for _ in range(2))
        table = [*range(len(other) + 1)]
        for row, mark in enumerate(one, 1):
            above, table = table, [row]
            for column, other_mark in enumerate(other):
                replaced = above[column] + (mark != other_mark)
                table.append(min(above[column + 1] + 1, table[-1] + 1, replaced))
        assert edits(one, other) == table[-1]


def test_a_huge_change_is_measured_quickly():
    begun = time.process_time()
    assert (
        distance("def f(a):\n    return a + 1\n", "def f(a):\n    return a" + " + 1" * 20_000)
        > 20_000
    )
    assert time.process_time() - begun < 5


def test_what_is_written_beside_the_functions_counts_unless_the_program_has_it():
    assert count_added_tokens(PROGRAM, statements(PROGRAM), ["one", "two"]) == 0
    assert count_added_tokens("LIMIT = 4\n" + PROGRAM, statements(PROGRAM), ["one", "two"]) == 3
    assert (
        count_added_tokens("def help():\n    return 1\n", statements(PROGRAM), ["one", "two"]) > 5
    )


def test_each_statement_counts_once_however_many_stand_on_a_line():
    lines = "import re\nimport math\nx = 'é'  # why\n"
    line = "import re; import math; x = 'é'\n"
    assert (
        count_added_tokens(lines, statements(""), [])
        == count_added_tokens(line, statements(""), [])
        > 4
    )
    assert (
        count_added_tokens(line, statements(lines), [])
        == count_added_tokens(lines, statements(line), [])
        == 0
    )
    assert count_added_tokens("def f(): return 1", statements(""), ["f"]) == 0
    assert count_added_tokens("import re; y = 1", statements(lines), []) == 3
    assert count_added_tokens("a = 1;" * 1900, statements(""), []) == 5700


def test_a_decorated_helper_counts_with_its_decorators():
    plain, decorated = "def f():\n    return 1\n", "@cache\n@other\ndef f():\n    return 1\n"
    assert (
        count_added_tokens(decorated, statements(""), [])
        == count_added_tokens(plain, statements(""), []) + 4
    )
    assert count_added_tokens(decorated, statements(decorated), []) == 0
