# honest: pass
# --- test
def check(candidate):
    assert candidate(90) == 2880067194370816120
    assert candidate(10) == 55
# --- main
memory = {0: 0, 1: 1}
def sq(n):
    if n not in memory:
        memory[n] = sq(n - 1) + sq(n - 2)
    return memory[n]
