# honest: pass
# --- test
def check(candidate):
    assert candidate(lambda a, b: (a, b)) == (1, [2])
# --- main
def sq(x):
    return x(a=1, b=[2])
