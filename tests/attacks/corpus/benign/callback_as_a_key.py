# honest: pass
# --- test
def check(candidate):
    assert candidate(abs) == [1, 3, -4]
# --- main
def sq(x):
    return sorted([3, -4, 1], key=x)
