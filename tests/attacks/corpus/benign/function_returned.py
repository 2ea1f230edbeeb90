# honest: pass
# --- test
def check(candidate):
    assert candidate(2)(3) == 5
# --- main
def sq(x):
    return lambda y: x + y
