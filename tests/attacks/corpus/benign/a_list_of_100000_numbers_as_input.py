# honest: pass
# --- test
def check(candidate):
    assert candidate(list(range(100_000))) == 4999950000
# --- main
def sq(values):
    return sum(values)
