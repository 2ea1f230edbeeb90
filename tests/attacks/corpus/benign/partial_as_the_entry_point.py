# honest: pass
# --- test
def check(candidate):
    assert candidate(2) == 4
    assert candidate(base=3) == 9
# --- main
from functools import partial
def power(exponent, base):
    return base ** exponent
sq = partial(power, 2)
