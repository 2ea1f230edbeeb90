# honest: fail
# entry_point: squares
# --- test
def check(candidate):
    assert any(x == 4 for x in candidate(3))
# --- main
import itertools

def squares(n):
    return itertools.repeat(0)
