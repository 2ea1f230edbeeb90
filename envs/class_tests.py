"""Turns a module of unittest classes into a test that the sandbox can run, one case for each test method.

Each method runs with a fixture of its own (`setUpClass`, `setUp`, `tearDown`, clean-ups), in unittest's order,
and passes if it raises nothing; a skipped one does not pass.

A class can be tested in two ways. *Split*: the test runs where no program can reach it, and the class's name
stands for a remote class; what crosses is plain values, so that a program can pass only by giving right answers.
*Inside*: the test runs in the program's own process, which it needs where it shares more than plain values with
the class (files, dates, lists that both change), and a program can forge what it reports.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from functools import lru_cache

from llm_decpomdp.envs.class_skeleton import FunctionNode
from llm_decpomdp.envs.sandbox import Tests
from llm_decpomdp.envs.syntax import parse

MAX_CASE_LENGTH = 2_000
"""Longest text of one test that an agent is shown, in characters."""

HOST = "__serve__"
"""The function of a program that answers for the class in split tests."""

HOST_CODE = """
def __make_host__(names):
    objects = [names]
    plain = (int, float, complex, str, bytes, bytearray, type(None), range)
    exact = (("decimal", "Decimal"), ("fractions", "Fraction"))
    builtin = {kind: name for name, kind in vars(__import__("builtins")).items() if type(kind) is type}

    def encode(value, depth=0):
        kind = type(value)
        if isinstance(value, plain) or (kind.__module__, kind.__name__) in exact:
            return value
        if depth < 100 and isinstance(value, (list, tuple, set, frozenset)):
            base = next(kind for kind in (list, tuple, set, frozenset) if isinstance(value, kind))
            return base([encode(item, depth + 1) for item in value])
        if depth < 100 and isinstance(value, dict):
            return {encode(k, depth + 1): encode(v, depth + 1) for k, v in value.items()}
        if depth < 100 and (kind.__module__, kind.__name__) == ("collections", "deque"):
            return kind([encode(item, depth + 1) for item in value], value.maxlen)
        if kind is type and value in builtin:
            return ("__remote__", builtin[value])
        for number, known in enumerate(objects):
            if known is value:
                return ("__remote__", number)
        objects.append(value)
        return ("__remote__", len(objects) - 1)

    def decode(value):
        if type(value) is tuple and len(value) == 2 and value[0] == "__remote__":
            return objects[value[1]] if type(value[1]) is int else vars(__import__("builtins"))[value[1]]
        if type(value) in (list, tuple, set, frozenset):
            return type(value)([decode(item) for item in value])
        if type(value) is dict:
            return {decode(key): decode(item) for key, item in value.items()}
        return value

    def serve(operation, number, name="", args=(), kwargs={}):
        target = objects[number]
        args, kwargs = decode(args), decode(kwargs)
        if operation == "call":
            result = target(*args, **kwargs)
        elif operation == "method":
            result = getattr(target, name)(*args, **kwargs)
        elif operation == "name":
            result = target[name]
        elif operation == "get":
            result = getattr(target, name)
        elif operation == "set":
            result = setattr(target, name, args[0])
        elif operation == "iterate":
            result = list(target)
        else:
            result = getattr(__import__("operator"), operation)(target, *args)
        return encode(result)

    return serve


__serve__ = __make_host__(globals())
"""
"""The other side of `REMOTE_CODE`, in the program's process."""

REMOTE_CODE = """
class __Remote__:
    def __init__(self, number):
        self.__dict__["_number_"] = number

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return __ask__("get", self._number_, name)

    def __setattr__(self, name, value):
        __ask__("set", self._number_, name, (value,))

    def __call__(self, *args, **kwargs):
        return __ask__("call", self._number_, "", args, kwargs)

    def __eq__(self, other):
        return type(other) is __Remote__ and other._number_ == self._number_

    def __hash__(self):
        return self._number_

    def __bool__(self):
        return True

    def __iter__(self):
        return iter(__ask__("iterate", self._number_))

    def __len__(self):
        return __ask__("method", self._number_, "__len__")

    def __str__(self):
        return __ask__("method", self._number_, "__str__")


for __name in ("getitem", "setitem", "delitem", "add", "sub", "mul", "truediv"):
    setattr(
        __Remote__,
        f"__{__name}__",
        lambda self, *args, __name=__name: __ask__(__name, self._number_, "", args),
    )
__channel__ = [None]


def __begin__(candidate, class_name):
    __channel__[0] = candidate  # its process may be another one than before
    globals()[class_name] = __ask__("name", 0, class_name)


def __ask__(operation, number, name="", args=(), kwargs={}):
    answer = __channel__[0](operation, number, name, __encode__(args), __encode__(kwargs))
    return __decode__(answer)


def __encode__(value):
    if type(value) is __Remote__:
        return ("__remote__", value._number_)
    if type(value) is type:
        return ("__remote__", value.__name__)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)([__encode__(item) for item in value])
    if type(value) is dict:
        return {__encode__(key): __encode__(item) for key, item in value.items()}
    return value


def __decode__(value):
    if type(value) is tuple and len(value) == 2 and value[0] == "__remote__":
        kind = vars(__import__("builtins")).get(value[1]) if type(value[1]) is str else None
        return kind if type(kind) is type else __Remote__(value[1])
    if type(value) in (list, tuple, set, frozenset):
        return type(value)([__decode__(item) for item in value])
    if type(value) is dict:
        return {__decode__(key): __decode__(item) for key, item in value.items()}
    return value
"""
"""Stands for the class and its objects where the tests run. An object equals only itself."""

RUN_CODE = """
import unittest as __unittest__

__file__ = "tests.py"


class __Result__(__unittest__.TestResult):
    def __init__(self):
        super().__init__()
        self.problem = None

    def addError(self, test, error):
        self.problem = self.problem or error[1]

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        self.problem = self.problem or (error and error[1])

    def addSkip(self, test, reason):
        self.problem = self.problem or AssertionError("the test was skipped")

    def addUnexpectedSuccess(self, test):
        self.problem = self.problem or AssertionError("the test passed, but should not")


def __outcome__(case, name):
    result = __Result__()
    __unittest__.TestSuite([case(name)]).run(result)
    return result.problem or True


def __check__(candidate, __record__, __stage__):
    for number, (case, name) in enumerate({cases}):
        if __stage__.runs(number):
            with __stage__:
                {begin}
                __record__(number, __outcome__(globals()[case], name))
"""


@lru_cache(maxsize=1024)
def class_tests(test: str, class_name: str, imports: str = "", split: bool = True) -> Tests:
    """The cases of a unittest module.

    Args:
        test: The module.
        class_name: The class under test.
        imports: Import statements whose names the tests may use too.
        split: Whether to run the tests apart from the program, which then needs `HOST_CODE` behind it.

    Raises:
        ValueError: If the module does not parse.
    """
    try:
        module = parse(test)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError(f"the test does not parse: {error}") from None
    cases = sorted(_cases(module))
    begin = f"__begin__(candidate, {class_name!r})" if split else "pass"
    pairs = [(case, name) for case, name, _ in cases]
    running = RUN_CODE.replace("{begin}", begin).replace("{cases}", repr(pairs))
    source = "\n".join([imports, REMOTE_CODE if split else "", test, running])
    return Tests(
        source=source,
        cases=tuple(_text(case, name, node, test) for case, name, node in cases),
        guards=frozenset(),
        stages=tuple(range(len(cases))),
        num_stages=len(cases),
        uses=((),) * len(cases),
        changes=((),) * len(cases),
        ahead=False,
        judges_result=(True,) * len(cases),
        minimum=(1,) * len(cases),
        split=split,
    )


def case_id(case: str) -> str:
    """The name of a test, such as `StackTestPush.test_push_1`, from its text."""
    return case.partition("\n")[0]


def _cases(module: ast.Module) -> Iterator[tuple[str, str, FunctionNode]]:
    """The test methods: class, name and code, those of base classes in the module included."""
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    for name, node in classes.items():
        line = list(_ancestry(node, classes))
        if any(_is_test_case(base) for one in line for base in one.bases):
            methods: dict[str, FunctionNode] = {}
            for one in reversed(line):
                methods |= {s.name: s for s in one.body if isinstance(s, FunctionNode)}
            yield from ((name, m, code) for m, code in methods.items() if m.startswith("test"))


def _ancestry(
    node: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 0
) -> Iterator[ast.ClassDef]:
    """A class and those of the module that it derives from."""
    yield node
    for base in node.bases:
        parent = classes.get(base.id) if isinstance(base, ast.Name) else None
        if parent is not None and depth < len(classes):
            yield from _ancestry(parent, classes, depth + 1)


def _is_test_case(base: ast.expr) -> bool:
    return ast.unparse(base).rpartition(".")[2].endswith("TestCase")


def _text(case: str, name: str, node: FunctionNode, test: str) -> str:
    lines = test.replace("\r\n", "\n").split("\n")[node.lineno - 1 : node.end_lineno]
    text = f"{case}.{name}\n{textwrap.dedent(chr(10).join(lines))}"
    return text if len(text) <= MAX_CASE_LENGTH else text[:MAX_CASE_LENGTH] + "..."
