"""Completions are read as methods, in whatever form they come."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.source_code.class_completion import read_class
from llm_decpomdp.envs.source_code.classes import outline, repair_skeleton
from llm_decpomdp.envs.source_code.parsing import is_stub, parse_or_none
from tests.envs.class_examples import shape_task

AREA = "def area(self):\n    # of a rectangle\n    return self.width * self.height"
SCALED = "def scaled(self, factor, *, twice=False):\n    return 1"


def names(completion, shape):
    return [piece.name for piece in read_class(completion, shape).methods]


def indented(code):
    return "\n".join("    " + line for line in code.split("\n"))


@pytest.fixture
def shape():
    return shape_task().outline


@pytest.mark.parametrize(
    "completion",
    [
        AREA,
        indented(AREA),
        f"class Shape:\n{indented(AREA)}",
        f"Sure!\n```python\n{AREA}\n```\nIt multiplies.",
        f"Here it is:\n\n{AREA}\n\nThis multiplies both sides.",
        AREA.replace("\n", "\r\n"),
        f"{AREA}<|im_end|>",
    ],
    ids=["alone", "indented", "class", "fence", "prose", "windows", "token"],
)
def test_a_method_is_found_in_every_form_and_keeps_its_comment(completion, shape):
    (piece,) = read_class(completion, shape).methods
    assert piece.code == AREA


@pytest.mark.parametrize(
    "completion",
    [
        f"First:\n```python\n{AREA}\n```\nSecond:\n```\n{SCALED}\n```\n",
        (indented(AREA) + "\n\n" + indented(SCALED)).lstrip(),
        f"First:\n\nclass Shape:\n{indented(AREA)}\n\nIt isn't all:\n\n{SCALED}\n",
    ],
    ids=["fences", "first line without indentation", "in a class and outside"],
)
def test_all_blocks_are_read(completion, shape):
    assert names(completion, shape) == ["area", "scaled"]


def test_a_broken_method_costs_only_itself_and_its_line_counts_from_its_header(shape):
    completion = f"{AREA}\n\ndef unit(size=1):\n    x = 1\n    return (\n\n{SCALED}\n"
    reading = read_class(completion, shape)
    assert [piece.name for piece in reading.methods] == ["area", "scaled"]
    ((name, problem),) = reading.broken
    assert (name, problem.line) == ("unit", 3)


UNIT = (
    "@staticmethod\nasync def unit(size=1):\n    def inner():\n"
    '        return """a\nb"""\n    return inner()'
)
LITERAL = 'def area(self):\n    return """one\n        two\nthree"""'


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        (UNIT, UNIT),
        (
            'class Shape:\n    def area(self):\n        return """one\n        two\nthree"""',
            LITERAL,
        ),
    ],
    ids=["nested, async, decorated", "literal of several lines"],
)
def test_a_method_keeps_its_text(completion, code, shape):
    (piece,) = read_class(completion, shape).methods
    assert piece.code == code


@pytest.mark.parametrize(
    "rest", ["\n\nThey don't need more.\n", "\n    def more(self):\n        return f'{self"]
)
def test_a_lost_indentation_of_the_first_line_costs_nothing_beside_text_that_does_not_parse(
    rest, shape
):
    text = indented(f"{AREA}\n\n{SCALED}").lstrip() + rest
    assert names(text, shape) == ["area", "scaled"]


def test_imports_and_functions_are_kept_and_everything_else_is_left_out(shape):
    completion = (
        "from __future__ import annotations\nimport os, math\n\nX = 1\nprint(X)\n\n"
        f"def double(x):\n    return 2 * x\n\n{AREA}\n\ndef _own(self):\n    return 1\n\nclass Other:\n    pass\n"
    )
    reading = read_class(completion, shape)
    assert reading.imports == ("from __future__ import annotations", "import os, math")
    assert [piece.name for piece in reading.functions] == ["double"]
    assert [piece.name for piece in reading.methods] == ["area", "_own"]


def test_methods_that_the_skeleton_has_complete_are_left_out(shape):
    kept = (
        "    def __init__(self):\n        self.x = 1\n\n    def done(self):\n        return 0\n\n"
    )
    completion = f"class Shape:\n{kept}{indented(AREA)}"
    assert names(completion, shape) == ["area"]


def test_of_two_definitions_the_last_counts_but_a_property_keeps_its_setter(shape):
    completion = (
        "def area(self):\n    return 1\n\ndef area(self):\n    return 2\n\n"
        "@property\ndef name(self):\n    return 1\n\n@name.setter\ndef name(self, text):\n    pass\n"
    )
    reading = read_class(completion, shape)
    assert [piece.name for piece in reading.methods] == ["area", "name", "name"]
    assert "return 2" in reading.methods[0].code


WRONG = "def area(self):\n    # wrong, and longer\n    # than the right one\n    return 0"
STUB = "def area(self):\n    pass"


@pytest.mark.parametrize(
    "texts",
    [
        [WRONG, AREA],
        [STUB, AREA],
        [AREA, STUB],
        [WRONG, AREA, "def area(self):\n    raise NotImplementedError"],
        [f"class Shape:\n{indented(WRONG)}", AREA],
    ],
)
def test_of_several_definitions_the_last_complete_one_counts(texts, shape):
    fences = "".join(f"It isn't it:\n```python\n{text}\n```\n" for text in texts)
    for completion in (fences, "\n\nIt isn't it:\n\n".join(texts)):
        reading = read_class(completion, shape)
        assert [piece.code for piece in reading.methods] == [AREA]
        assert reading.fallbacks["drafts"] + reading.fallbacks["stubs"] == len(texts) - 1


def test_methods_in_fences_come_before_those_in_prose(shape):
    completion = f"```\n{AREA}\n```\nIt isn't\n\n{WRONG}\n\n{SCALED}\n"
    assert [piece.code for piece in read_class(completion, shape).methods] == [AREA, SCALED]


def test_an_empty_constructor_gives_way_to_a_complete_one():
    code = "class A:\n    def __init__(self):\n        '''Set up.'''\n"
    full, empty = "def __init__(self):\n    self.x = 1", "def __init__(self):\n    pass"
    for first, second in ((full, empty), (empty, full)):
        (piece,) = read_class(f"```\n{first}\n```\n```\n{second}\n```", outline(code, "A")).methods
        assert piece.code == full
    (piece,) = read_class(empty, outline(code, "A")).methods
    assert piece.code == empty and not piece.stub


def test_a_stub_of_a_setter_replaces_no_setter(shape):
    get, put = "@property\ndef name(self):\n    {}", "@name.setter\ndef name(self, text):\n    {}"
    whole = [get.format("return 1"), put.format("self.x = text")]
    stubs = [get.format("pass"), put.format("pass")]
    for texts in (whole + stubs, stubs + whole):
        assert [p.code for p in read_class("\n\n".join(texts), shape).methods] == whole


def test_what_methods_need_beside_the_class_is_kept(shape):
    completion = (
        "```\nUNIT = 2\nUNITS = {UNIT: 1}\nUNITS[3] = 1\nOTHER = 1\nprint(UNITS)\n```\n"
        "```\nclass Box:\n    side = UNIT\n\ntry:\n    from math import prod\nexcept ImportError:\n"
        "    prod = None\n```\n```\ndef area(self):\n    return prod([UNITS[3], Box.side])\n```"
    )
    reading = read_class(completion, shape)
    assert [piece.name for piece in reading.functions] == ["UNIT", "UNITS", "Box", "prod"]
    assert "UNITS[3] = 1" in reading.functions[1].code
    assert "print" not in "".join(piece.code for piece in reading.functions)


def test_a_method_may_be_bound_by_an_assignment_and_attributes_of_the_class_are_kept(shape):
    completion = "class Shape:\n    TWO = 2\n\n    def _area(self):\n        return self.TWO\n\n    area = _area\n"
    reading = read_class(completion, shape)
    assert [piece.code for piece in reading.methods if piece.name != "_area"] == [
        "TWO = 2",
        "area = _area",
    ]
    assert reading.fallbacks["bindings"] == 1


def test_a_statement_that_binds_methods_of_several_agents_is_left_out(shape):
    completion = (
        f"class Shape:\n    if True:\n{indented(indented(AREA))}\n{indented(indented(SCALED))}\n"
    )
    assert names(completion, shape) == []
    assert names("class Shape:\n    area, scaled = f, g\n", shape) == []


@pytest.mark.parametrize(
    "completion",
    [
        "    return self.width * self.height\n",
        "return self.width * self.height",
        "x = self.width\n    return x * self.height\n",
        "```\n    return self.width * self.height\n```",
        "<think>Hm.</think>\n        return self.width * self.height\n",
    ],
)
def test_a_bare_body_is_that_of_the_only_method_that_is_wanted(completion, shape):
    (piece,) = read_class(completion, shape, "def area(self):\n").methods
    assert piece.name == "area" and "return" in piece.code
    assert names(completion, shape) == []


@pytest.mark.parametrize(
    "completion",
    [
        f"<think>\n{WRONG}\n</think>\n{AREA}",
        f"{WRONG}\n</think>\n{AREA}",
        f"{AREA}\n<|im_end|>\n<|im_start|>user\n{WRONG}\n",
        f"\ufeff{AREA}",
        f"```python\n{AREA}```",
        f"```{AREA}\n```",
        f"~~~\n{AREA}\n~~~",
        f"{AREA}\n\nDone\n",
        f"class Solution:\n{indented(AREA)}\n",
    ],
)
def test_reasoning_turns_and_odd_fences_are_read_as_in_the_other_families(completion, shape):
    assert [piece.code for piece in read_class(completion, shape).methods] == [AREA]


@pytest.mark.parametrize(
    "completion", ["", "   ", "no code", "def", "(" * 5000, "\x00", "class Shape:"]
)
def test_what_holds_no_method_is_no_method(completion, shape):
    assert names(completion, shape) == []


@pytest.mark.parametrize(
    ("bodies", "stub"),
    [
        (("pass", "...", "'''doc'''", "'''doc'''\n    pass"), True),
        (("raise NotImplementedError", "raise NotImplementedError('later')"), True),
        (("raise ValueError", "return None", "'''doc'''\n    return"), False),
    ],
)
def test_a_body_that_does_nothing_is_a_stub(bodies, stub):
    for body in bodies:
        tree = parse_or_none(f"def f(self):\n    {body}\n")
        assert is_stub(tree.body[0]) is stub, body


def test_a_bare_constructor_is_complete_and_a_documented_one_is_not():
    plain = "class A:\n    def __init__(self):\n        pass\n\n    def f(self):\n        pass\n"
    assert outline(plain, "A").names == ("f",)
    documented = plain.replace("        pass\n\n", '        """Set up."""\n\n')
    assert outline(documented, "A").names == ("__init__", "f")


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    def f(self):\n        \u201c\u201d\u201cDoes.\u201d\u201d\u201d\n",
        "'''\nclass A:\n    def f(self):\n        \"\"\"Does.\"\"\"\n'''\n",
        'class A:\n    def f(self):\n        """\n        Does.\n\n    def g(self):\n        """Does."""\n',
    ],
    ids=["quotes", "string", "open"],
)
def test_broken_skeletons_are_repaired(code):
    assert "f" in outline(repair_skeleton(code, "A"), "A").names


def test_what_is_no_class_is_refused():
    with pytest.raises(ValueError, match="no class 'B'"):
        outline("class A:\n    def f(self): ...\n", "B")
    with pytest.raises(ValueError, match="no method to write"):
        outline("class A:\n    def f(self): return 1\n", "A")
