# honest: pass
# --- test
def check(candidate):
    assert candidate(5000) == 10 ** 5000 + 7
    assert candidate(5000) % 10 == 7
    assert candidate(2) == 107
# --- main
def sq(n):
    return 10 ** n + 7
