# honest: pass
# --- test
def check(candidate):
    assert candidate(2, 2) == 4
    assert candidate(3, 2) == 9
    assert candidate(2, 10, 1000) == 24
# --- main
sq = pow
