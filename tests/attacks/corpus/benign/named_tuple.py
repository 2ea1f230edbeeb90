# honest: pass
# --- test
def check(candidate):
    assert candidate(2) == (2, 4)
    x, y = candidate(3)
    assert y == 9 and x == 3
    assert candidate(3)[1] == 9
    assert isinstance(candidate(1), tuple)
# --- main
from collections import namedtuple
Point = namedtuple("Point", "x y")
def sq(n):
    return Point(n, n * n)
