# honest: pass
# --- test
def check(candidate):
    assert candidate(1) == [1]
    assert candidate(2) == [1, 2]
    assert candidate(3, []) == [3]
# --- main
def sq(x, seen=[]):
    seen.append(x)
    return list(seen)
