# honest: pass
# --- test
def check(candidate):
    f = candidate
    assert f([1]) == [1]
    assert (lambda g: g([2]))(candidate) == [4]
# --- main
def sq(xs):
    return sorted({x * x for x in xs})
