# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 3 ** 20000
# --- main
def sq(x):
    return x ** 20000
