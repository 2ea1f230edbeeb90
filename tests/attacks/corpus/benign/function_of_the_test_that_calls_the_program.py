# honest: pass
# --- test
def check(candidate):
    def g(n):
        return 0 if n == 0 else 1 + candidate(g, n - 1)

    assert candidate(g, 5) == 5
# --- main
def sq(g, n):
    return g(n)
