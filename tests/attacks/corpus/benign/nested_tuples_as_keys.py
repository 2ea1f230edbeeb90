# honest: pass
# --- test
def check(candidate):
    assert candidate(1) == {(0, (0, "k")): {frozenset([0])}}
    assert candidate(2)[(0, (1, "k"))] == {frozenset([1, 0])}
# --- main
def sq(n):
    return {(i, (j, "k")): {frozenset([i, j])} for i in range(n) for j in range(n)}
