"""Benign programs: entry points of every kind, and what they remember."""

from __future__ import annotations

from tests.attacks.benign_entry import benign
from tests.attacks.entry import Benign

CALLABLES: tuple[Benign, ...] = (
    benign(
        "generator, consumed by list",
        """
        def sq(n):
            for i in range(n):
                yield i * i
        """,
        """
        assert list(candidate(4)) == [0, 1, 4, 9]
        assert list(candidate(0)) == []
        """,
    ),
    benign(
        "generator, consumed by next, for, sorted, sum and in",
        """
        def sq(values):
            yield from (v * v for v in values)
        """,
        """
        numbers = candidate([3, 1, 2])
        assert next(numbers) == 9
        assert next(numbers) == 1
        assert sorted(candidate([3, 1, 2])) == [1, 4, 9]
        total = 0
        for number in candidate([1, 2]):
            total += number
        assert total == 5
        assert sum(candidate((1, 2, 3))) == 14
        assert 4 in candidate([1, 2])
        assert next(candidate([]), None) is None
        """,
    ),
    benign(
        "infinite generator, cut by islice",
        """
        def sq():
            n = 0
            while True:
                yield n * n
                n += 1
        """,
        """
        from itertools import islice
        assert list(islice(candidate(), 5)) == [0, 1, 4, 9, 16]
        assert [n for n, _ in zip(candidate(), range(3))] == [0, 1, 4]
        """,
    ),
    benign(
        "map, zip and reversed objects",
        """
        def sq(values):
            return map(lambda v: v * v, values)
        """,
        """
        assert list(candidate([1, 2])) == [1, 4]
        assert tuple(zip(candidate([1, 2]), "ab")) == ((1, "a"), (4, "b"))
        """,
    ),
    benign(
        "closure, called by the test",
        """
        def sq(power):
            def raised(x):
                return x ** power
            return raised
        """,
        """
        assert candidate(2)(3) == 9
        assert candidate(3)(2) == 8
        cube = candidate(3)
        assert [cube(n) for n in (1, 2)] == [1, 8]
        """,
    ),
    benign(
        "closure that counts",
        """
        def sq():
            count = 0
            def step():
                nonlocal count
                count += 1
                return count * count
            return step
        """,
        """
        step = candidate()
        assert step() == 1
        assert step() == 4
        assert candidate()() == 1
        """,
    ),
    benign(
        "callables passed by the test",
        """
        def sq(values, key, keep=None):
            return [key(v) for v in values if keep is None or keep(v)]
        """,
        """
        assert candidate([1, 2], lambda v: v * v) == [1, 4]
        assert candidate([1, 2, 3], str, lambda v: v > 1) == ["2", "3"]
        def negative(v):
            return -v
        assert candidate([1], key=negative) == [-1]
        """,
    ),
    benign(
        "key function passed by the test",
        """
        def sq(words, key):
            return max(sorted(words, key=key), key=key)
        """,
        """
        assert candidate(["a", "ccc", "bb"], len) == "ccc"
        assert candidate([3, -5, 4], abs) == -5
        """,
    ),
    benign(
        "decorators",
        """
        import functools

        def twice(function):
            @functools.wraps(function)
            def both(*args, **kwargs):
                return function(*args, **kwargs) * 2
            return both

        @twice
        @functools.lru_cache(maxsize=None)
        def sq(x):
            return x * x
        """,
        """
        assert candidate(3) == 18
        assert candidate(x=2) == 8
        """,
    ),
    benign(
        "object with __call__ as the entry point",
        """
        class Squarer:
            def __init__(self):
                self.calls = 0
            def __call__(self, x):
                self.calls += 1
                return x * x
        sq = Squarer()
        """,
        """
        assert candidate(2) == 4
        assert candidate(3) == 9
        """,
    ),
    benign(
        "class as the entry point, converted by the test",
        """
        class sq(int):
            def __new__(cls, x):
                return super().__new__(cls, x * x)
        """,
        """
        assert candidate(2) == 4
        assert candidate(3) + 1 == 10
        """,
    ),
    benign(
        "partial as the entry point",
        """
        from functools import partial
        def power(exponent, base):
            return base ** exponent
        sq = partial(power, 2)
        """,
        """
        assert candidate(2) == 4
        assert candidate(base=3) == 9
        """,
    ),
    benign(
        "builtin as the entry point",
        """
        sq = pow
        """,
        """
        assert candidate(2, 2) == 4
        assert candidate(3, 2) == 9
        assert candidate(2, 10, 1000) == 24
        """,
    ),
    benign(
        "lambda as the entry point",
        """
        sq = lambda x, *, power=2: x ** power
        """,
        """
        assert candidate(2) == 4
        assert candidate(2, power=3) == 8
        """,
    ),
    benign(
        "bound method as the entry point",
        """
        class Table(dict):
            def __missing__(self, x):
                self[x] = x * x
                return self[x]
        sq = Table().__getitem__
        """,
        """
        assert candidate(2) == 4
        assert candidate(2) == 4
        assert candidate(-3) == 9
        """,
    ),
    benign(
        "asynchronous inside",
        """
        import asyncio

        async def square(x):
            await asyncio.sleep(0)
            return x * x

        async def squares(values):
            return await asyncio.gather(*(square(v) for v in values))

        def sq(values):
            return asyncio.run(squares(values))
        """,
        """
        assert candidate([1, 2, 3]) == [1, 4, 9]
        assert candidate([]) == []
        """,
    ),
    benign(
        "threads inside",
        """
        import threading

        def sq(values):
            results = {}
            def work(v):
                results[v] = v * v
            threads = [threading.Thread(target=work, args=(v,)) for v in values]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return results
        """,
        """
        assert candidate([1, 2, 3]) == {1: 1, 2: 4, 3: 9}
        assert candidate(range(8))[7] == 49
        """,
    ),
    benign(
        "pool of threads inside",
        """
        from concurrent.futures import ThreadPoolExecutor

        def sq(values):
            with ThreadPoolExecutor(3) as pool:
                return list(pool.map(lambda v: v * v, values))
        """,
        "assert candidate([1, 2, 3, 4]) == [1, 4, 9, 16]",
    ),
)

STATE: tuple[Benign, ...] = (
    benign(
        "recursion to a depth of 900",
        """
        def sq(n):
            return 0 if n == 0 else sq(n - 1) + 2 * n - 1
        """,
        """
        assert candidate(900) == 810000
        assert candidate(3) == 9
        """,
    ),
    benign(
        "higher recursion limit",
        """
        import sys
        sys.setrecursionlimit(5000)
        def sq(n):
            return 0 if n == 0 else sq(n - 1) + 2 * n - 1
        """,
        """
        assert candidate(3000) == 9000000
        """,
    ),
    benign(
        "mutual recursion",
        """
        def even(n):
            return n == 0 or odd(n - 1)
        def odd(n):
            return n != 0 and even(n - 1)
        def sq(n):
            return n * n if even(n) or odd(n) else None
        """,
        "assert candidate(100) == 10000",
    ),
    benign(
        "memory in a dict",
        """
        memory = {0: 0, 1: 1}
        def sq(n):
            if n not in memory:
                memory[n] = sq(n - 1) + sq(n - 2)
            return memory[n]
        """,
        """
        assert candidate(90) == 2880067194370816120
        assert candidate(10) == 55
        """,
    ),
    benign(
        "global counter",
        """
        calls = 0
        def sq(x):
            global calls
            calls += 1
            return x * x + calls
        """,
        """
        assert candidate(1) == 2
        assert candidate(1) == 3
        assert candidate(1) == 4
        """,
    ),
    benign(
        "mutable default",
        """
        def sq(x, seen=[]):
            seen.append(x)
            return list(seen)
        """,
        """
        assert candidate(1) == [1]
        assert candidate(2) == [1, 2]
        assert candidate(3, []) == [3]
        """,
    ),
    benign(
        "cache of functools",
        """
        from functools import cache
        @cache
        def sq(n):
            return n if n < 2 else sq(n - 1) + sq(n - 2)
        """,
        "assert candidate(120) == 5358359254990966640871840",
    ),
    benign(
        "attribute of the function",
        """
        def sq(x):
            sq.last = getattr(sq, "last", 0) + x
            return sq.last
        """,
        """
        assert candidate(2) == 2
        assert candidate(3) == 5
        """,
    ),
    benign(
        "in place",
        """
        def sq(xs):
            xs.sort()
        """,
        """
        xs = [3, 1, 2]
        candidate(xs)
        assert xs == [1, 2, 3]
        ys = [2, 1]
        assert candidate(ys) is None
        assert ys == [1, 2]
        """,
    ),
    benign(
        "in place, nested",
        """
        def sq(grid):
            for row in grid:
                row.reverse()
            grid.append([0])
        """,
        """
        grid = [[1, 2], [3, 4]]
        candidate(grid)
        assert grid == [[2, 1], [4, 3], [0]]
        """,
    ),
    benign(
        "in place, dict and set",
        """
        def sq(d, s):
            d["squares"] = [n * n for n in sorted(s)]
            s.clear()
            return len(d)
        """,
        """
        d, s = {"a": 1}, {1, 2}
        assert candidate(d, s) == 2
        assert d == {"a": 1, "squares": [1, 4]}
        assert s == set()
        """,
    ),
    benign(
        "input stays as it was",
        """
        def sq(xs):
            return [x * x for x in sorted(xs)]
        """,
        """
        xs = [2, 1]
        assert candidate(xs) == [1, 4]
        assert xs == [2, 1]
        """,
    ),
    benign(
        "input is returned",
        """
        def sq(xs):
            xs.append(len(xs) ** 2)
            return xs
        """,
        """
        xs = [1, 2]
        assert candidate(xs) == [1, 2, 4]
        assert xs == [1, 2, 4]
        """,
    ),
    benign(
        "random with a seed of its own",
        """
        import random
        def sq(n):
            generator = random.Random(7)
            values = list(range(n))
            generator.shuffle(values)
            random.seed(1)
            first = random.random()
            random.seed(1)
            return sorted(values) if first == random.random() else None
        """,
        """
        assert candidate(4) == [0, 1, 2, 3]
        """,
    ),
    benign(
        "sleeps a little",
        """
        import time
        def sq(x):
            begin = time.monotonic()
            time.sleep(0.01)
            return x * x if time.monotonic() > begin else None
        """,
        "assert candidate(3) == 9",
    ),
    benign(
        "prints",
        """
        import sys
        print("loading", end="")
        def sq(x):
            print("squaring", x, flush=True)
            sys.stderr.write("warning\\n")
            sys.stdout.write("")
            return x * x
        """,
        "assert candidate(3) == 9",
    ),
    benign(
        "warns",
        """
        import warnings
        def sq(x):
            warnings.warn("deprecated", DeprecationWarning, stacklevel=2)
            return x ** 2
        """,
        "assert candidate(3) == 9",
    ),
    benign(
        "logs",
        """
        import logging
        logging.basicConfig(level=logging.INFO)
        logger = logging.getLogger(__name__)
        def sq(x):
            logger.info("squaring %s", x)
            return x * x
        """,
        "assert candidate(3) == 9",
    ),
)
