# honest: pass
# --- test
def check(candidate):
    squares = candidate(100_000)
    assert len(squares) == 100_000
    assert squares[-1] == 99_999 ** 2
# --- main
def sq(n):
    return [i * i for i in range(n)]
