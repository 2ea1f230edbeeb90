# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 9
# --- main
def endless(n):
    return endless(n + 1)
def sq(x):
    try:
        endless(0)
    except RecursionError:
        return x * x
