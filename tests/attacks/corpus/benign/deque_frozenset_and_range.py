# honest: pass
# --- test
def check(candidate):
    from collections import deque
    assert list(candidate(5)[0]) == [2, 3, 4]
    assert candidate(2)[0] == deque([0, 1])
    assert candidate(2)[1] == {0, 1}
    assert candidate(5)[2] == range(0, 5, 2)
    assert list(candidate(5)[2]) == [0, 2, 4]
# --- main
from collections import deque
def sq(n):
    return deque(range(n), maxlen=3), frozenset(range(n)), range(0, n, 2)
