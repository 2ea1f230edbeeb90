# honest: pass
# --- test
def check(candidate):
    assert (lambda a, b: [next(a), next(b), next(a)])(candidate(1), candidate(2)) == [1, 2, 1]
# --- main
def sq(x):
    return map(abs, [x, -x])
