# honest: pass
# --- test
def check(candidate):
    xs = [3, 1, 2]
    candidate(xs)
    assert xs == [1, 2, 3]
    ys = [2, 1]
    assert candidate(ys) is None
    assert ys == [1, 2]
# --- main
def sq(xs):
    xs.sort()
