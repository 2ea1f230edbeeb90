"""Whether the helper's result may be read before something else takes its place, on any way through the code."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from tests.envs.test_teamwork import use

IGNORED = {
    "thrown away": ("aux(x)\nreturn x", "Line 3: the result is thrown away"),
    "never read": ("y = aux(x)\nreturn x", "Line 3: the result is assigned to y but never used"),
    "annotated, never read": (
        "y: int = aux(x)\nreturn x",
        "Line 3: the result is assigned to y but never used",
    ),
    "unpacked, never read": (
        "a, b = aux(x)\nreturn x",
        "Line 3: the result is assigned to a but never used",
    ),
    "unpacked beside what is read": (
        "a, b = x, aux(x)\nreturn a",
        "Line 3: the result is assigned to b but never used",
    ),
    "unpacked among the rest": (
        "a, *rest, b = x, 1, aux(x), 2\nreturn a + b",
        "Line 3: the result is assigned to rest but never used",
    ),
    "looped over, never read": (
        "for v in [1, aux(x)]:\n    x += 1\nreturn x",
        "Line 3: the result is assigned to v but never used",
    ),
    "matched by anything": (
        "match aux(x):\n    case v:\n        return x",
        "Line 3: the result is thrown away",
    ),
    "replaced before it is read": (
        "y = aux(x)\ny = x\nreturn y",
        "Line 3: the result is assigned to y but never used",
    ),
    "collected, never read": (
        "y = [aux(v) for v in xs]\nreturn x",
        "Line 3: the result is assigned to y but never used",
    ),
    "replaced on all ways": (
        "y = aux(x)\nif x:\n    y = 1\nelif xs:\n    y = 2\nelse:\n    return 3\nreturn y",
        "Line 3: the result is assigned to y but never used",
    ),
    "replaced if all goes well": (
        "try:\n    y = aux(x)\nexcept ValueError:\n    y = 1\nelse:\n    y = 2\nreturn y",
        "Line 4: the result is assigned to y but never used",
    ),
    "replaced at once in a try": (
        "try:\n    y = aux(x)\n    y = x * x\nexcept ValueError:\n    pass\nreturn y",
        "Line 4: the result is assigned to y but never used",
    ),
    "replaced in finally": (
        "y = 0\ntry:\n    y = aux(x)\n    x()\nfinally:\n    y = 1\nreturn y",
        "Line 5: the result is assigned to y but never used",
    ),
    "read on another way": (
        "y = 0\nif x:\n    y = aux(x)\n    return 1\nreturn y",
        "Line 5: the result is assigned to y but never used",
    ),
    "read only before": (
        "y = 1\nz = y\ny = aux(x)\nreturn z",
        "Line 5: the result is assigned to y but never used",
    ),
}


@pytest.mark.parametrize(("body", "reason"), IGNORED.values(), ids=IGNORED)
def test_a_result_that_nothing_reads_is_ignored(body, reason):
    found = use(body)
    assert found.called and found.ignored
    assert found.reasons == (reason,)


READ = {
    "replaced unless that fails": "y = aux(x)\ntry:\n    y = int(x)\nexcept ValueError:\n    pass\nreturn y",
    "replaced if there is an entry": "y = aux(x)\ntry:\n    y = xs[x]\nexcept KeyError:\n    pass\nreturn y",
    "kept where a handler has its own": "try:\n    y = aux(x)\nexcept ValueError:\n    y = 0\nreturn y * 2",
    "a handler's value": (
        "try:\n    y = int(x)\nexcept ValueError:\n    y = 0\nexcept TypeError:\n    y = aux(x)\nreturn y * 2"
    ),
    "the value of a try's else": (
        "try:\n    y = int(x)\nexcept ValueError:\n    y = 0\nelse:\n    y = aux(y)\nreturn y * 2"
    ),
    "replaced by itself in a try's else": (
        "try:\n    y = aux(x)\nexcept ValueError:\n    y = 0\nelse:\n    y += 1\nreturn y"
    ),
    "inside two tries": (
        "try:\n    try:\n        y = aux(x)\n    except KeyError:\n        y = 1\n"
        "finally:\n    z = None\nreturn y + 1"
    ),
    "read after finally": "try:\n    y = aux(x)\nfinally:\n    x = 1\nreturn y + x",
    "read after a break": (
        "y = 0\nfor v in xs:\n    if v:\n        y = aux(v)\n        break\n    y = 1\nelse:\n    y = 2\n"
        "return y + 1"
    ),
    "read after the last round": (
        "y = 0\nfor v in xs:\n    if v:\n        y = aux(v)\n        continue\n    y = 1\nreturn y + 1"
    ),
    "read after a break out of a try": (
        "while True:\n    try:\n        y = aux(x)\n        break\n    finally:\n        x += 1\n    y = 0\n"
        "return y + 1"
    ),
    "read in finally behind a jump": (
        "for v in xs:\n    try:\n        y = aux(v)\n        with v:\n            break\n"
        "    finally:\n        return y\nreturn 0"
    ),
    "replaced after an exception only": (
        "from contextlib import suppress\ny = 0\nwith suppress(ValueError):\n    y = aux(x)\n    z = int(xs)\n"
        "    y = z\nreturn y"
    ),
    "read in one case": (
        "y = aux(x)\nmatch x:\n    case 1:\n        y = 1\n    case 2:\n        return y\nreturn 0"
    ),
    "replaced where the loop may not come": "y = aux(x)\nfor v in xs:\n    y = v\nreturn y",
    "read in the next round of a loop": "y = 0\nfor v in xs:\n    x += y\n    y = aux(v)\nreturn x",
    "read after the branch": "y = 0\nif x:\n    y = aux(x)\nreturn y",
    "read in a nested function": "y = aux(x)\ndef f():\n    return y\nreturn f()",
    "read as one of the rest": "a, *rest = x, 1, aux(x)\nreturn rest",
    "in a display that does not fit": "a, b = aux(x), 1, 2\nreturn b",
    "read after a loop over it": "for v in [1, aux(x)]:\n    x += 1\nreturn v",
    "decides how often a loop runs": "for _ in [1, *aux(x)]:\n    x += 1\nreturn x",
    "one of the cases for it": "match aux(x):\n    case 1:\n        return x\nreturn 0",
    "taken by a pattern": "match aux(x):\n    case [v, *_]:\n        pass\nreturn v",
    "times a number that may change": "n = 0\nif x:\n    n = 1\nreturn aux(x) * n",
    "one of two names is read": "a, b = aux(x)\nreturn b",
    "read by an augmented assignment": "y = aux(x)\ny += 1\nreturn y",
    "stored in a list": "ys = [0]\nys[0] = aux(x)\nreturn ys",
    "stored in an attribute": "main.y = aux(x)\nreturn x",
    "read in a handler": "y = 0\ntry:\n    y = aux(x)\n    x()\nexcept TypeError:\n    return y\nreturn 1",
    "replaced in one branch only": "y = aux(x)\nif x:\n    y = 1\nreturn y",
    "read where it is replaced": "y = aux(x)\ny = y + 1\nreturn y",
    "a global": "global y\ny = aux(x)\nreturn x",
}


@pytest.mark.parametrize("body", READ.values(), ids=READ)
def test_a_result_that_may_be_read_is_not_ignored(body):
    found = use(body)
    assert found.called and not found.ignored


# What is called unused is never seen to be used

SIMPLE = (
    "y = aux(0)|y = 1|y = may_fail()|z = y|out.append(y)|out.append(z)|pass|may_fail()|return y|break|"
    "raise Fault|y, z = z, y|z, *rest = y, aux(0), z|z, (rest, w) = aux(0), (z, y)|z = {0: y, 1: z}[1]"
)
NESTED = {
    "if coin():": ["else:"],
    "for _ in range(3):": ["else:"],
    "for z in [y]:": ["else:"],
    "for z, y in [(y, aux(0))]:": [],
    "while coin():": [],
    "with suppress(Fault):": [],
    "match coin():\n    case True:": [],
    "match aux(0):\n    case _:": [],
    "match y:\n    case z:": [],
    "match [aux(0), z]:\n    case y, *w:": [],
    "try:": ["except Fault:", "finally:"],
    "try: ": ["except Fault:", "else:", "finally:"],
    "try:  ": ["finally:"],
}


def block(rng: random.Random, depth: int, loop: bool) -> list[str]:
    """Random statements that assign, read, branch and jump."""
    lines: list[str] = []
    for _ in range(rng.randint(1, 3)):
        if depth == 3 or rng.random() < 0.5:
            statement = rng.choice(SIMPLE.split("|"))
            lines.append(statement if loop or statement != "break" else "may_fail()")
            continue
        opening = rng.choice(list(NESTED))
        for header in [
            opening,
            *(h for h in NESTED[opening] if h != "else:" or rng.random() < 0.5),
        ]:
            inside = loop or header.startswith(("for", "while"))
            indent = " " * (8 if header.startswith("match") else 4)
            lines += header.splitlines()
            lines += [indent + line for line in block(rng, depth + 1, inside)]
    return lines


class Fault(Exception):
    """What random programs raise and catch."""


def shows_the_result(code: str, seed: int) -> bool:
    """Whether one run of `main` lets out what the helper gave."""
    rng, result, out = random.Random(seed), object(), []
    flips = iter([rng.random() < 0.5 for _ in range(99)])

    def may_fail() -> None:
        if rng.random() < 0.4:
            raise Fault

    names = {"aux": lambda x: result, "coin": lambda: next(flips), "out": out, "suppress": suppress}
    exec(code, names | {"Fault": Fault, "may_fail": may_fail}, names)
    with suppress(Fault, RuntimeError, StopIteration):
        out.append(names["main"](0))
    return result in out


def test_no_result_that_comes_out_of_a_random_program_is_called_unused():
    unused = 0
    for seed in range(500):
        body = "\n".join(["y = z = 0", *block(random.Random(seed), 0, False), "return z"])
        if "aux" in body and (use(body).ignored or not use(body).called):
            code = "def main(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
            unused += 1
            assert not any(shows_the_result(code, run) for run in range(20)), code
    assert unused > 20
