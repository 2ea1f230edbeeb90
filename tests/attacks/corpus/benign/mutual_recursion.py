# honest: pass
# --- test
def check(candidate):
    assert candidate(100) == 10000
# --- main
def even(n):
    return n == 0 or odd(n - 1)
def odd(n):
    return n != 0 and even(n - 1)
def sq(n):
    return n * n if even(n) or odd(n) else None
