# honest: fail
# --- test
def check(candidate):
    f = candidate(2)
    while callable(f):
        f = f()
    assert f
# --- main
def sq(x):
    return lambda *arguments: sq(x)
