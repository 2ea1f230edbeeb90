"""Programs and tests that square a number, as many tests of environments and sandboxes need them."""

from __future__ import annotations

SQUARE = "def sq(x):\n    return x * x\n"


def check(*lines: str) -> str:
    """Return a test function with these lines as its body."""
    return "def check(candidate):\n" + "".join(f"    {line}\n" for line in lines)


SQUARES = check("assert candidate(2) == 4", "assert candidate(3) == 9")
