# honest: pass
# --- test
def check(candidate):
    assert candidate(120) == 5358359254990966640871840
# --- main
from functools import cache
@cache
def sq(n):
    return n if n < 2 else sq(n - 1) + sq(n - 2)
