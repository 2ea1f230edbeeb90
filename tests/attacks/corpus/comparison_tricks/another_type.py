# honest: fail
# --- test
def check(candidate):
    assert candidate(4) == int
# --- main
def sq(x):
    return float
