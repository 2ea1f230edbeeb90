# honest: pass
# --- test
def check(candidate):
    assert candidate(lambda v: v + 5) == [6, 7]
# --- main
def sq(x):
    return [x(v) for v in (1, 2)]
