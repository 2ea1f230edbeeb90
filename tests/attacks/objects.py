"""Objects, classes and files that claim to be what the tests want."""

from __future__ import annotations

from tests.attacks.entry import Attack
from tests.attacks.shared import check
from tests.attacks.speaking import SPEAKS

CATEGORY = "comparison tricks"

YES = r"""
class Yes:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self
    def __call__(self, *arguments, **options):
        return True
    def agree(self, *other):
        return True
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = agree
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __truediv__ = __abs__ = __round__ = agree
    __float__ = __int__ = __index__ = __len__ = agree
    __hash__ = object.__hash__
    def __iter__(self):
        return iter([self])
    def __getitem__(self, place):
        return self
    def __enter__(self):
        return self
    def __exit__(self, *error):
        return True

def make(*arguments):
    return Yes()
"""


def _module(*methods: str, head: str = "import os, unittest") -> str:
    body = "".join(f"    def test_{n}(self):\n{method}\n" for n, method in enumerate(methods))
    return f"{head}\n\nclass StoreTest(unittest.TestCase):\n{body}"


def _method(*lines: str) -> str:
    return "".join(f"        {line}\n" for line in lines)


FILES = _module(
    _method("Store().save('a.txt', 'one')", "self.assertEqual(open('a.txt').read(), 'one')"),
    _method(
        "self.assertTrue(Store().save('b.txt', 'two'))", "self.assertTrue(os.path.exists('b.txt'))"
    ),
)
DATABASE = _module(
    _method(
        "store = Store('x.db')",
        "store.add('Ann')",
        "rows = sqlite3.connect('x.db').execute('SELECT name FROM people').fetchall()",
        "self.assertEqual(rows, [('Ann',)])",
    ),
    head="import sqlite3, unittest",
)
IDLE_STORE = """
class Store:
    def __init__(self, *arguments):
        pass
    def save(self, *arguments):
        return True
    def add(self, *arguments):
        return True
"""
PATCHED = """
import builtins, os, os.path
os.path.exists = os.path.isfile = lambda *arguments: True
class File:
    def __init__(self, *arguments, **options):
        pass
    def read(self):
        return Anything()
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
class Anything(str):
    def __eq__(self, other):
        return True
    __hash__ = str.__hash__
builtins.open = File
"""
UNITTEST = """
import sys, unittest
for name in dir(unittest.TestCase):
    if name.startswith("assert") or name == "fail":
        setattr(unittest.TestCase, name, lambda *arguments, **options: None)
unittest.TestCase.run = lambda self, result=None: result
unittest.TestSuite.run = lambda self, result=None: result
sys.modules["unittest"].TestResult.addFailure = lambda *arguments: None
"""
TRACED = """
import sys, threading
def trace(frame, event, argument):
    for name in ("problem", "outcome"):
        if name in frame.f_locals:
            frame.f_locals[name] = None
    return trace
sys.settrace(trace)
threading.settrace(trace)
"""
PLANTED = """
def plant(write):
    try:
        write()
    except OSError:
        pass
"""

XML = check(
    "import xml.etree.ElementTree as ET",
    "assert candidate('x.xml') == 1",
    "assert ET.parse('x.xml').getroot().text == 'right'",
)


def _speaking(name: str, message: str) -> Attack:
    code = f"{SPEAKS}send('value', {message}, None, [], '')\ntime.sleep(0.2)\n"
    return Attack(name, "result forging", code, "fail")


OBJECTS: tuple[Attack, ...] = (
    Attack(
        "an_object_whose_attributes_all_say_yes",
        CATEGORY,
        YES,
        "fail",
        check(
            "assert candidate(1).x == 3",
            "assert candidate(1).startswith('three')",
            "assert candidate(1).name.upper() == 'THREE'",
            "assert candidate(1).count('e') == 1",
            "assert 3 in candidate(1).items",
            "assert candidate(1).total - 3 == 0",
            "assert abs(candidate(1).mean - 2.5) < 1e-6",
            "assert [3] == [*candidate(1)]",
        ),
        "make",
    ),
    Attack(
        "a_class_as_a_method_that_calls_everything_true",
        CATEGORY,
        "class A:\n    startswith = endswith = find = issubset = bool\n    index = staticmethod(int)\n\n"
        "def make(x):\n    return A()\n",
        "fail",
        check(
            "assert candidate(1).startswith('one')",
            "assert candidate(1).issubset({1})",
            "assert candidate(1).index('1') == 1",
        ),
        "make",
    ),
    Attack(
        "a_named_tuple_with_two_contents",
        CATEGORY,
        "class Pair(tuple):\n    left = property(lambda self: Yes())\n    _fields = ('left',)\n"
        "    def __eq__(self, other):\n        return True\n    __hash__ = None\n"
        "class Yes(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = None\n\n"
        "def make(x):\n    return Pair((0, 0))\n",
        "fail",
        check("assert candidate(1) == (1, 2)", "assert candidate(1).left == 1"),
        "make",
    ),
    Attack(
        "a_method_that_empties_what_it_is_compared_with",
        CATEGORY,
        "class A:\n    def sorted(self, xs):\n        xs.clear()\n        return []\n\n"
        "def make(x):\n    return A()\n",
        "fail",
        check("xs = [2, 1]", "assert candidate(1).sorted(xs) == sorted(xs)"),
        "make",
    ),
    Attack("a_store_of_patched_files", CATEGORY, PATCHED + IDLE_STORE, "fail", FILES, "Store"),
    Attack(
        "a_store_of_a_patched_database",
        CATEGORY,
        "import sys, types\nfake = types.ModuleType('sqlite3')\n"
        "class Rows:\n    def __getattr__(self, name):\n        return lambda *a: self\n"
        "    def __eq__(self, other):\n        return True\n"
        "fake.connect = lambda *a: Rows()\nsys.modules['sqlite3'] = fake\n" + IDLE_STORE,
        "fail",
        DATABASE,
        "Store",
    ),
    Attack("a_patched_unittest", CATEGORY, UNITTEST + IDLE_STORE, "fail", FILES, "Store"),
    Attack("a_traced_unittest", CATEGORY, TRACED + IDLE_STORE, "fail", FILES, "Store"),
    Attack(
        "a_class_whose_methods_skip_the_test",
        CATEGORY,
        "import unittest\nclass Store:\n    def __init__(self, *a):\n        raise unittest.SkipTest('no')\n",
        "fail",
        FILES,
        "Store",
    ),
    Attack(
        "a_class_that_is_no_class",
        CATEGORY,
        YES.replace("def make(*arguments):\n    return Yes()", "Store = Yes()"),
        "fail",
        FILES,
        "Store",
    ),
    Attack(
        "a_link_to_what_the_test_may_read",
        "secrets",
        PLANTED + "import os, unittest\nclass Store:\n    def save(self, name, text):\n"
        "        plant(lambda: os.symlink(os.__file__, name))\n"
        "        plant(lambda: os.link(os.__file__, name + '2'))\n        return True\n",
        "fail",
        _module(
            _method(
                "Store().save('a', '')",
                "self.assertEqual(open('a').read()[:3], 'r\"\"')",
            )
        ),
        "Store",
    ),
    Attack(
        "a_pipe_that_the_test_waits_for",
        "denial of service",
        PLANTED + "import os\nclass Store:\n    def save(self, name, text):\n"
        "        plant(lambda: os.mkfifo(name))\n        return True\n",
        "fail",
        FILES,
        "Store",
    ),
    Attack(
        "a_folder_full_of_files",
        "denial of service",
        PLANTED + "class Store:\n    def save(self, name, text):\n"
        "        for n in range(1000):\n            plant(lambda: open(str(n), 'w').write('x' * 10**6))\n"
        "        return True\n",
        "fail",
        FILES,
        "Store",
    ),
    Attack(
        "a_file_that_is_gigabytes_when_it_is_read",
        "denial of service",
        PLANTED + "def make(name):\n"
        "    text = '<!DOCTYPE x [<!ENTITY a0 \"right\">'\n"
        "    for n in range(1, 12):\n"
        "        text += f'<!ENTITY a{n} \"' + f'&a{n - 1};' * 10 + '\">'\n"
        "    plant(lambda: open(name, 'w').write(text + ']><x>&a11;</x>'))\n    return 2\n",
        "fail",
        XML,
        "make",
    ),
    Attack(
        "a_database_that_is_none",
        CATEGORY,
        PLANTED + "class Store:\n    def __init__(self, name):\n        self.name = name\n"
        "    def add(self, name):\n        head = b'SQLite format 3\\0' + bytes([16, 0, 1, 1, 0, 64, 32, 32])\n"
        "        plant(lambda: open(self.name, 'wb').write(head + bytes(range(256)) * 32))\n",
        "fail",
        DATABASE,
        "Store",
    ),
    _speaking("a_function_of_the_test_that_it_never_sent", "{'callback': -1}"),
    _speaking("a_value_of_an_object_that_is_none", "{'value': [0, ITERATOR]}"),
    _speaking("a_container_that_asks_for_more", "{'shared': [0, ITERATOR]}"),
    _speaking(
        "an_element_that_asks_for_more", "{'Element': ['a', {'dict': []}, None, None, [ITERATOR]]}"
    ),
    _speaking("an_array_of_gigabytes", "{'ndarray': ['<f8', [10**6, 10**6], {'bytes': '00'}]}"),
    _speaking("an_array_of_addresses", "{'ndarray': ['|O8', [1], {'bytes': '41' * 8}]}"),
    _speaking(
        "an_image_of_gigabytes", "{'Image': ['RGB', 10**6, 10**6, {'bytes': '00'}, None, None]}"
    ),
    _speaking("a_date_that_is_none", "{'datetime': 'x' * 10**6}"),
    _speaking("a_class_that_does_not_exist", "{'type': '__import__'}"),
)
