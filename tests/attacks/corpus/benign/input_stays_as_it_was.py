# honest: pass
# --- test
def check(candidate):
    xs = [2, 1]
    assert candidate(xs) == [1, 4]
    assert xs == [2, 1]
# --- main
def sq(xs):
    return [x * x for x in sorted(xs)]
