"""What a fixer submits: quotations of the program, other bindings, and bare bodies."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.bugfix.roles import submission
from llm_decpomdp.envs.bugfix.tasks import known_class

PROGRAM = "LIMIT = 3\n\n\ndef low(x):\n    return x > LIMIT\n\n\ndef mid(x):\n    return x\n"
OLD = "def low(x):\n    return x > LIMIT\n"
FIX = "def low(x):\n    return x < LIMIT\n"
MID = "def mid(x):\n    return x\n"
FENCE = "```"


def block(code):
    return f"{FENCE}python\n{code}{FENCE}\n"


def submit(text, owned=("low",), opening=""):
    others = tuple(name for name in ("low", "mid") if name not in owned)
    return submission(text, owned, others, ("LIMIT", *others), opening, PROGRAM)


@pytest.mark.parametrize(
    "text",
    [
        f"Fixed:\n{block(FIX)}It was:\n{block(OLD)}",
        f"It was:\n{block(OLD)}Fixed:\n{block(FIX)}",
        f"Fixed:\n{block(FIX)}The whole program was:\n{block(PROGRAM)}",
        f"Fixed:\n\n{FIX}\nIt wasn't right:\n\n{OLD}",
    ],
)
def test_a_block_that_quotes_the_program_does_not_count_beside_a_fix(text):
    part = submit(text)
    assert part.submitted["low"].strip() == FIX.strip()
    assert part.code.strip() == FIX.strip()


def test_functions_that_stay_the_same_are_submitted():
    assert submit(f"It's right:\n\n{OLD}").submitted["low"].strip() == OLD.strip()
    draft = FIX.replace("<", "!=") + "\n\n" + MID.replace("x\n", "-x\n")
    part = submit(f"Idea:\n{block(draft)}Better:\n{block(FIX + MID)}", ("low", "mid"))
    assert {name: text.strip() for name, text in part.submitted.items()} == {
        "low": FIX.strip(),
        "mid": MID.strip(),
    }


def test_other_bindings_are_submitted_with_their_text():
    part = submit("low = lambda x: x < LIMIT\n")
    assert part.submitted == {"low": "low = lambda x: x < LIMIT"}
    part = submit(f"if True:\n    {FIX.replace(chr(10), chr(10) + '    ')}")
    assert part.submitted["low"].startswith("if True:\n    def low(x):")


def test_the_body_of_the_only_function_is_submitted():
    part = submit("    return x < LIMIT\n", opening="def low(x):\n")
    assert part.submitted["low"].strip() == FIX.strip()


def test_a_method_that_only_quotes_the_class_does_not_count_beside_a_fix():
    methods = "    def low(self):\n        return 1\n\n    def mid(self):\n        return 2\n"
    known = known_class(f"class Box:\n{methods}", "Box")
    fix, old = "def low(self):\n    return 0\n", "def low(self):\n    return 1\n"
    for text in (f"{block(fix)}It was:\n{block(old)}", f"{block(old)}Now:\n{block(fix)}"):
        assert known.read("fixer_0", text, ("low",)).submitted["low"].strip() == fix.strip()
    assert known.read("fixer_0", old, ("low",)).submitted["low"].strip() == old.strip()
