# honest: some
# --- test
def check(candidate):
    got = candidate(2)
    assert got == 4
    got = candidate(-2)
    assert got == 4
# --- main
def sq(x):
    if x < 0:
        raise ValueError(x)
    return x * x
