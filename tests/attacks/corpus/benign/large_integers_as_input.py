# honest: pass
# --- test
def check(candidate):
    assert candidate(2 ** 4000) == 2 ** 8000
    assert candidate(-(10 ** 30)) == 10 ** 60
# --- main
def sq(n):
    return n * n
