# honest: fail
# --- test
def check(candidate):
    xs = [3, 1]
    candidate(xs)
    assert xs == [1, 3]
# --- main
def sq(xs):
    return sorted(xs)
