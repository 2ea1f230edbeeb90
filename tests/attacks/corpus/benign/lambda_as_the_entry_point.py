# honest: pass
# --- test
def check(candidate):
    assert candidate(2) == 4
    assert candidate(2, power=3) == 8
# --- main
sq = lambda x, *, power=2: x ** power
