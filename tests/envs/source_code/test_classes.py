"""The agents' methods are put into the skeleton by rules without chance."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.classeval.roles import class_team
from llm_decpomdp.envs.source_code.classes import merge
from tests.envs.class_examples import SOLUTION, shape_task

AREA = "def area(self):\n    return self.width * self.height  # both"
SCALED = "def scaled(self, factor, *, twice=False):\n    return self.area() * factor"


def merged(*completions, by="parameters", **changes):
    task = shape_task(**changes)
    team = class_team(len(completions), by)
    pairs = zip(team, completions, strict=True)
    return merge(task.outline, tuple(role.read(task, text) for role, text in pairs))


def load(*completions, **options):
    scope = {}
    exec(compile(merged(*completions, **options).code, "<class>", "exec"), scope)
    return scope["Shape"]


def test_the_solution_of_one_agent_works_and_keeps_the_base_class_and_the_constants():
    shape = load(SOLUTION)
    assert shape.__mro__[1] is object and shape.SIDES == 4
    one = shape(2, 3)
    one.name = "box"
    assert (one.area(), one.name, shape.unit(2).area(), one.scaled(2, twice=True)) == (
        6,
        "box",
        4,
        24,
    )


def test_statements_outside_the_class_may_use_the_imports_of_the_skeleton():
    side = "SIDE = math.sqrt(4)\n\ndef area(self):\n    return SIDE * self.height"
    assert load(side)(1, 3).area() == 6


def test_a_variable_that_a_method_counts_up_is_kept():
    counted = "calls = 0\n\ndef area(self):\n    global calls\n    calls += 1\n    return 6"
    assert load(counted)(1, 3).area() == 6


def test_all_variants_of_a_dispatched_method_are_kept():
    variants = (
        "from functools import singledispatchmethod\n\n"
        "@singledispatchmethod\ndef size(self, value):\n    return 0\n\n"
        "@size.register\ndef _(self, value: int):\n    return 1\n\n"
        "@size.register\ndef _(self, value: str):\n    return 2\n\n"
        "def area(self):\n    return self.size(3), self.size('a'), self.size(None)\n"
    )
    assert load(variants)(1, 3).area() == (1, 2, 0)


def test_the_text_of_a_method_is_spliced_in_with_its_comment():
    assert (
        "    def area(self):\n        return self.width * self.height  # both\n"
        in merged(AREA).code
    )


def test_nothing_of_the_stubs_is_left_where_a_method_was_written():
    code = merged(SOLUTION).code
    assert "NotImplementedError" not in code and code.count("def unit") == 1


def test_a_decorator_of_the_skeleton_stays_where_the_answer_has_none():
    shape = load("def unit(size=1):\n    return size")
    assert shape.unit(5) == 5


def test_a_decorator_of_the_answer_is_not_doubled():
    code = merged("@staticmethod\ndef unit(size=1):\n    return size").code
    assert code.count("@staticmethod") == 1


def test_a_method_that_nobody_wrote_stays_a_stub():
    shape = load(AREA)
    with pytest.raises(NotImplementedError):
        shape(1, 1).scaled(2)


def test_of_two_writers_the_one_who_was_asked_counts_whatever_the_order():
    # By parameters, area is the first agent's, scaled the second's.
    wrong = "def area(self):\n    return -1\n\n" + SCALED
    assert load(AREA, wrong)(2, 3).area() == 6
    wrong = AREA + "\n\ndef scaled(self, factor):\n    return -1"
    assert load(wrong, SCALED)(2, 3).scaled(2) == 12


def test_where_the_one_who_was_asked_wrote_nothing_the_first_other_counts():
    one = "def scaled(self, factor):\n    return 1"
    two = "def scaled(self, factor):\n    return 2"
    # Of three agents, scaled with its two further parameters is the third one's.
    assert load(one, two, "")(1, 1).scaled(9) == 1
    assert load("", two, "")(1, 1).scaled(9) == 2


def test_methods_that_several_wrote_are_counted_once_each():
    assert merged(AREA, AREA + "\n\n" + SCALED).overlaps == ("area",)
    assert merged(AREA, SCALED).overlaps == ()


def test_an_empty_body_neither_counts_nor_overlaps():
    assert merged(AREA, "def area(self):\n    pass").overlaps == ()


def test_helpers_of_the_class_come_to_its_end_and_of_equal_names_the_first_agents():
    one = "def area(self):\n    return self._help()\n\ndef _help(self):\n    return 1"
    two = "def scaled(self, factor):\n    return self._help()\n\ndef _help(self):\n    return 2"
    shape = load(one, two)(1, 1)
    assert (shape.area(), shape.scaled(1)) == (1, 1)


def test_imports_and_functions_come_before_the_class_once():
    one = "import json\n\ndef twice(x):\n    return 2 * x\n\ndef area(self):\n    return twice(json.loads('4'))"
    two = "import json\n\ndef scaled(self, factor):\n    return json.loads('5')"
    code = merged(one, two).code
    assert code.count("import json") == 1
    assert code.index("import json") < code.index("def twice") < code.index("class Shape")
    shape = load(one, two)(1, 1)
    assert (shape.area(), shape.scaled(0)) == (8, 5)


def test_imports_from_the_future_and_docstrings_of_the_skeleton_stay_first():
    skeleton = '"""Shapes."""\nfrom __future__ import annotations\n\n'
    skeleton += "class Shape:\n    def area(self):\n        pass\n"
    code = merged("import json\n\ndef area(self):\n    return json", skeleton=skeleton).code
    assert code.startswith('"""Shapes."""\nfrom __future__ import annotations\n')
    compile(code, "<class>", "exec")


def test_imports_from_the_future_come_first_whoever_wrote_them():
    one = "import json\n\ndef area(self) -> Shape:\n    return json"
    two = "from __future__ import annotations\nimport math\n\ndef scaled(self, factor) -> Shape:\n    return 5"
    whole = merged(one, two)
    assert whole.code.startswith("from __future__ import annotations\n")
    assert whole.place(1) == ("coder_1", 1)
    assert load(one, two)(1, 1).scaled(2) == 5


def test_super_and_private_names_work_as_in_any_class():
    skeleton = (
        "class Base:\n    def area(self):\n        return 7\n\n\n"
        "class Shape(Base):\n    def __init__(self):\n        self.__x = 1\n\n    def area(self):\n        pass\n"
    )
    shape = load("def area(self):\n    return super().area() + self.__x", skeleton=skeleton)
    assert shape().area() == 8


def test_each_line_is_traced_to_its_agent():
    one = "import json\n\n" + AREA
    result = merged(one, SCALED)
    lines = result.code.split("\n")
    area = next(n for n, line in enumerate(lines, 1) if "# both" in line)
    scaled = next(n for n, line in enumerate(lines, 1) if "* factor" in line)
    assert result.place(area) == ("coder_0", 4)
    assert result.place(scaled) == ("coder_1", 2)
    assert result.place(1) == ("coder_0", 1)
    assert result.place(2) is None and result.place(10**6) is None


def test_a_skeleton_indented_with_tabs_is_completed():
    skeleton = "class Shape:\n\tdef area(self):\n\t\tpass\n\n\tdef done(self):\n\t\treturn 1\n"
    shape = load("def area(self):\n    return 3", skeleton=skeleton)
    assert (shape().area(), shape().done()) == (3, 1)


def test_a_setter_can_be_written_alone_where_the_property_is_there():
    skeleton = (
        "class Shape:\n    @property\n    def name(self):\n        return self.x\n\n"
        "    @name.setter\n    def name(self, text):\n        pass\n\n    def area(self):\n        pass\n"
    )
    shape = load("@name.setter\ndef name(self, text):\n    self.x = text", skeleton=skeleton)()
    shape.name = "box"
    assert shape.name == "box"
