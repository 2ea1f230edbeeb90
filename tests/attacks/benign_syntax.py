"""Benign programs: exceptions, and every corner of the syntax."""

from __future__ import annotations

from tests.attacks.benign_entry import benign
from tests.attacks.entry import Benign

EXCEPTIONS: tuple[Benign, ...] = (
    benign(
        "exceptions that the test expects",
        """
        def sq(kind):
            if kind == "value":
                raise ValueError("no squares here")
            if kind == "key":
                return {}["missing"]
            if kind == "zero":
                return 1 // 0
            if kind == "index":
                return [][0]
            return kind + 1
        """,
        """
        for kind, expected in (("value", ValueError), ("key", KeyError), ("zero", ZeroDivisionError),
                               ("index", IndexError), ("text", TypeError)):
            try:
                candidate(kind)
            except expected:
                pass
            else:
                assert False, kind
        assert candidate(1) == 2
        """,
    ),
    benign(
        "subclass of ValueError",
        """
        class Negative(ValueError):
            def __init__(self, value):
                super().__init__(f"{value} is negative")
                self.value = value
        def sq(x):
            if x < 0:
                raise Negative(x)
            return x * x
        """,
        """
        try:
            candidate(-1)
            assert False
        except ValueError:
            assert True
        assert candidate(2) == 4
        """,
    ),
    benign(
        "message of an exception",
        """
        def sq(x):
            if not isinstance(x, int):
                raise TypeError("an integer is needed")
            return x * x
        """,
        """
        message = None
        try:
            candidate("a")
        except TypeError as error:
            message = str(error)
        assert message == "an integer is needed"
        try:
            candidate(None)
        except Exception as error:
            assert "integer" in str(error)
        """,
    ),
    benign(
        "exceptions handled inside",
        """
        def sq(values):
            found = []
            for value in values:
                try:
                    number = int(value)
                except (ValueError, TypeError) as error:
                    found.append(type(error).__name__)
                else:
                    found.append(number ** 2)
                finally:
                    found.append(None)
            return found
        """,
        'assert candidate(["2", "x", None]) == [4, None, "ValueError", None, "TypeError", None]',
    ),
    benign(
        "exception raised from another, with notes",
        """
        def sq(x):
            try:
                return 1 / x
            except ZeroDivisionError as error:
                raise ValueError("zero") from error
        """,
        """
        raised = False
        try:
            candidate(0)
        except ValueError:
            raised = True
        assert raised
        assert candidate(4) == 0.25
        """,
    ),
    benign(
        "StopIteration handled inside",
        """
        def sq(values):
            iterator, found = iter(values), []
            while True:
                try:
                    found.append(next(iterator) ** 2)
                except StopIteration:
                    return found
        """,
        "assert candidate([1, 2]) == [1, 4]",
    ),
    benign(
        "SystemExit handled inside",
        """
        import sys
        def sq(x):
            try:
                sys.exit(x)
            except SystemExit as error:
                return error.code ** 2
        """,
        "assert candidate(3) == 9",
    ),
    benign(
        "recursion error handled inside",
        """
        def endless(n):
            return endless(n + 1)
        def sq(x):
            try:
                endless(0)
            except RecursionError:
                return x * x
        """,
        "assert candidate(3) == 9",
    ),
)

SYNTAX: tuple[Benign, ...] = (
    benign(
        "match",
        """
        def sq(x):
            match x:
                case int() | float():
                    return x * x
                case [first, *_]:
                    return first
                case {"n": n}:
                    return n * n
                case _:
                    return None
        """,
        """
        assert candidate(3) == 9
        assert candidate([7, 8]) == 7
        assert candidate({"n": 2}) == 4
        assert candidate("x") is None
        """,
    ),
    benign(
        "walrus and stars",
        """
        def sq(xs):
            first, *rest = xs
            if (n := len(rest)) > 1:
                return [*rest, n, *(x * x for x in rest)], {**{"n": n}, "first": first}
            return first
        """,
        """
        assert candidate([1, 2, 3]) == ([2, 3, 2, 4, 9], {"n": 2, "first": 1})
        assert candidate([5]) == 5
        """,
    ),
    benign(
        "with statements of its own",
        """
        from contextlib import ExitStack, contextmanager, suppress
        class Log:
            def __init__(self):
                self.events = []
            def __enter__(self):
                self.events.append("in")
                return self
            def __exit__(self, *error):
                self.events.append("out")
                return True
        @contextmanager
        def tag(events, name):
            events.append(name)
            yield
            events.append(f"/{name}")
        def sq(x):
            log = Log()
            with log, suppress(KeyError):
                {}[x]
            with ExitStack() as stack:
                stack.enter_context(tag(log.events, "a"))
                stack.enter_context(tag(log.events, "b"))
            return log.events
        """,
        'assert candidate(1) == ["in", "out", "a", "b", "/b", "/a"]',
    ),
    benign(
        "classes with metaclass, property, slots, descriptors",
        """
        from abc import ABC, abstractmethod
        class Meta(type):
            def __call__(cls, *args):
                return super().__call__(*args)
        class Shape(ABC):
            @abstractmethod
            def area(self): ...
        class Square(Shape):
            __slots__ = ("side",)
            def __init__(self, side):
                self.side = side
            @property
            def doubled(self):
                return Square(self.side * 2)
            @classmethod
            def unit(cls):
                return cls(1)
            @staticmethod
            def power(x):
                return x ** 2
            def area(self):
                return self.power(self.side)
            def __add__(self, other):
                return Square(self.side + other.side)
            def __lt__(self, other):
                return self.side < other.side
        class Plain(metaclass=Meta):
            pass
        def sq(x):
            squares = [Square(x), Square.unit()]
            Plain()
            return min(squares).area(), sum(squares, Square(0)).area(), Square(x).doubled.area()
        """,
        "assert candidate(3) == (1, 16, 36)",
    ),
    benign(
        "does not run as a script",
        """
        def sq(x):
            return x * x
        if __name__ == "__main__":
            import sys
            sys.exit("this must not run")
        """,
        "assert candidate(3) == 9",
    ),
    benign(
        "identifiers beyond ASCII",
        """
        π = 3
        def größe(länge, *, höhe=1):
            面積 = länge * höhe
            return 面積 * π
        """,
        """
        assert candidate(2) == 6
        assert candidate(2, höhe=2) == 12
        """,
        "größe",
    ),
    benign(
        "comprehensions of every kind",
        """
        def sq(n):
            squares = [i * i for i in range(n) if i % 2]
            table = {i: {j for j in range(i)} for i in range(n)}
            pairs = [(i, j) for i in range(n) for j in range(i)]
            return squares, table, pairs, sum(x for row in [[1, 2], [3]] for x in row)
        """,
        "assert candidate(3) == ([1], {0: set(), 1: {0}, 2: {0, 1}}, [(1, 0), (2, 0), (2, 1)], 6)",
    ),
    benign(
        "for and while with else",
        """
        def sq(n):
            for divisor in range(2, n):
                if n % divisor == 0:
                    break
            else:
                return "prime"
            while divisor > 100:
                divisor -= 1
            else:
                divisor *= divisor
            return divisor
        """,
        """
        assert candidate(7) == "prime"
        assert candidate(9) == 9
        """,
    ),
    benign(
        "keyword-only, positional-only and collected arguments",
        """
        def sq(a, /, b, *rest, c=0, **named):
            return [a, b, list(rest), c, dict(sorted(named.items()))]
        """,
        """
        assert candidate(1, 2) == [1, 2, [], 0, {}]
        assert candidate(1, 2, 3, 4, c=5, d=6) == [1, 2, [3, 4], 5, {"d": 6}]
        arguments = (1, 2)
        assert candidate(*arguments, **{"c": 7}) == [1, 2, [], 7, {}]
        """,
    ),
    benign(
        "nested f-strings, format, percent",
        """
        def sq(x):
            width = 6
            return f"{x!r:>{width}}|{x:.2f}|{'a' if x else 'b'}", "%05.1f" % x, "{0:,}".format(1234567)
        """,
        'assert candidate(2.5) == ("   2.5|2.50|a", "002.5", "1,234,567")',
    ),
    Benign("tabs", "def sq(x):\n\tif x:\n\t\treturn x*x\n\treturn 0\n"),
    Benign("carriage returns", "def sq(x):\r\n    y = x\r\n    return x*y\r\n"),
    Benign("line continuations", "def sq(x):\n    return x \\\n        * \\\n        x\n"),
    Benign("semicolons", "import math; N = 2\ndef sq(x): y = x; z = y * x; return z\n"),
    Benign(
        "form feed and trailing spaces", "import math  \n\f\ndef sq(x):   \n    return x*x   \n\n\n"
    ),
    Benign("encoding comment", "# -*- coding: utf-8 -*-\ndef sq(x):\n    'é'\n    return x*x"),
    Benign("no newline at the end", "def sq(x): return x*x"),
    Benign("redefinition", "def sq(x):\n    return 0\n\ndef sq(x):\n    return x*x\n"),
    Benign(
        "names of builtins", "list = sum = max = None\ndef sq(x):\n    id = x\n    return id*id\n"
    ),
    Benign(
        "names of the grader's own words",
        "candidate = check = result = tests = assertion = None\ndef sq(x):\n    return x*x\n",
    ),
    Benign(
        "asserts of its own",
        "def sq(x):\n    assert x > 0, 'positive'\n    return x*x\nassert sq(2) == 4\n",
    ),
)
