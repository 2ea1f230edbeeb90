# honest: pass
# --- test
def check(candidate):
    assert sq(2) == 4
    assert candidate(3) == sq(3)
# --- main
def sq(x):
    return x*x
