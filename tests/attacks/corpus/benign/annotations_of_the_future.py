# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 9
# --- main
from __future__ import annotations
def sq(x: Undefined | None, *rest: also.undefined) -> int | Missing:
    y: Unknown = x * x
    return y
