# honest: pass
# --- test
def check(candidate):
    assert candidate(900) == 810000
    assert candidate(3) == 9
# --- main
def sq(n):
    return 0 if n == 0 else sq(n - 1) + 2 * n - 1
