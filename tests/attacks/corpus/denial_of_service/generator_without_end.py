# honest: fail
# --- test
def check(candidate):
    assert list(candidate(2)) == [0, 1]
    assert list(candidate(3)) == [0, 1, 2]
# --- main
import itertools

def sq(x):
    return itertools.count()
