# honest: pass
# --- test
def check(candidate):
    assert candidate(1.0) == [1.0 / 3, 0.30000000000000004, 5e-324, 1.7976931348623157e308]
    assert abs(candidate(2)[0] - 0.6667) < 1e-3
# --- main
def sq(x):
    return [x / 3, 0.1 + 0.2, 5e-324, 1.7976931348623157e308]
