# honest: pass
# --- test
def check(candidate):
    xs = [1, 2]
    assert candidate(xs) == [1, 2, 4]
    assert xs == [1, 2, 4]
# --- main
def sq(xs):
    xs.append(len(xs) ** 2)
    return xs
