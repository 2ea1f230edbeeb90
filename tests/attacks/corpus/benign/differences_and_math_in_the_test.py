# honest: pass
# --- test
def check(candidate):
    import math
    assert abs(candidate(2) - 1.41421356) < 1e-6
    assert math.isclose(candidate(9), 3.0)
    assert round(candidate(2), 2) == 1.41
    assert candidate(4) == 2
    assert int(candidate(16)) == 4
# --- main
def sq(x):
    return x ** 0.5
