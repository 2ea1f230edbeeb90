"""Examples are read as people read them, and nothing else is."""

from __future__ import annotations

import pytest

from llm_decpomdp.benchmarks.audit.examples import contradictions, examples
from llm_decpomdp.envs.datasets.humaneval import CodeTask


def told(text: str) -> list[str]:
    return [str(example) for example in examples(text, "f")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (">>> f(2)\n4", ["f(2) -> 4"]),
        ("    >>>f(2)\n    4\n    # two squared", ["f(2) -> 4"]),
        (">>> f(2) == 4\nTrue", ["f(2) == 4 -> True", "f(2) -> 4"]),
        (">>> f(2) == 4", ["f(2) -> 4"]),
        (">>> sorted(f([2]))\n[1,\n 2]", ["sorted(f([2])) -> [1, 2]"]),
        (">>> print(f(2))\n4", ["str(f(2)) -> '4'"]),
        ("f(2) == 4", ["f(2) -> 4"]),
        ("For f(2) => 4, as", ["f(2) -> 4"]),
        ("f('a)', k=(1, 2)) ➞ 'x'.", ["f('a)', k=(1, 2)) -> 'x'"]),
        ("f(2) # => 4", ["f(2) -> 4"]),
        ("f(2)  # 4", ["f(2) -> 4"]),
        ("f(2) returns 4 because 2 * 2 is 4", ["f(2) -> 4"]),
        ("f(2) -> [4] (a square)", ["f(2) -> [4]"]),
        ("f(2) -> 4; f(-3) -> 9", ["f(2) -> 4", "f(-3) -> 9"]),
        ("f(1) -> 0.5 # half", ["f(1) -> 0.5"]),
    ],
)
def test_examples_of_many_forms_are_read(text: str, expected: list[str]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "f(2) ==> 19 - 5 - 6 = 8",
        "f(1) = 3, f(n) = f(n - 1) + 1",
        "f(a) => False",
        "f(2) => true",
        "f(2) is great",
        "g.f(2) -> 4",
        ">>> f(x)\n4",
        ">>> f(0)\nTraceback (most recent call last):\nValueError: zero",
        ">>> f(2)\n<object at 0x7f00>",
        ">>> x = f(2)",
        "def f(x) -> int:",
        "f(2 -> 4",
    ],
)
def test_what_only_looks_like_an_example_is_left_alone(text: str) -> None:
    assert told(text) == []


def task(text: str, *asserts: str) -> CodeTask:
    body = "".join(f"    assert {one}\n" for one in asserts)
    return CodeTask(
        task_id="a",
        index=0,
        prompt=f'def f(x):\n    """{text}"""\n',
        test=f"def check(candidate):\n{body}",
        entry_point="f",
    )


@pytest.mark.parametrize(
    ("text", "condition", "agrees"),
    [
        ("f(2) -> 4", "candidate(2) == 4", True),
        ("f(2) -> 4", "candidate(2) == 5", False),
        ("f(2) -> 4", "candidate(3) == 5", True),
        ("f(2) -> 0.1", "candidate(2) == 0.1 + 1e-9", True),  # no literal
        ("f(2) -> 0.1", "candidate(2) == 0.100000000001", True),
        ("f(2) -> 0.1", "candidate(2) == 0.11", False),
        ("f([1]) -> [1, 2]", "candidate([1]) == (1, 2)", False),
        ("f(2) -> True", "candidate(2)", True),
        ("f(2) -> True", "not candidate(2)", False),
        ("f(2) -> None", "candidate(2) is None", True),
        ("f(2) -> None", "candidate(2) is None, 'message'", True),
        ("f(2) -> 4", "abs(candidate(2) - 5) < 1", True),  # no comparison with a value
        ("f(2) -> 4", "candidate(2) != 4", True),
    ],
)
def test_examples_must_agree_with_asserts(text: str, condition: str, agrees: bool) -> None:
    found = list(contradictions(task(text, condition)))
    assert (not found) == agrees and all(remark.fault for remark in found)
