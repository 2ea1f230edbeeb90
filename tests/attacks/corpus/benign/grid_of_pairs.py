# honest: pass
# --- test
def check(candidate):
    assert len(candidate(150)) == 22500
# --- main
def sq(n):
    return {(i, j) for i in range(n) for j in range(n)}
