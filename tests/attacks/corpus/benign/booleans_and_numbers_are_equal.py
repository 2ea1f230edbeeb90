# honest: pass
# --- test
def check(candidate):
    assert candidate(1) == 1
    assert candidate(1.0) is True
    assert candidate(0) == False
# --- main
def sq(x):
    return x == 1
