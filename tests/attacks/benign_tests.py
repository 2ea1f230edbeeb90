"""Benign programs that are plain, with tests that are not."""

from __future__ import annotations

from tests.attacks.benign_entry import benign
from tests.attacks.entry import Benign

ONE = "def sq(xs):\n    return sorted({x * x for x in xs})\n"

TESTS: tuple[Benign, ...] = (
    benign(
        "loops, set-up and helper functions in the test",
        ONE,
        """
        def squares(n):
            return [i * i for i in range(n)]
        data = {"a": [1, 2], "b": []}
        for n in range(5):
            assert candidate(range(n)) == squares(n)
        for name, values in data.items():
            expected = [v * v for v in values]
            assert candidate(values) == expected, name
        while data:
            _, values = data.popitem()
            assert len(candidate(values)) == len(values)
        """,
    ),
    benign(
        "comprehensions in the test",
        ONE,
        """
        cases = [([1], [1]), ([2, 1], [1, 4])]
        assert all(candidate(given) == expected for given, expected in cases)
        assert [candidate([n]) for n in range(3)] == [[0], [1], [4]]
        assert any(candidate([n]) == [9] for n in range(5))
        assert list(map(candidate, [[1], [2]])) == [[1], [4]]
        """,
    ),
    benign(
        "messages and chained comparisons in the test",
        ONE,
        """
        assert candidate([2]) == [4], "squares"
        assert 0 < candidate([2])[0] <= 4 < 5, f"got {candidate([2])}"
        assert candidate([1]) == candidate([-1]) == [1]
        assert not candidate([])
        assert candidate([2]) != [2]
        assert (candidate([3]) == [9]) is True
        """,
    ),
    benign(
        "membership, identity and types in the test",
        ONE,
        """
        result = candidate([2, 3])
        assert 4 in result
        assert 5 not in result
        assert result is not None
        assert isinstance(result, list)
        assert isinstance(result, (int, list))
        assert type(result) is list
        assert type(result[0]) == int
        assert len(result) == 2
        """,
    ),
    benign(
        "sorted, set, sum and slices in the test",
        ONE,
        """
        result = candidate([3, 1])
        assert sorted(result, reverse=True) == [9, 1]
        assert set(result) == {1, 9}
        assert sum(result) == 10 and max(result) == 9
        assert result[-1:] == [9]
        assert tuple(result) == (1, 9)
        assert str(result) == "[1, 9]"
        assert list(reversed(result)) == [9, 1]
        assert result + [0] == [1, 9, 0]
        """,
    ),
    benign(
        "differences and math in the test",
        "def sq(x):\n    return x ** 0.5\n",
        """
        import math
        assert abs(candidate(2) - 1.41421356) < 1e-6
        assert math.isclose(candidate(9), 3.0)
        assert round(candidate(2), 2) == 1.41
        assert candidate(4) == 2
        assert int(candidate(16)) == 4
        """,
    ),
    benign(
        "try, except, else in the test",
        """
        def sq(x):
            if x < 0:
                raise ValueError("negative")
            return x * x
        """,
        """
        try:
            candidate(-1)
        except ValueError as error:
            assert str(error) == "negative"
        else:
            raise AssertionError("no exception")
        try:
            result = candidate(2)
        except ValueError:
            assert False
        else:
            assert result == 4
        """,
    ),
    benign(
        "two asserts on a line, conditional asserts",
        ONE,
        """
        assert candidate([1]) == [1]; assert candidate([2]) == [4]
        if candidate([]) == []:
            assert candidate([3]) == [9]
        assert (
            candidate([1, 2])
            == [1, 4]
        )
        """,
    ),
    benign(
        "the function by another name in the test",
        ONE,
        """
        f = candidate
        assert f([1]) == [1]
        assert (lambda g: g([2]))(candidate) == [4]
        """,
    ),
    benign(
        "random inputs in the test",
        ONE,
        """
        import random
        generator = random.Random(3)
        for _ in range(20):
            values = [generator.randint(-9, 9) for _ in range(generator.randint(0, 6))]
            assert candidate(values) == sorted({v * v for v in values})
        """,
    ),
    benign(
        "results given back to the function in the test",
        ONE,
        """
        once = candidate([1, 2])
        assert candidate(once) == [1, 16]
        assert candidate(candidate([2])) == [16]
        once.append(3)
        assert once == [1, 4, 3]
        """,
    ),
    benign(
        "the word candidate in a string",
        "def sq(text):\n    return text.split()\n",
        """
        assert candidate("the candidate won") == ["the", "candidate", "won"]
        assert candidate("candidate(2) == 4")[-1] == "4"
        """,
    ),
    Benign(
        "metadata, imports and helpers around the test function",
        "def sq(x):\n    return x*x\n",
        "import math\n\nMETADATA = {'author': 'somebody'}\nCASES = ((2, 4), (3, 9))\n\n\n"
        "def close(a, b):\n    return math.isclose(a, b)\n\n\n"
        "def check(candidate):\n    for given, expected in CASES:\n"
        "        assert close(candidate(given), expected)\n",
    ),
    Benign(
        "test that calls by name",
        "def sq(x):\n    return x*x\n",
        "def check(candidate):\n    assert sq(2) == 4\n    assert candidate(3) == sq(3)\n",
    ),
)
