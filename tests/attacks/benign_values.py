"""Benign programs: values of every kind, and what the standard library makes of them."""

from __future__ import annotations

from tests.attacks.benign_entry import benign
from tests.attacks.entry import Benign

VALUES: tuple[Benign, ...] = (
    benign(
        "named tuple",
        """
        from collections import namedtuple
        Point = namedtuple("Point", "x y")
        def sq(n):
            return Point(n, n * n)
        """,
        """
        assert candidate(2) == (2, 4)
        x, y = candidate(3)
        assert y == 9 and x == 3
        assert candidate(3)[1] == 9
        assert isinstance(candidate(1), tuple)
        """,
    ),
    benign(
        "Counter",
        """
        from collections import Counter
        def sq(text):
            return Counter(text)
        """,
        """
        assert candidate("aab") == {"a": 2, "b": 1}
        assert candidate("") == {}
        assert candidate("aa")["a"] == 2
        """,
    ),
    benign(
        "OrderedDict",
        """
        from collections import OrderedDict
        def sq(keys):
            return OrderedDict((key, key * key) for key in keys)
        """,
        """
        assert candidate([2, 1]) == {1: 1, 2: 4}
        assert list(candidate([2, 1])) == [2, 1]
        """,
    ),
    benign(
        "defaultdict",
        """
        from collections import defaultdict
        def sq(words):
            groups = defaultdict(list)
            for word in words:
                groups[len(word)].append(word)
            return groups
        """,
        """
        assert candidate(["a", "bb", "c"]) == {1: ["a", "c"], 2: ["bb"]}
        assert dict(candidate([])) == {}
        """,
    ),
    benign(
        "IntEnum and Flag",
        """
        from enum import IntEnum, IntFlag
        class Colour(IntEnum):
            RED = 1
            BLUE = 4
        class Bits(IntFlag):
            A = 1
            B = 2
        def sq(name):
            return Colour[name] if name in Colour.__members__ else Bits.A | Bits.B
        """,
        """
        assert candidate("BLUE") == 4
        assert candidate("RED") + 1 == 2
        assert candidate("x") == 3
        """,
    ),
    benign(
        "str subclasses",
        """
        from enum import Enum
        class Word(str):
            pass
        class Kind(str, Enum):
            A = "a"
        def sq(text):
            return Word(text * 2) if text else Kind.A
        """,
        """
        assert candidate("ab") == "abab"
        assert candidate("") == "a"
        assert isinstance(candidate("x"), str)
        """,
    ),
    benign(
        "dataclasses inside",
        """
        from dataclasses import dataclass, field, asdict
        @dataclass(order=True, frozen=True)
        class Item:
            size: int
            tags: list = field(default_factory=list, compare=False)
        def sq(sizes):
            items = sorted(Item(size * size) for size in sizes)
            return [asdict(item) for item in items]
        """,
        """
        assert candidate([2, 1]) == [{"size": 1, "tags": []}, {"size": 4, "tags": []}]
        """,
    ),
    benign(
        "bytes and bytearray",
        """
        def sq(text):
            data = text.encode("utf-8")
            return data + bytes([0, 255]), bytearray(data)
        """,
        """
        assert candidate("aé") == (b"a\\xc3\\xa9\\x00\\xff", bytearray(b"a\\xc3\\xa9"))
        assert candidate("")[1] == b""
        """,
    ),
    benign(
        "complex",
        """
        import cmath
        def sq(z):
            return z * z, cmath.sqrt(z)
        """,
        """
        assert candidate(1j) [0] == -1
        assert candidate(-4)[1] == 2j
        assert abs(candidate(1 + 1j)[0] - 2j) < 1e-12
        """,
    ),
    benign(
        "Fraction and Decimal",
        """
        from decimal import Decimal, localcontext
        from fractions import Fraction
        def sq(n):
            with localcontext() as context:
                context.prec = 6
                return Fraction(1, n) ** 2, Decimal(1) / Decimal(n)
        """,
        """
        from decimal import Decimal
        from fractions import Fraction
        assert candidate(3)[0] == Fraction(1, 9)
        assert candidate(3)[1] == Decimal("0.333333")
        assert str(candidate(8)[1]) == "0.125"
        assert candidate(2)[0] == 0.25
        """,
    ),
    benign(
        "deque, frozenset and range",
        """
        from collections import deque
        def sq(n):
            return deque(range(n), maxlen=3), frozenset(range(n)), range(0, n, 2)
        """,
        """
        from collections import deque
        assert list(candidate(5)[0]) == [2, 3, 4]
        assert candidate(2)[0] == deque([0, 1])
        assert candidate(2)[1] == {0, 1}
        assert candidate(5)[2] == range(0, 5, 2)
        assert list(candidate(5)[2]) == [0, 2, 4]
        """,
    ),
    benign(
        "nested tuples as keys",
        """
        def sq(n):
            return {(i, (j, "k")): {frozenset([i, j])} for i in range(n) for j in range(n)}
        """,
        """
        assert candidate(1) == {(0, (0, "k")): {frozenset([0])}}
        assert candidate(2)[(0, (1, "k"))] == {frozenset([1, 0])}
        """,
    ),
    benign(
        "not a number, infinities, negative zero",
        """
        def sq(kind):
            return {"nan": float("nan"), "inf": float("inf"), "-inf": -float("inf"), "-0": -0.0}[kind]
        """,
        """
        import math
        assert math.isnan(candidate("nan"))
        assert candidate("nan") != candidate("nan")
        assert candidate("inf") == math.inf
        assert candidate("-inf") < -1e308
        assert candidate("-0") == 0
        assert math.copysign(1, candidate("-0")) == -1.0
        """,
    ),
    benign(
        "integers of 5000 digits",
        """
        def sq(n):
            return 10 ** n + 7
        """,
        """
        assert candidate(5000) == 10 ** 5000 + 7
        assert candidate(5000) % 10 == 7
        assert candidate(2) == 107
        """,
    ),
    benign(
        "large integers as input",
        """
        def sq(n):
            return n * n
        """,
        """
        assert candidate(2 ** 4000) == 2 ** 8000
        assert candidate(-(10 ** 30)) == 10 ** 60
        """,
    ),
    benign(
        "exact floats",
        """
        def sq(x):
            return [x / 3, 0.1 + 0.2, 5e-324, 1.7976931348623157e308]
        """,
        """
        assert candidate(1.0) == [1.0 / 3, 0.30000000000000004, 5e-324, 1.7976931348623157e308]
        assert abs(candidate(2)[0] - 0.6667) < 1e-3
        """,
    ),
    benign(
        "strings of all kinds",
        """
        def sq(text):
            return text[::-1]
        """,
        """
        assert candidate("a\\0b") == "b\\0a"
        assert candidate("\\ud800x") == "x\\ud800"
        assert candidate("né🙂") == "🙂én"
        assert candidate("\\u2028\\n\\r\\t\\x1b") == "\\x1b\\t\\r\\n\\u2028"
        assert candidate('"\\\\') == '\\\\"'
        """,
    ),
    benign(
        "everything empty",
        """
        def sq(kind):
            return kind()
        """,
        """
        assert candidate(list) == []
        assert candidate(dict) == {}
        assert candidate(str) == ""
        assert candidate(tuple) == ()
        assert candidate(set) == set()
        assert candidate(bytes) == b""
        """,
    ),
    benign(
        "None, Ellipsis, booleans",
        """
        def sq(x=None):
            return (None, ..., x is None, x)
        """,
        """
        assert candidate() == (None, ..., True, None)
        assert candidate(0)[2] is False
        assert candidate(...)[3] is ...
        assert candidate()[0] is None
        """,
    ),
    benign(
        "a list of 100000 numbers",
        """
        def sq(n):
            return [i * i for i in range(n)]
        """,
        """
        squares = candidate(100_000)
        assert len(squares) == 100_000
        assert squares[-1] == 99_999 ** 2
        """,
    ),
    benign(
        "a list of 100000 numbers as input",
        """
        def sq(values):
            return sum(values)
        """,
        "assert candidate(list(range(100_000))) == 4999950000",
    ),
    benign(
        "a dict of 20000 words",
        """
        def sq(n):
            return {f"word{i}": i for i in range(n)}
        """,
        """
        words = candidate(20_000)
        assert len(words) == 20_000
        assert words["word19999"] == 19_999
        """,
    ),
    benign(
        "a nested list, 100 deep",
        """
        def sq(n):
            nested = []
            for _ in range(n):
                nested = [nested]
            return nested
        """,
        """
        nested, depth = candidate(100), 0
        while nested:
            nested, depth = nested[0], depth + 1
        assert depth == 100
        """,
    ),
    benign(
        "dict views and keys of mixed types",
        """
        def sq(d):
            return list(d.keys()), sorted(d.values()), {1: "a", "1": "b", (1,): "c", None: "d", True: "e"}
        """,
        """
        assert candidate({"a": 2, "b": 1})[:2] == (["a", "b"], [1, 2])
        assert candidate({})[2] == {1: "e", "1": "b", (1,): "c", None: "d"}
        """,
    ),
    benign(
        "booleans and numbers are equal",
        """
        def sq(x):
            return x == 1
        """,
        """
        assert candidate(1) == 1
        assert candidate(1.0) is True
        assert candidate(0) == False
        """,
    ),
)

LIBRARY: tuple[Benign, ...] = (
    benign(
        "re",
        """
        import re
        WORD = re.compile(r"(?P<name>[a-z]+)=(\\d+)")
        def sq(text):
            return {m["name"]: int(m[2]) ** 2 for m in WORD.finditer(text)}
        """,
        'assert candidate("a=2, b=3") == {"a": 4, "b": 9}',
    ),
    benign(
        "itertools and functools",
        """
        from functools import reduce, singledispatch
        from itertools import accumulate, chain, groupby, permutations, product
        @singledispatch
        def size(x):
            return 1
        @size.register
        def _(x: list):
            return len(x)
        def sq(xs):
            groups = [(k, len(list(g))) for k, g in groupby(sorted(xs))]
            pairs = list(product("ab", repeat=2))
            return (reduce(lambda a, b: a * b, xs), list(accumulate(xs)), groups, size(pairs), size(0),
                    list(permutations(xs))[-1], list(chain([1], (2,))))
        """,
        "assert candidate([1, 2, 2]) == (4, [1, 3, 5], [(1, 1), (2, 2)], 4, 1, (2, 2, 1), [1, 2])",
    ),
    benign(
        "heapq and bisect",
        """
        import bisect
        import heapq
        def sq(xs):
            heap = []
            for x in xs:
                heapq.heappush(heap, (-x, x * x))
            ordered = sorted(xs)
            return heapq.heappop(heap), bisect.bisect_left(ordered, 2), heapq.nsmallest(2, xs)
        """,
        "assert candidate([3, 1, 2]) == ((-3, 9), 1, [1, 2])",
    ),
    benign(
        "datetime and calendar",
        """
        import calendar
        from datetime import date, datetime, timedelta
        def sq(text):
            day = datetime.strptime(text, "%Y-%m-%d").date() + timedelta(days=1)
            return day.isoformat(), day > date(2020, 1, 1), calendar.isleap(day.year)
        """,
        """
        assert candidate("2024-02-28") == ("2024-02-29", True, True)
        assert candidate("1999-12-31") == ("2000-01-01", False, True)
        """,
    ),
    benign(
        "statistics, string, textwrap",
        """
        import statistics
        import string
        import textwrap
        def sq(xs):
            return (statistics.mean(xs), statistics.median(xs), string.ascii_lowercase[:3],
                    textwrap.fill("one two three", 7), string.Template("$a!").substitute(a=1))
        """,
        'assert candidate([1, 2, 6]) == (3, 2, "abc", "one two\\nthree", "1!")',
    ),
    benign(
        "json, hashlib, base64, struct",
        """
        import base64
        import hashlib
        import json
        import struct
        def sq(data):
            text = json.dumps(data, sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            return json.loads(text) == data, digest, base64.b64encode(b"hi").decode(), struct.pack(">I", 9)
        """,
        'assert candidate({"a": [1, None]}) == (True, "937f1a67", "aGk=", b"\\x00\\x00\\x00\\x09")',
    ),
    benign(
        "imports of typing",
        """
        from typing import Any, Dict, Generic, List, NamedTuple, Optional, Tuple, TypeVar, Union
        T = TypeVar("T")
        class Pair(NamedTuple):
            left: int
            right: Optional[int] = None
        class Box(Generic[T]):
            def __init__(self, value: T) -> None:
                self.value = value
        def sq(xs: List[int], extra: Union[int, str] = 0) -> Tuple[Dict[int, Any], Pair]:
            return {x: Box(x * x).value for x in xs}, Pair(1)
        """,
        "assert candidate([1, 2]) == ({1: 1, 2: 4}, (1, None))",
    ),
    benign(
        "annotations of the future",
        """
        from __future__ import annotations
        def sq(x: Undefined | None, *rest: also.undefined) -> int | Missing:
            y: Unknown = x * x
            return y
        """,
        "assert candidate(3) == 9",
    ),
    benign(
        "names of the standard library at the top",
        """
        from math import *
        from collections import *
        import os.path, sys as system
        def sq(x):
            return pow(x, 2), floor(sqrt(x)), len(deque([x])), os.path.join("a", "b"), system.maxsize > 0
        """,
        'assert candidate(4) == (16.0, 2, 1, "a/b", True)',
    ),
    benign(
        "text streams in memory",
        """
        import contextlib
        import io
        def sq(n):
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                print(*range(n), sep=",")
            print(n, file=stream)
            return stream.getvalue().splitlines()
        """,
        'assert candidate(3) == ["0,1,2", "3"]',
    ),
    benign(
        "pickles of its own",
        """
        import copy
        import pickle
        class Tree:
            def __init__(self, value, *children):
                self.value, self.children = value, list(children)
            def total(self):
                return self.value + sum(child.total() for child in self.children)
        def sq(n):
            tree = Tree(n, Tree(1), Tree(2, Tree(3)))
            same = copy.deepcopy(tree)
            values = pickle.loads(pickle.dumps({"n": [n, (1, 2)]}))
            return same.total(), values["n"]
        """,
        "assert candidate(4) == (10, [4, (1, 2)])",
    ),
    benign(
        "working folder",
        """
        import os
        from pathlib import Path
        def sq(x):
            here = os.getcwd()
            return x * x if os.path.isabs(here) and Path(".").is_dir() else None
        """,
        "assert candidate(3) == 9",
    ),
    benign(
        "open in the working folder (writes a file)",
        """
        import os
        def sq(lines):
            with open("lines.txt", "w", encoding="utf-8") as file:
                file.writelines(f"{line}\\n" for line in lines)
            with open("lines.txt", encoding="utf-8") as file:
                found = [line.rstrip() for line in file]
            os.remove("lines.txt")
            return found
        """,
        """
        assert candidate(["a", "b"]) == ["a", "b"]
        assert candidate([]) == []
        """,
    ),
    benign(
        "tempfile (writes a file)",
        """
        import os
        import tempfile
        def sq(data):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "data.bin")
                with open(path, "wb") as file:
                    file.write(data)
                size = os.path.getsize(path)
            with tempfile.TemporaryFile() as file:
                file.write(data)
                file.seek(0)
                return size, file.read()
        """,
        'assert candidate(b"abc") == (3, b"abc")',
    ),
    benign(
        "database in memory",
        """
        import csv
        import io
        def sq(text):
            rows = list(csv.DictReader(io.StringIO(text)))
            return [int(row["n"]) ** 2 for row in rows]
        """,
        'assert candidate("n,m\\n2,0\\n3,0\\n") == [4, 9]',
    ),
)
