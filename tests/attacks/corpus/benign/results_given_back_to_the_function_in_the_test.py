# honest: pass
# --- test
def check(candidate):
    once = candidate([1, 2])
    assert candidate(once) == [1, 16]
    assert candidate(candidate([2])) == [16]
    once.append(3)
    assert once == [1, 4, 3]
# --- main
def sq(xs):
    return sorted({x * x for x in xs})
