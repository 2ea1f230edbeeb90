# honest: pass
# --- test
def check(candidate):
    assert [f() for f in candidate(2)] == [2, -2]
# --- main
def sq(x):
    return [lambda: x, lambda: -x]
