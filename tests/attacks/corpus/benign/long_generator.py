# honest: pass
# --- test
def check(candidate):
    assert sum(candidate(5000)) == sum(range(5000))
# --- main
def sq(x):
    yield from range(x)
